#include "control/manifest.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "control/manifest_pieces.h"
#include "layout/utf8.h"
#include "manifest_generated.h"
#include "transport/transport.h"

namespace wb {
namespace {

constexpr uint32_t kVersion = 1;
constexpr size_t kMaxBytes = 64u << 20;
// What one may take in memory: a piece is 4 bytes on the wire at least and about 300 decoded. The
// largest of real models (100,000 pieces) takes a tenth of this.
constexpr size_t kMaxDecoded = 256u << 20;
constexpr size_t kMaxName = 4096;
constexpr uint32_t kMaxWorld = 1u << 20;
constexpr uint32_t kMaxSlots = 256;

Status bad(const std::string& why) { return Status(Code::kBadData, "manifest: " + why); }

fb::Id to_id(const Digest& digest) { return fb::Id(digest.low, digest.high); }
Digest from_id(const fb::Id& id) { return Digest{id.low(), id.high()}; }

using Builder = flatbuffers::FlatBufferBuilder;
using Strings = flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>;
using Bytes = flatbuffers::Vector<uint8_t>;

flatbuffers::Offset<Bytes> put_bytes(Builder* builder, const std::string& bytes) {
  return builder->CreateVector(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

template <typename T, typename Items, typename Get>
std::vector<T> column(const Items& items, Get get) {
  std::vector<T> out;
  out.reserve(items.size());
  for (const auto& item : items) out.push_back(static_cast<T>(get(item)));
  return out;
}

flatbuffers::Offset<fb::Buffers> put_buffers(Builder* builder, const Manifest& manifest) {
  const auto& buffers = manifest.layout.buffers;
  std::vector<int64_t> shape;
  for (const BufferInfo& buffer : buffers) {
    shape.insert(shape.end(), buffer.shape.begin(), buffer.shape.end());
  }
  const auto names =
      builder->CreateVectorOfStrings(column<std::string>(buffers, [](auto& b) { return b.name; }));
  const auto dtype =
      builder->CreateVector(column<uint8_t>(buffers, [](auto& b) { return b.dtype; }));
  const auto rank =
      builder->CreateVector(column<uint8_t>(buffers, [](auto& b) { return b.shape.size(); }));
  const auto shapes = builder->CreateVector(shape);
  const auto bytes =
      builder->CreateVector(column<uint64_t>(buffers, [](auto& b) { return b.bytes; }));
  const auto region = builder->CreateVector(
      column<uint32_t>(manifest.placement, [](auto& place) { return place.region; }));
  const auto offset = builder->CreateVector(
      column<uint64_t>(manifest.placement, [](auto& place) { return place.offset; }));
  return fb::CreateBuffers(*builder, names, dtype, rank, shapes, bytes, region, offset);
}

flatbuffers::Offset<fb::Extras> put_extras(Builder* builder, const std::vector<Extra>& extras) {
  const auto buffer =
      builder->CreateVector(column<uint32_t>(extras, [](auto& e) { return e.buffer; }));
  const auto offset =
      builder->CreateVector(column<uint64_t>(extras, [](auto& e) { return e.offset; }));
  const auto bytes =
      builder->CreateVector(column<uint64_t>(extras, [](auto& e) { return e.bytes; }));
  const auto kind = builder->CreateVector(column<uint8_t>(extras, [](auto& e) { return e.kind; }));
  const auto names =
      builder->CreateVectorOfStrings(column<std::string>(extras, [](auto& e) { return e.name; }));
  return fb::CreateExtras(*builder, buffer, offset, bytes, kind, names);
}

flatbuffers::Offset<fb::Transport> put_transport(Builder* builder,
                                                 const ManifestTransport& transport) {
  std::vector<flatbuffers::Offset<fb::Key>> keys;
  for (const std::string& key : transport.keys) {
    keys.push_back(fb::CreateKey(*builder, put_bytes(builder, key)));
  }
  const auto address = put_bytes(builder, transport.address);
  return fb::CreateTransport(*builder, transport.kind, address, builder->CreateVector(keys));
}

// A copy of a column of 64-bit numbers. The verifier checks that a vector's length is aligned, not
// its elements: in a hostile buffer they may lie at any multiple of four.
template <typename T>
std::vector<T> copy_column(const flatbuffers::Vector<T>& from) {
  std::vector<T> out(from.size());
  if (!out.empty()) std::memcpy(out.data(), from.Data(), out.size() * sizeof(T));
  return out;
}

// Copies parts out of the buffer. Offsets of a hostile buffer may name one long string a million
// times, so what is copied in all is held to the size of the whole, and the objects that hold it to
// kMaxDecoded.
class Copier {
 public:
  explicit Copier(size_t budget) : budget_(budget) {}

  // Asked before `count` objects of `bytes` bytes each are made.
  Status objects(size_t count, size_t bytes) {
    if (count > memory_ / bytes) {
      return bad("it takes more than " + std::to_string(kMaxDecoded >> 20) + " MiB when decoded");
    }
    memory_ -= count * bytes;
    return Status();
  }

  Result<std::string> text(const flatbuffers::String* from) {
    WB_ASSIGN_OR_RETURN(std::string out, take(from->data(), from->size()));
    if (out.size() > kMaxName || !is_utf8(out)) return bad("a name is too long or not UTF-8");
    return out;
  }
  Result<std::string> bytes(const Bytes* from) { return take(from->data(), from->size()); }

 private:
  Result<std::string> take(const void* data, size_t size) {
    if (size > budget_) return bad("its parts are larger than the whole");
    budget_ -= size;
    return std::string(static_cast<const char*>(data), size);
  }
  size_t budget_;
  size_t memory_ = kMaxDecoded;
};

Status read_buffers(const fb::Buffers& from, Copier* copier, Manifest* to) {
  const size_t count = from.names()->size();
  for (const size_t other : {from.dtype()->size(), from.rank()->size(), from.bytes()->size(),
                             from.region()->size(), from.offset()->size()}) {
    if (other != count) return bad("the columns of its buffers differ in length");
  }
  WB_RETURN_IF_ERROR(copier->objects(count, sizeof(BufferInfo) + sizeof(Placement)));
  const std::vector<int64_t> shapes = copy_column(*from.shape());
  const std::vector<uint64_t> bytes = copy_column(*from.bytes());
  const std::vector<uint64_t> offsets = copy_column(*from.offset());
  size_t next = 0;  // in the concatenated shapes
  for (flatbuffers::uoffset_t i = 0; i < count; ++i) {
    BufferInfo buffer;
    WB_ASSIGN_OR_RETURN(buffer.name, copier->text(from.names()->Get(i)));
    buffer.dtype = static_cast<DType>(from.dtype()->Get(i));
    if (find_dtype(buffer.dtype) == nullptr) return bad("a buffer of unknown dtype");
    const size_t rank = from.rank()->Get(i);
    if (rank > shapes.size() - next) return bad("the shapes of its buffers are truncated");
    const auto shape = shapes.begin() + static_cast<std::ptrdiff_t>(next);
    buffer.shape.assign(shape, shape + static_cast<std::ptrdiff_t>(rank));
    next += rank;
    buffer.bytes = bytes[i];
    to->layout.buffers.push_back(std::move(buffer));
    to->placement.push_back({from.region()->Get(i), offsets[i]});
  }
  if (next != shapes.size()) return bad("more shapes than buffers");
  return Status();
}

Status read_extras(const fb::Extras& from, Copier* copier, Manifest* to) {
  const size_t count = from.buffer()->size();
  for (const size_t other :
       {from.offset()->size(), from.bytes()->size(), from.kind()->size(), from.names()->size()}) {
    if (other != count) return bad("the columns of its extras differ in length");
  }
  WB_RETURN_IF_ERROR(copier->objects(count, sizeof(Extra)));
  const std::vector<uint64_t> offsets = copy_column(*from.offset());
  const std::vector<uint64_t> bytes = copy_column(*from.bytes());
  for (flatbuffers::uoffset_t i = 0; i < count; ++i) {
    Extra extra;
    extra.buffer = from.buffer()->Get(i);
    extra.offset = offsets[i];
    extra.bytes = bytes[i];
    extra.kind = static_cast<ExtraKind>(from.kind()->Get(i));
    if (extra.kind < ExtraKind::kUnmapped || extra.kind > ExtraKind::kComputed) {
      return bad("an extra of unknown kind");
    }
    WB_ASSIGN_OR_RETURN(extra.name, copier->text(from.names()->Get(i)));
    to->layout.extras.push_back(std::move(extra));
  }
  return Status();
}

Status read_transports(const fb::Manifest& from, Copier* copier, Manifest* to) {
  for (const fb::Transport* source : *from.transports()) {
    ManifestTransport transport;
    transport.kind = source->kind();
    if (transport.kind < static_cast<uint8_t>(TransportKind::kLocal) ||
        transport.kind > static_cast<uint8_t>(TransportKind::kFake)) {
      return bad("unknown transport " + std::to_string(transport.kind));
    }
    for (const ManifestTransport& other : to->transports) {
      if (other.kind == transport.kind) return bad("a transport is there twice");
    }
    WB_ASSIGN_OR_RETURN(transport.address, copier->bytes(source->address()));
    WB_RETURN_IF_ERROR(copier->objects(source->keys()->size(), sizeof(std::string)));
    for (const fb::Key* key : *source->keys()) {
      WB_ASSIGN_OR_RETURN(std::string bytes, copier->bytes(key->bytes()));
      transport.keys.push_back(std::move(bytes));
    }
    to->transports.push_back(std::move(transport));
  }
  return Status();
}

Status check_places(const Manifest& manifest) {
  for (size_t i = 0; i < manifest.placement.size(); ++i) {
    const Placement& place = manifest.placement[i];
    const BufferInfo& buffer = manifest.layout.buffers[i];
    if (place.region >= manifest.region_bytes.size() ||
        !range_inside(place.offset, buffer.bytes, manifest.region_bytes[place.region])) {
      return bad("buffer \"" + buffer.name + "\" lies outside its region");
    }
  }
  const uint64_t keys = uint64_t{manifest.slots} * manifest.region_bytes.size() + 1;
  for (const ManifestTransport& transport : manifest.transports) {
    if (transport.keys.size() != keys) {
      return bad("a transport has " + std::to_string(transport.keys.size()) + " keys of " +
                 std::to_string(keys));
    }
  }
  return Status();
}

}  // namespace

std::string encode_manifest(const Manifest& manifest) {
  Builder builder;
  const auto pieces = builder.CreateVector(encode_pieces(manifest.layout.pieces));
  const auto pieces_table =
      fb::CreatePieces(builder, static_cast<uint32_t>(manifest.layout.pieces.size()), pieces);
  const auto buffers = put_buffers(&builder, manifest);
  const auto extras = put_extras(&builder, manifest.layout.extras);
  std::vector<flatbuffers::Offset<fb::Transport>> transports;
  for (const ManifestTransport& transport : manifest.transports) {
    transports.push_back(put_transport(&builder, transport));
  }
  const auto transport_vector = builder.CreateVector(transports);
  const auto region_bytes = builder.CreateVector(manifest.region_bytes);
  const auto worker = builder.CreateString(manifest.worker);
  const fb::Id incarnation = to_id(manifest.incarnation);
  const fb::Id table = to_id(manifest.table_digest);
  const fb::Id mapping = to_id(manifest.mapping_digest);
  builder.Finish(
      fb::CreateManifest(builder, kVersion, worker, manifest.rank, manifest.world, &incarnation,
                         &table, &mapping, manifest.slots, manifest.in_place, region_bytes, buffers,
                         pieces_table, extras, transport_vector),
      fb::ManifestIdentifier());
  return std::string(reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize());
}

Result<Manifest> decode_manifest(std::span<const std::byte> bytes, const TensorTable& table) {
  if (bytes.size() > kMaxBytes) return bad("it is larger than any worker needs");
  // The builder rounds the whole up to its widest member, so a cut in the padding shows here.
  if (bytes.empty() || bytes.size() % alignof(uint64_t) != 0) return bad("it is truncated");
  // The verifier and the accessors ask for alignment that a span does not promise.
  std::vector<uint64_t> aligned((bytes.size() + 7) / 8);
  std::memcpy(aligned.data(), bytes.data(), bytes.size());
  const auto* data = reinterpret_cast<const uint8_t*>(aligned.data());
  flatbuffers::Verifier verifier(data, bytes.size());
  if (!fb::VerifyManifestBuffer(verifier)) return bad("the verifier refused its bytes");
  const fb::Manifest& from = *fb::GetManifest(data);
  if (from.version() != kVersion) {
    return bad("version " + std::to_string(from.version()) + ", this build reads version " +
               std::to_string(kVersion));
  }

  Manifest manifest;
  Copier copier(bytes.size());
  WB_ASSIGN_OR_RETURN(manifest.worker, copier.text(from.worker()));
  manifest.rank = from.rank();
  manifest.world = from.world();
  manifest.incarnation = from_id(*from.incarnation());
  manifest.table_digest = from_id(*from.table_digest());
  manifest.mapping_digest = from_id(*from.mapping_digest());
  manifest.slots = from.slots();
  manifest.in_place = from.in_place();
  if (manifest.worker.empty()) return bad("a worker without a name");
  if (manifest.world > kMaxWorld || manifest.rank >= manifest.world) return bad("no such rank");
  if (manifest.slots == 0 || manifest.slots > kMaxSlots) return bad("no such number of slots");
  if (manifest.table_digest != table.digest()) {
    return Status(Code::kMismatch, "worker " + manifest.worker +
                                       " has another tensor table (other names, dtypes or shapes)")
        .with_peer(manifest.worker);
  }
  manifest.region_bytes = copy_column(*from.region_bytes());
  WB_RETURN_IF_ERROR(read_buffers(*from.buffers(), &copier, &manifest));
  WB_RETURN_IF_ERROR(read_extras(*from.extras(), &copier, &manifest));
  WB_RETURN_IF_ERROR(read_transports(from, &copier, &manifest));
  WB_RETURN_IF_ERROR(copier.objects(from.pieces()->count(), sizeof(Piece)));
  const Bytes* words = from.pieces()->words();
  WB_ASSIGN_OR_RETURN(manifest.layout.pieces,
                      decode_pieces({words->data(), words->size()}, from.pieces()->count()));
  WB_RETURN_IF_ERROR(check_places(manifest));
  if (const Status status = check_layout(table, manifest.layout, LayoutRole::kSource);
      !status.ok()) {
    return bad(status.message());
  }
  if (layout_digest(table, manifest.layout) != manifest.mapping_digest) {
    return bad("its mapping digest is not the digest of its layout");
  }
  return manifest;
}

}  // namespace wb
