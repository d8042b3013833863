#include "capi/layout.h"

#include <array>
#include <numeric>
#include <span>
#include <utility>

#include "base/checked.h"
#include "capi/error.h"
#include "capi/piece.h"
#include "capi/sized.h"

namespace wb::capi {
namespace {

static_assert(WB_UNMAPPED == static_cast<int>(ExtraKind::kUnmapped));
static_assert(WB_ZERO_FILL == static_cast<int>(ExtraKind::kZeroFill));
static_assert(WB_COMPUTED == static_cast<int>(ExtraKind::kComputed));

// Bytes that a dense array of `info` takes. The table's own checks bound every number first.
Result<uint64_t> dense_bytes(const TensorInfo& info) {
  auto table = TensorTable::make({info});
  if (!table.ok()) return table.status();
  return table->bytes();
}

}  // namespace

Result<BufferInfo> buffer_info(const wb_buffer& given) {
  WB_RETURN_IF_ERROR(not_null(given.name, "the buffer's name"));
  WB_ASSIGN_OR_RETURN(TensorInfo info,
                      tensor_info(given.name, given.dtype, given.rank, given.shape));
  WB_ASSIGN_OR_RETURN(const uint64_t need, dense_bytes(info));
  if (given.bytes != 0 && given.bytes < need) {
    return Status(Code::kInvalidArgument, "buffer " + info.name + ": " +
                                              std::to_string(given.bytes) + " bytes given, " +
                                              std::to_string(need) + " needed");
  }
  return BufferInfo{std::move(info.name), info.dtype, std::move(info.shape),
                    given.bytes == 0 ? need : given.bytes};
}

Result<TensorInfo> tensor_info(const char* name, wb_dtype dtype, uint32_t rank,
                               const int64_t* shape) {
  TensorInfo info;
  info.name = text_of(name);
  const auto small = checked_cast<uint8_t>(dtype);
  if (!small || find_dtype(static_cast<DType>(*small)) == nullptr) {
    return Status(Code::kInvalidArgument,
                  info.name + ": dtype " + std::to_string(dtype) + " is none");
  }
  info.dtype = static_cast<DType>(*small);
  if (rank > kMaxRank) {
    return Status(Code::kInvalidArgument, info.name + ": rank " + std::to_string(rank) +
                                              " exceeds " + std::to_string(kMaxRank));
  }
  if (rank != 0) {
    WB_RETURN_IF_ERROR(not_null(shape, "shape"));
    info.shape.assign(shape, shape + rank);
  }
  return info;
}

LayoutObject::LayoutObject(std::shared_ptr<const TableObject> table, WorkerLayout layout)
    : table_(std::move(table)), layout_(std::move(layout)), places_(layout_.buffers.size()) {
  for (const BufferInfo& buffer : layout_.buffers) names_.insert(buffer.name);
}

Result<LayoutObject::Place> LayoutObject::place(void* data, uint64_t bytes) {
  Place place;
  place.data = static_cast<std::byte*>(data);
  if (bytes == 0) return place;
  WB_ASSIGN_OR_RETURN(auto known, recognise(data, bytes));
  if (known) place.known = std::move(*known);
  return place;
}

Status LayoutObject::check_index(uint32_t buffer) const {
  if (buffer < layout_.buffers.size()) return Status();
  return Status(Code::kInvalidArgument, "buffer " + std::to_string(buffer) + " of " +
                                            std::to_string(layout_.buffers.size()));
}

Result<uint32_t> LayoutObject::add_buffer(const wb_buffer& buffer) {
  WB_ASSIGN_OR_RETURN(BufferInfo info, buffer_info(buffer));
  Place where;
  if (buffer.data != nullptr) {
    WB_ASSIGN_OR_RETURN(where, place(buffer.data, info.bytes));
  }
  const std::lock_guard lock(mutex_);
  const auto index = checked_cast<uint32_t>(layout_.buffers.size());
  if (!index) return Status(Code::kInvalidArgument, "the layout has 2^32 buffers");
  layout_.buffers.reserve(layout_.buffers.size() + 1);
  places_.push_back(std::move(where));
  if (!names_.insert(info.name).second) {
    places_.pop_back();
    return Status(Code::kInvalidArgument, "the layout has a buffer " + info.name + " already");
  }
  layout_.buffers.push_back(std::move(info));
  return *index;
}

Result<uint32_t> LayoutObject::add_tensor(const char* tensor, void* data, uint64_t bytes) {
  WB_ASSIGN_OR_RETURN(const uint32_t index, table_->table.find(tensor));
  const TensorInfo& info = table_->table[index];
  wb_buffer buffer{};
  buffer.name = info.name.c_str();
  buffer.dtype = static_cast<wb_dtype>(info.dtype);
  buffer.rank = static_cast<uint32_t>(info.shape.size());
  buffer.shape = info.shape.data();
  buffer.data = data;
  buffer.bytes = bytes;
  WB_ASSIGN_OR_RETURN(const uint32_t added, add_buffer(buffer));
  wb_piece piece{};
  piece.tensor = info.name.c_str();
  piece.buffer = added;
  // Cannot fail but for memory: the tensor is in the table and the whole of it in the buffer.
  WB_RETURN_IF_ERROR(add_piece(piece));
  return added;
}

Status LayoutObject::add_piece(const wb_piece& piece) {
  WB_ASSIGN_OR_RETURN(const auto made, make_piece(table_->table, piece));
  const std::lock_guard lock(mutex_);
  WB_RETURN_IF_ERROR(check_index(piece.buffer));
  if (made) layout_.pieces.push_back(*made);
  return Status();
}

Status LayoutObject::add_extra(uint32_t buffer, uint64_t offset, uint64_t bytes, wb_extra_kind kind,
                               const char* name) {
  if (kind < WB_UNMAPPED || kind > WB_COMPUTED) {
    return Status(Code::kInvalidArgument, "extra: kind " + std::to_string(kind) + " is none");
  }
  WB_RETURN_IF_ERROR(not_null(name, "the extra's name"));
  const std::lock_guard lock(mutex_);
  WB_RETURN_IF_ERROR(check_index(buffer));
  if (!range_inside(offset, bytes, layout_.buffers[buffer].bytes)) {
    return Status(Code::kInvalidArgument, std::string("extra ") + name + " ends outside buffer " +
                                              layout_.buffers[buffer].name);
  }
  layout_.extras.push_back({buffer, offset, bytes, static_cast<ExtraKind>(kind), name});
  return Status();
}

Status LayoutObject::bind(uint32_t buffer, void* data, uint64_t bytes) {
  WB_RETURN_IF_ERROR(not_null(data, "data"));
  const std::lock_guard lock(mutex_);
  WB_RETURN_IF_ERROR(check_index(buffer));
  const BufferInfo& info = layout_.buffers[buffer];
  if (places_[buffer].data != nullptr) {
    return Status(Code::kFailedPrecondition, "buffer " + info.name + " has memory already");
  }
  if (bytes < info.bytes) {
    return Status(Code::kInvalidArgument, "buffer " + info.name + ": " + std::to_string(bytes) +
                                              " bytes given, " + std::to_string(info.bytes) +
                                              " needed");
  }
  WB_ASSIGN_OR_RETURN(places_[buffer], place(data, info.bytes));
  return Status();
}

Status LayoutObject::allocate(const MemoryWish& wish) {
  const std::lock_guard lock(mutex_);
  WorkerLayout missing;
  std::vector<size_t> indices;
  for (size_t i = 0; i < places_.size(); ++i) {
    if (places_[i].data != nullptr || layout_.buffers[i].bytes == 0) continue;
    indices.push_back(i);
    missing.buffers.push_back(layout_.buffers[i]);
  }
  if (indices.empty()) return Status();
  WB_ASSIGN_OR_RETURN(auto bound, bind_new_memory(missing, wish.kind, wish.options));
  for (size_t j = 0; j < indices.size(); ++j) {
    remember(bound[j].memory);
    std::byte* const data = bound[j].memory->data() + bound[j].offset;
    places_[indices[j]] = {std::move(bound[j]), data};
  }
  return Status();
}

size_t LayoutObject::count() const {
  const std::lock_guard lock(mutex_);
  return layout_.buffers.size();
}

Result<wb_buffer> LayoutObject::describe(uint32_t buffer) const {
  const std::lock_guard lock(mutex_);
  WB_RETURN_IF_ERROR(check_index(buffer));
  const BufferInfo& info = layout_.buffers[buffer];
  return wb_buffer{sizeof(wb_buffer),
                   info.name.c_str(),
                   static_cast<wb_dtype>(info.dtype),
                   static_cast<uint32_t>(info.shape.size()),
                   info.shape.data(),
                   places_[buffer].data,
                   info.bytes};
}

Status LayoutObject::check(LayoutRole role) const {
  const std::lock_guard lock(mutex_);
  return check_layout(table_->table, layout_, role);
}

WorkerLayout LayoutObject::layout() const {
  const std::lock_guard lock(mutex_);
  return layout_;
}

size_t LayoutObject::piece_count() const {
  const std::lock_guard lock(mutex_);
  return layout_.pieces.size();
}

size_t LayoutObject::extra_count() const {
  const std::lock_guard lock(mutex_);
  return layout_.extras.size();
}

Result<Piece> LayoutObject::piece(size_t index) const {
  const std::lock_guard lock(mutex_);
  if (index < layout_.pieces.size()) return layout_.pieces[index];
  return Status(Code::kInvalidArgument,
                "piece " + std::to_string(index) + " of " + std::to_string(layout_.pieces.size()));
}

Result<Extra> LayoutObject::extra(size_t index) const {
  const std::lock_guard lock(mutex_);
  if (index < layout_.extras.size()) return layout_.extras[index];
  return Status(Code::kInvalidArgument,
                "extra " + std::to_string(index) + " of " + std::to_string(layout_.extras.size()));
}

Result<BoundLayout> LayoutObject::bound() const {
  const std::lock_guard lock(mutex_);
  std::vector<CallerRange> ranges(places_.size());
  for (size_t i = 0; i < places_.size(); ++i) {
    const uint64_t bytes = layout_.buffers[i].bytes;
    if (bytes == 0) continue;
    if (places_[i].data == nullptr) {
      return Status(Code::kFailedPrecondition,
                    "buffer " + layout_.buffers[i].name +
                        " has no memory: wb_layout_bind or wb_layout_allocate gives it some");
    }
    if (places_[i].known.memory == nullptr) ranges[i] = {places_[i].data, bytes};
  }
  WB_ASSIGN_OR_RETURN(std::vector<BoundBuffer> buffers, group_ranges(ranges));
  for (size_t i = 0; i < places_.size(); ++i) {
    if (places_[i].known.memory != nullptr) buffers[i] = places_[i].known;
  }
  // Buffers without bytes lie at the start of any allocation; nothing of it is theirs.
  std::shared_ptr<Allocation> any;
  for (const BoundBuffer& buffer : buffers) {
    if (buffer.memory != nullptr) any = buffer.memory;
  }
  for (BoundBuffer& buffer : buffers) {
    if (buffer.memory != nullptr) continue;
    if (any == nullptr) {
      WB_ASSIGN_OR_RETURN(any, Allocation::host(1, AllocationOptions()));
    }
    buffer = {any, 0};
  }
  return BoundLayout{table_->table, layout_, std::move(buffers)};
}

}  // namespace wb::capi
