#include "layout/worker_layout.h"

#include <algorithm>
#include <limits>
#include <span>

#include "base/checked.h"
#include "layout/disjoint.h"
#include "layout/quote.h"
#include "layout/strided.h"
#include "layout/utf8.h"

namespace wb {
namespace {

// Of one check: some seconds. Only a layout that no framework makes comes near.
constexpr int64_t kBudget = int64_t{1} << 25;
constexpr uint64_t kMaxBufferBytes = uint64_t{1} << 62;

Status check_buffer(const BufferInfo& buffer) {
  const auto fault = [&](const std::string& what) {
    return Status(Code::kInvalidArgument, "buffer " + quote(buffer.name) + ": " + what);
  };
  if (!is_utf8(buffer.name)) return fault("its name is not valid UTF-8");
  const DTypeInfo* type = find_dtype(buffer.dtype);
  if (type == nullptr) return fault("unknown dtype");
  if (buffer.bytes > kMaxBufferBytes) return fault("larger than 2^62 bytes");
  bool empty = false;
  for (const int64_t extent : buffer.shape) {
    if (extent < 0) return fault("a negative dimension");
    if (extent == 0) empty = true;
  }
  if (empty) return Status();
  uint64_t elements = 1;
  for (const int64_t extent : buffer.shape) {
    const auto grown = checked_mul(elements, static_cast<uint64_t>(extent));
    if (!grown || *grown > kMaxBufferBytes) return fault("its shape has too many elements");
    elements = *grown;
  }
  const auto bits = static_cast<unsigned __int128>(elements) * type->bits;
  if ((bits + 7) / 8 > buffer.bytes) {
    return fault("its " + std::to_string(buffer.bytes) + " bytes are fewer than its shape needs");
  }
  return Status();
}

// What check_layout says of a piece: "buffer 'w': piece of 'a.weight' ...".
Status piece_fault(const TensorTable& table, const WorkerLayout& layout, const Piece& piece,
                   const std::string& what) {
  const std::string& tensor = table[piece.tensor].name;
  return Status(Code::kInvalidArgument, "buffer " + quote(layout.buffers[piece.buffer].name) +
                                            ": the piece of tensor " + quote(tensor) + " " + what)
      .with_tensor(tensor);
}

// Bounds of one piece; gives the bytes that it occupies.
Result<StridedBytes> check_piece(const TensorTable& table, const WorkerLayout& layout,
                                 const Piece& piece, LayoutRole role) {
  if (piece.tensor >= table.size()) {
    return Status(Code::kInvalidArgument, "a piece of tensor " + std::to_string(piece.tensor) +
                                              " of a table of " + std::to_string(table.size()));
  }
  if (piece.buffer >= layout.buffers.size()) {
    return Status(Code::kInvalidArgument, "a piece in buffer " + std::to_string(piece.buffer) +
                                              " of " + std::to_string(layout.buffers.size()))
        .with_tensor(table[piece.tensor].name);
  }
  const auto fault = [&](const std::string& what) {
    return piece_fault(table, layout, piece, what);
  };
  const TensorInfo& tensor = table[piece.tensor];
  const std::vector<int64_t> shape = tensor.unit_shape();
  if (static_cast<size_t>(piece.box.rank()) != shape.size()) {
    return fault("has " + std::to_string(piece.box.rank()) + " dimensions, the tensor " +
                 std::to_string(shape.size()));
  }
  for (int d = 0; d < piece.box.rank(); ++d) {
    const Progression& p = piece.box.dim(d);
    if (p.last() >= shape[static_cast<size_t>(d)]) {
      return fault("reaches coordinate " + std::to_string(p.last()) + " of dimension " +
                   std::to_string(d) + ", which has " +
                   std::to_string(shape[static_cast<size_t>(d)]) + " units");
    }
    if (role == LayoutRole::kReceiver && p.count > 1 && piece.stride[static_cast<size_t>(d)] == 0) {
      return fault("writes byte " + std::to_string(piece.offset) + " for every coordinate of " +
                   "dimension " + std::to_string(d) + " (stride 0)");
    }
  }
  // Bytes are never converted: another element type would be other numbers. Plain bytes may hold
  // packed parameters of any type.
  const DType stored = layout.buffers[piece.buffer].dtype;
  if (stored != tensor.dtype && stored != DType::kU8) {
    return fault("is of type " + std::string(dtype_info(tensor.dtype).name) +
                 ", the buffer of type " + std::string(dtype_info(stored).name));
  }
  const uint64_t bytes = layout.buffers[piece.buffer].bytes;
  const auto set = bytes_of_piece(piece, dtype_info(tensor.dtype).unit_bytes);
  if (!set || static_cast<uint64_t>(set->high()) > bytes) {
    return fault("leaves the buffer's " + std::to_string(bytes) + " bytes");
  }
  return *set;
}

Status check_extra(const WorkerLayout& layout, const Extra& extra) {
  if (extra.buffer >= layout.buffers.size()) {
    return Status(Code::kInvalidArgument, "extra " + quote(extra.name) + " in buffer " +
                                              std::to_string(extra.buffer) + " of " +
                                              std::to_string(layout.buffers.size()));
  }
  const BufferInfo& buffer = layout.buffers[extra.buffer];
  const std::string what = "buffer " + quote(buffer.name) + ": extra " + quote(extra.name);
  if (extra.kind != ExtraKind::kUnmapped && extra.kind != ExtraKind::kZeroFill &&
      extra.kind != ExtraKind::kComputed) {
    return Status(Code::kInvalidArgument, what + " is of an unknown kind");
  }
  if (!is_utf8(extra.name)) {
    return Status(Code::kInvalidArgument, what + ": its name is not valid UTF-8");
  }
  if (!range_inside(extra.offset, extra.bytes, buffer.bytes)) {
    return Status(Code::kInvalidArgument,
                  what + " leaves the buffer's " + std::to_string(buffer.bytes) + " bytes");
  }
  return Status();
}

// What is written to one buffer at a pull. `piece` is null for a zero fill.
struct Write {
  const Piece* piece;
  const Extra* extra;
  StridedBytes bytes;
};

std::string describe(const TensorTable& table, const Write& write) {
  if (write.piece != nullptr) return "tensor " + quote(table[write.piece->tensor].name);
  return "zero fill " + quote(write.extra->name);
}

Status too_irregular(const std::string& buffer) {
  return Status(Code::kUnsupported, "buffer " + quote(buffer) +
                                        ": whether its pieces overlap cannot be decided in "
                                        "reasonable time; no framework strides like this");
}

Status check_writes(const TensorTable& table, const WorkerLayout& layout, uint32_t buffer,
                    std::span<const Write> writes, int64_t* budget) {
  const std::string& name = layout.buffers[buffer].name;
  std::vector<StridedBytes> sets;
  sets.reserve(writes.size());
  for (const Write& write : writes) {
    const bool folds = folds_over_itself(write.bytes, budget);
    if (folds && *budget > 0) {
      const int64_t byte = folded_byte(write.bytes, budget);
      if (*budget <= 0) return too_irregular(name);
      return piece_fault(table, layout, *write.piece,
                         "writes byte " + std::to_string(byte) + " twice");
    }
    sets.push_back(write.bytes);
  }
  const auto shared = find_shared_byte(sets, budget);
  if (*budget <= 0) return too_irregular(name);
  if (!shared) return Status();
  const Write& first = writes[shared->first];
  const Write& second = writes[shared->second];
  Status status(Code::kInvalidArgument, "buffer " + quote(name) + ": byte " +
                                            std::to_string(shared->byte) + " is written by " +
                                            describe(table, first) + " and by " +
                                            describe(table, second));
  const Piece* piece = first.piece != nullptr ? first.piece : second.piece;
  if (piece == nullptr) return status;
  return std::move(status).with_tensor(table[piece->tensor].name);
}

}  // namespace

uint64_t WorkerLayout::piece_bytes(const TensorTable& table) const {
  uint64_t total = 0;
  for (const Piece& piece : pieces) {
    const auto bytes =
        static_cast<uint64_t>(piece.box.size()) * dtype_info(table[piece.tensor].dtype).unit_bytes;
    // A source may stand many times for the same bytes, so the sum has no bound of its own.
    total = checked_add(total, bytes).value_or(std::numeric_limits<uint64_t>::max());
  }
  return total;
}

Status check_layout(const TensorTable& table, const WorkerLayout& layout, LayoutRole role) {
  for (const BufferInfo& buffer : layout.buffers) WB_RETURN_IF_ERROR(check_buffer(buffer));
  std::vector<std::vector<Write>> writes(layout.buffers.size());
  for (const Piece& piece : layout.pieces) {
    WB_ASSIGN_OR_RETURN(const StridedBytes bytes, check_piece(table, layout, piece, role));
    writes[piece.buffer].push_back({&piece, nullptr, bytes});
  }
  for (const Extra& extra : layout.extras) {
    WB_RETURN_IF_ERROR(check_extra(layout, extra));
    if (extra.kind != ExtraKind::kZeroFill || extra.bytes == 0) continue;
    writes[extra.buffer].push_back(
        {nullptr, &extra,
         run_of_bytes(static_cast<int64_t>(extra.offset), static_cast<int64_t>(extra.bytes))});
  }
  if (role == LayoutRole::kSource) return Status();
  int64_t budget = kBudget;
  for (uint32_t buffer = 0; buffer < writes.size(); ++buffer) {
    WB_RETURN_IF_ERROR(check_writes(table, layout, buffer, writes[buffer], &budget));
  }
  return Status();
}

void add_to(Hasher* hasher, const BufferInfo& buffer) {
  hasher->add(std::string_view(buffer.name)).add(static_cast<uint64_t>(buffer.dtype));
  hasher->add(uint64_t{buffer.shape.size()});
  for (const int64_t extent : buffer.shape) hasher->add(extent);
  hasher->add(buffer.bytes);
}

void add_to(Hasher* hasher, const Extra& extra) {
  hasher->add(uint64_t{extra.buffer}).add(extra.offset).add(extra.bytes);
  hasher->add(static_cast<uint64_t>(extra.kind)).add(std::string_view(extra.name));
}

Digest layout_digest(const TensorTable& table, const WorkerLayout& layout) {
  Hasher hasher;
  hasher.add(std::string_view("weightbridge worker layout 1"));
  hasher.add(table.digest().low).add(table.digest().high);
  hasher.add(uint64_t{layout.buffers.size()});
  for (const BufferInfo& buffer : layout.buffers) add_to(&hasher, buffer);
  hasher.add(uint64_t{layout.pieces.size()});
  for (const Piece& piece : layout.pieces) {
    hasher.add(uint64_t{piece.tensor}).add(uint64_t{piece.buffer}).add(piece.offset);
    hasher.add(static_cast<uint64_t>(piece.box.rank()));
    for (int d = 0; d < piece.box.rank(); ++d) {
      const Progression& p = piece.box.dim(d);
      hasher.add(p.start).add(p.count).add(p.step).add(piece.stride[static_cast<size_t>(d)]);
    }
  }
  hasher.add(uint64_t{layout.extras.size()});
  for (const Extra& extra : layout.extras) add_to(&hasher, extra);
  return hasher.digest();
}

}  // namespace wb
