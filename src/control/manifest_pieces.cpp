#include "control/manifest_pieces.h"

#include <array>

#include "base/checked.h"

namespace wb {
namespace {

// The least that a piece takes: tensor, buffer, rank and offset.
constexpr size_t kMinPieceBytes = 4;

uint64_t zigzag(int64_t value) {
  return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
}
int64_t unzigzag(uint64_t value) {
  return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
}

class Writer {
 public:
  void put(uint64_t value) {
    for (; value >= 0x80; value >>= 7) out_.push_back(static_cast<uint8_t>(value | 0x80));
    out_.push_back(static_cast<uint8_t>(value));
  }
  void put_signed(int64_t value) { put(zigzag(value)); }
  std::vector<uint8_t> take() { return std::move(out_); }

 private:
  std::vector<uint8_t> out_;
};

Status truncated() { return Status(Code::kBadData, "manifest: the pieces are truncated"); }
Status out_of_range() {
  return Status(Code::kBadData, "manifest: a piece has a number out of range");
}

class Reader {
 public:
  explicit Reader(std::span<const uint8_t> words) : rest_(words) {}
  bool done() const { return rest_.empty(); }

  Result<uint64_t> get() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) return truncated();
      const uint8_t byte = rest_.front();
      rest_ = rest_.subspan(1);
      const uint64_t bits = byte & 0x7F;
      if ((bits << shift) >> shift != bits) return out_of_range();
      value |= bits << shift;
      if (byte < 0x80) return value;
    }
    return out_of_range();
  }
  Result<int64_t> get_signed() {
    WB_ASSIGN_OR_RETURN(const uint64_t value, get());
    return unzigzag(value);
  }
  Result<int64_t> get_positive() {
    WB_ASSIGN_OR_RETURN(const uint64_t value, get());
    const auto number = checked_cast<int64_t>(value);
    if (!number) return out_of_range();
    return *number;
  }
  // `before` plus a coded difference, as an index.
  Result<uint32_t> get_index(uint32_t before) {
    WB_ASSIGN_OR_RETURN(const int64_t difference, get_signed());
    const auto sum = checked_add<int64_t>(before, difference);
    const auto index = sum ? checked_cast<uint32_t>(*sum) : std::nullopt;
    if (!index) return out_of_range();
    return *index;
  }

 private:
  std::span<const uint8_t> rest_;
};

Result<Piece> read_piece(Reader* reader, const Piece& before) {
  Piece piece;
  WB_ASSIGN_OR_RETURN(piece.tensor, reader->get_index(before.tensor));
  WB_ASSIGN_OR_RETURN(piece.buffer, reader->get_index(before.buffer));
  WB_ASSIGN_OR_RETURN(const uint64_t rank, reader->get());
  if (rank > kMaxRank) return out_of_range();
  WB_ASSIGN_OR_RETURN(piece.offset, reader->get_signed());
  std::array<Progression, kMaxRank> dims{};
  for (size_t d = 0; d < rank; ++d) {
    WB_ASSIGN_OR_RETURN(dims[d].start, reader->get_positive());
    WB_ASSIGN_OR_RETURN(dims[d].count, reader->get_positive());
    WB_ASSIGN_OR_RETURN(dims[d].step, reader->get_positive());
    WB_ASSIGN_OR_RETURN(piece.stride[d], reader->get_signed());
  }
  auto box = Box::make(std::span(dims).first(static_cast<size_t>(rank)));
  if (!box.ok()) return Status(Code::kBadData, "manifest: " + box.status().message());
  piece.box = *box;
  return piece;
}

}  // namespace

std::vector<uint8_t> encode_pieces(const std::vector<Piece>& pieces) {
  Writer writer;
  Piece before;
  for (const Piece& piece : pieces) {
    writer.put_signed(static_cast<int64_t>(piece.tensor) - static_cast<int64_t>(before.tensor));
    writer.put_signed(static_cast<int64_t>(piece.buffer) - static_cast<int64_t>(before.buffer));
    writer.put(static_cast<uint64_t>(piece.box.rank()));
    writer.put_signed(piece.offset);
    for (int d = 0; d < piece.box.rank(); ++d) {
      const Progression& dim = piece.box.dim(d);
      writer.put(static_cast<uint64_t>(dim.start));
      writer.put(static_cast<uint64_t>(dim.count));
      writer.put(static_cast<uint64_t>(dim.step));
      writer.put_signed(piece.stride[static_cast<size_t>(d)]);
    }
    before = piece;
  }
  return writer.take();
}

Result<std::vector<Piece>> decode_pieces(std::span<const uint8_t> words, uint32_t count) {
  if (count > words.size() / kMinPieceBytes) return truncated();
  std::vector<Piece> pieces;
  pieces.reserve(count);
  Reader reader(words);
  Piece before;
  for (uint32_t i = 0; i < count; ++i) {
    WB_ASSIGN_OR_RETURN(before, read_piece(&reader, before));
    pieces.push_back(before);
  }
  if (!reader.done()) return Status(Code::kBadData, "manifest: bytes behind the last piece");
  return pieces;
}

}  // namespace wb
