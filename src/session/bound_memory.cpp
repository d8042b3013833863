#include "session/bound_memory.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "base/checked.h"

namespace wb {
namespace {

constexpr uint64_t kBufferAlignment = 4096;

std::string buffer_name(const WorkerLayout& layout, size_t index) {
  return "buffer '" + layout.buffers[index].name + "'";
}

Status check_no_overlap(const WorkerLayout& layout, const BoundMemory& memory) {
  std::vector<size_t> order(layout.buffers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return memory.buffer(a) < memory.buffer(b); });
  const std::byte* end = nullptr;
  size_t before = 0;
  for (const size_t i : order) {
    if (layout.buffers[i].bytes == 0) continue;
    if (end != nullptr && memory.buffer(i) < end) {
      return Status(Code::kInvalidArgument, buffer_name(layout, before) + " and " +
                                                buffer_name(layout, i) + " overlap in memory");
    }
    end = memory.buffer(i) + layout.buffers[i].bytes;
    before = i;
  }
  return Status();
}

}  // namespace

Result<BoundMemory> group_buffers(const WorkerLayout& layout,
                                  const std::vector<BoundBuffer>& buffers) {
  if (buffers.size() != layout.buffers.size()) {
    return Status(Code::kInvalidArgument,
                  "the layout has " + std::to_string(layout.buffers.size()) + " buffers, but " +
                      std::to_string(buffers.size()) + " are bound to memory");
  }
  BoundMemory out;
  std::unordered_map<uint64_t, uint32_t> region_of;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const BoundBuffer& bound = buffers[i];
    if (bound.memory == nullptr) {
      return Status(Code::kInvalidArgument, buffer_name(layout, i) + " is bound to no memory");
    }
    if (!range_inside(bound.offset, layout.buffers[i].bytes, bound.memory->bytes())) {
      return Status(Code::kInvalidArgument, buffer_name(layout, i) + " (" +
                                                std::to_string(layout.buffers[i].bytes) +
                                                " bytes at byte " + std::to_string(bound.offset) +
                                                ") is outside its allocation of " +
                                                std::to_string(bound.memory->bytes()) + " bytes");
    }
    const auto [it, fresh] =
        region_of.try_emplace(bound.memory->id(), static_cast<uint32_t>(out.regions.size()));
    if (fresh) {
      out.regions.push_back(bound.memory);
      out.region_bytes.push_back(bound.memory->bytes());
    }
    out.placement.push_back({it->second, bound.offset});
  }
  WB_RETURN_IF_ERROR(check_no_overlap(layout, out));
  return out;
}

Result<PackedMemory> pack_memory(const WorkerLayout& layout) {
  constexpr uint64_t kMost = uint64_t{1} << 62;
  PackedMemory out;
  for (const BufferInfo& buffer : layout.buffers) {
    out.offsets.push_back(out.bytes);
    if (buffer.bytes > kMost || out.bytes + round_up(buffer.bytes, kBufferAlignment) > kMost) {
      return Status(Code::kInvalidArgument,
                    "the layout's buffers are larger than any memory: '" + buffer.name + "'");
    }
    out.bytes += round_up(buffer.bytes, kBufferAlignment);
  }
  // A layout may hold nothing at all (a rank of an uneven split); an allocation may not.
  out.bytes = std::max(out.bytes, kBufferAlignment);
  return out;
}

Result<std::vector<BoundBuffer>> bind_new_memory(const WorkerLayout& layout, MemoryKind kind,
                                                 const AllocationOptions& options) {
  WB_ASSIGN_OR_RETURN(const PackedMemory packed, pack_memory(layout));
  std::shared_ptr<Allocation> memory;
  switch (kind) {
    case MemoryKind::kHost: {
      WB_ASSIGN_OR_RETURN(memory, Allocation::host(packed.bytes, options));
      break;
    }
    case MemoryKind::kShared: {
      WB_ASSIGN_OR_RETURN(memory, Allocation::shared(packed.bytes, options));
      break;
    }
    case MemoryKind::kCaller:
      break;
  }
  if (memory == nullptr) {
    return Status(
        Code::kInvalidArgument,
        "new memory is host or shared memory; the caller's own is bound buffer by buffer");
  }
  std::vector<BoundBuffer> out;
  for (const uint64_t offset : packed.offsets) out.push_back({memory, offset});
  return out;
}

Result<RegisteredRegions> RegisteredRegions::make(
    Domain* domain, std::span<const std::shared_ptr<Allocation>> memory, Access access,
    const Log& log) {
  RegisteredRegions out(domain, log);
  for (const auto& allocation : memory) {
    // A failure drops `out`, which deregisters what came before.
    WB_ASSIGN_OR_RETURN(const RegionId id, domain->register_region(allocation, access));
    out.ids_.push_back(id);
  }
  return out;
}

RegisteredRegions::RegisteredRegions(RegisteredRegions&& other) noexcept
    : domain_(other.domain_), log_(std::move(other.log_)), ids_(std::move(other.ids_)) {
  other.ids_.clear();
}

Status RegisteredRegions::release() {
  Status first;
  for (const RegionId id : ids_) {
    Status status = domain_->deregister_region(id);
    if (first.ok() && !status.ok()) first = std::move(status);
  }
  ids_.clear();
  return first;
}

RegisteredRegions::~RegisteredRegions() {
  const Status status = release();
  if (!status.ok()) {
    log_.write(LogLevel::kError, "session", "deregistering memory failed",
               {{"error", status.to_string()}});
  }
}

}  // namespace wb
