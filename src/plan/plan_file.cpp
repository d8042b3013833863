#include "plan/plan_file.h"

#include <cstring>
#include <string>

#include "base/checked.h"
#include "plan_generated.h"

namespace wb {
namespace {

constexpr uint32_t kVersion = 1;
// In front of the FlatBuffer: the digest of what follows, low word first.
constexpr size_t kHead = 16;

flatbuffers::Offset<flatbuffers::Vector<const fb::PlanRun*>> pack(
    flatbuffers::FlatBufferBuilder* builder, const std::vector<Run>& runs) {
  std::vector<fb::PlanRun> packed;
  packed.reserve(runs.size());
  for (const Run& r : runs) {
    packed.emplace_back(r.remote_offset, r.local_offset, r.length, r.count, r.remote_pitch,
                        r.local_pitch, r.remote_region, r.local_region);
  }
  return builder->CreateVectorOfStructs(packed);
}

flatbuffers::Offset<fb::PlanList> pack(flatbuffers::FlatBufferBuilder* builder,
                                       const PartList& list) {
  std::vector<fb::PlanShape> shapes;
  for (const ShapedRun& s : list.shapes) {
    shapes.emplace_back(s.reads, s.staged, s.waste, s.cost_ps, static_cast<uint8_t>(s.shape));
  }
  std::vector<flatbuffers::Offset<fb::PlanFallback>> fallbacks;
  for (const ReadList& fallback : list.fallbacks) {
    fallbacks.push_back(
        fb::CreatePlanFallback(*builder, fallback.source, pack(builder, fallback.runs)));
  }
  const auto runs = pack(builder, list.runs);
  return fb::CreatePlanList(*builder, list.from_peer, list.worker, list.stage, runs,
                            builder->CreateVectorOfStructs(shapes),
                            builder->CreateVector(fallbacks));
}

std::vector<std::string> names_of(const std::vector<Fleet::Worker>& workers) {
  std::vector<std::string> names;
  for (const Fleet::Worker& worker : workers) names.push_back(worker.name);
  return names;
}

Status bad(const std::string& what) { return Status(Code::kBadData, "a plan file: " + what); }

class Reader {
 public:
  // What is copied out of a file has at most as many bytes as the file: its tables could all point
  // to one large vector.
  Reader(const fb::PlanFile& from, uint64_t bytes) : from_(from), left_(bytes) {}

  Result<PlanFile> read() {
    file_.inputs = {from_.inputs()->low(), from_.inputs()->high()};
    WB_RETURN_IF_ERROR(read_names(*from_.sources(), &file_.sources));
    WB_RETURN_IF_ERROR(read_names(*from_.receivers(), &file_.receivers));
    const FleetPart* before = nullptr;
    for (const fb::PlanPart* part : *from_.parts()) {
      WB_RETURN_IF_ERROR(read_part(*part));
      const FleetPart& last = file_.parts.back();
      if (before != nullptr && before->receiver >= last.receiver) {
        return bad("its parts are not in the order of the receivers");
      }
      before = &last;
    }
    return std::move(file_);
  }

 private:
  Status charge(uint64_t bytes) {
    if (bytes > left_) return bad("its tables share what belongs to one of them");
    left_ -= bytes;
    return Status();
  }

  Status read_names(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>& from,
                    std::vector<std::string>* names) {
    for (const flatbuffers::String* name : from) {
      WB_RETURN_IF_ERROR(charge(sizeof(uint32_t) + name->size()));
      names->push_back(name->str());
    }
    return Status();
  }

  Status read_part(const fb::PlanPart& from) {
    FleetPart part;
    part.inputs = file_.inputs;
    part.receiver = from.receiver();
    part.in_flight_bytes = from.in_flight_bytes();
    if (part.receiver >= file_.receivers.size()) return bad("a part of an unknown receiver");
    for (const fb::PlanList* list : *from.lists()) {
      WB_RETURN_IF_ERROR(charge(sizeof(uint32_t)));
      PartList& to = part.lists.emplace_back();
      to.from_peer = list->from_peer();
      to.worker = list->worker();
      to.stage = list->stage();
      if (to.worker >= (to.from_peer ? file_.receivers.size() : file_.sources.size())) {
        return bad("a list from an unknown worker");
      }
      WB_RETURN_IF_ERROR(read_runs(*list->runs(), &to.runs, &to.bytes, &to.reads));
      WB_RETURN_IF_ERROR(read_shapes(*list->shapes(), &to));
      for (size_t i = 0; i < to.runs.size(); ++i) part.shape.add(to.runs[i], to.shapes[i]);
      for (const fb::PlanFallback* fallback : *list->fallbacks()) {
        WB_RETURN_IF_ERROR(charge(sizeof(uint32_t)));
        ReadList& other = to.fallbacks.emplace_back();
        other.source = fallback->source();
        if (other.source >= file_.sources.size()) return bad("a fallback to an unknown source");
        WB_RETURN_IF_ERROR(read_runs(*fallback->runs(), &other.runs, &other.bytes, &other.reads));
      }
      const auto sum = checked_add(part.bytes, to.bytes);
      if (!sum) return bad("a part of 2^64 bytes or more");
      part.bytes = *sum;
    }
    file_.parts.push_back(std::move(part));
    return Status();
  }

  Status read_runs(const flatbuffers::Vector<const fb::PlanRun*>& from, std::vector<Run>* runs,
                   uint64_t* bytes, uint64_t* reads) {
    WB_RETURN_IF_ERROR(charge(uint64_t{from.size()} * sizeof(fb::PlanRun)));
    runs->reserve(from.size());
    for (const fb::PlanRun* r : from) {
      runs->push_back({r->remote_region(), r->local_region(), r->remote_offset(), r->local_offset(),
                       r->length(), r->count(), r->remote_pitch(), r->local_pitch()});
      const auto product = checked_mul(r->length(), r->count());
      const auto sum = product ? checked_add(*bytes, *product) : std::nullopt;
      const auto rows = checked_add(*reads, r->count());
      if (!sum || !rows || *product == 0) return bad("a run without bytes or of 2^64 or more");
      *bytes = *sum;
      *reads = *rows;
    }
    return Status();
  }

  Status read_shapes(const flatbuffers::Vector<const fb::PlanShape*>& from, PartList* to) {
    if (from.size() != to->runs.size()) return bad("runs without shapes");
    WB_RETURN_IF_ERROR(charge(uint64_t{from.size()} * sizeof(fb::PlanShape)));
    for (const fb::PlanShape* s : from) {
      if (s->shape() > static_cast<uint8_t>(Shape::kRelaid)) return bad("an unknown shape");
      to->shapes.push_back(
          {static_cast<Shape>(s->shape()), s->reads(), s->staged(), s->waste(), s->cost_ps()});
    }
    return Status();
  }

  const fb::PlanFile& from_;
  uint64_t left_;
  PlanFile file_;
};

}  // namespace

Result<std::vector<std::byte>> write_plan_file(const Fleet& fleet,
                                               std::span<const FleetPart> parts) {
  flatbuffers::FlatBufferBuilder builder;
  const Digest inputs = parts.empty() ? Digest{} : parts.front().inputs;
  std::vector<flatbuffers::Offset<fb::PlanPart>> packed;
  for (const FleetPart& part : parts) {
    if (part.inputs != inputs) {
      return Status(Code::kMismatch,
                    "parts of different inputs: " + part.inputs.hex() + " and " + inputs.hex());
    }
    std::vector<flatbuffers::Offset<fb::PlanList>> lists;
    for (const PartList& list : part.lists) lists.push_back(pack(&builder, list));
    packed.push_back(fb::CreatePlanPart(builder, part.receiver, part.in_flight_bytes,
                                        builder.CreateVector(lists)));
    // FlatBuffers' offsets are 32 bits wide.
    if (builder.GetSize() > size_t{1} << 30) {
      return Status(Code::kUnsupported,
                    "a plan file of more than 1 GiB: write fewer parts into it");
    }
  }
  const fb::PlanDigest digest(inputs.low, inputs.high);
  const auto sources = builder.CreateVectorOfStrings(names_of(fleet.sources()));
  const auto receivers = builder.CreateVectorOfStrings(names_of(fleet.receivers()));
  const auto all = builder.CreateVector(packed);
  fb::FinishPlanFileBuffer(builder,
                           fb::CreatePlanFile(builder, kVersion, &digest, sources, receivers, all));
  std::vector<std::byte> bytes(kHead + builder.GetSize());
  std::memcpy(bytes.data() + kHead, builder.GetBufferPointer(), builder.GetSize());
  const Digest whole = digest_of(std::span(bytes).subspan(kHead));
  std::memcpy(bytes.data(), &whole.low, 8);
  std::memcpy(bytes.data() + 8, &whole.high, 8);
  return bytes;
}

Result<PlanFile> read_plan_file(std::span<const std::byte> bytes) {
  if (bytes.size() < kHead + 8 || bytes.size() > (size_t{1} << 31) - 1) {
    return bad("it has " + std::to_string(bytes.size()) + " bytes");
  }
  Digest whole;
  std::memcpy(&whole.low, bytes.data(), 8);
  std::memcpy(&whole.high, bytes.data() + 8, 8);
  if (whole != digest_of(bytes.subspan(kHead))) return bad("its bytes are not those of its digest");
  // Fields are read in place and must be aligned.
  std::vector<uint64_t> aligned((bytes.size() - kHead + 7) / 8);
  std::memcpy(aligned.data(), bytes.data() + kHead, bytes.size() - kHead);
  const auto* data = reinterpret_cast<const uint8_t*>(aligned.data());
  constexpr uint32_t kDepth = 16;
  const auto tables = static_cast<uint32_t>(bytes.size() / 8);  // a table takes at least as much
  flatbuffers::Verifier verifier(data, bytes.size() - kHead, kDepth, tables);
  if (!fb::VerifyPlanFileBuffer(verifier)) return bad("the verifier refused its bytes");
  const fb::PlanFile& from = *fb::GetPlanFile(data);
  if (from.version() != kVersion) {
    return bad("version " + std::to_string(from.version()) + ", this build reads version " +
               std::to_string(kVersion));
  }
  return Reader(from, bytes.size()).read();
}

}  // namespace wb
