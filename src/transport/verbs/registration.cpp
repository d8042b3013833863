#include "transport/verbs/registration.h"

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <thread>

#include "base/checked.h"
#include "base/good_guest.h"
#include "transport/verbs/limits.h"

namespace wb::verbs {
namespace {

constexpr uint64_t kPage = 4096;
// Below this a thread costs more than the registration.
constexpr uint64_t kWorthAThread = 256u << 20;

// How a kind of memory becomes known to a NIC. Each kind that is added is a case here.
ibv_mr* register_slice(const Rail& rail, MemoryKind kind, std::byte* data, uint64_t bytes,
                       unsigned access) {
  switch (kind) {
    case MemoryKind::kHost:
    case MemoryKind::kShared:
    case MemoryKind::kCaller:
      return rail.verbs().reg_mr(rail.pd(), data, bytes, access);
  }
  errno = EOPNOTSUPP;
  return nullptr;
}

Status registration_failed(int error, const Rail& rail, uint64_t bytes) {
  const std::string what = "registering " + std::to_string(bytes) + " bytes with " + rail.name();
  if (error == ENOMEM) {
    return Status(Code::kNoMemory,
                  what +
                      " failed for lack of memory: the limit on locked memory (ulimit -l) or "
                      "the device's page tables are exhausted; with huge pages the tables hold "
                      "512 times as much")
        .with_errno(error);
  }
  return errno_status(error, what);
}

}  // namespace

uint64_t slice_bytes_for(uint64_t bytes, uint64_t wanted, std::span<const uint64_t> device_most) {
  uint64_t most = wanted;
  for (const uint64_t device : device_most) most = std::min(most, device);
  if (bytes <= most) return bytes;
  return std::max(kPage, most / kPage * kPage);
}

Result<std::shared_ptr<const Registration>> Registration::make(
    const std::vector<std::shared_ptr<Rail>>& rails, std::shared_ptr<Allocation> memory,
    Right right, bool strict, const VerbsOptions& options) {
  WB_RETURN_IF_ERROR(check_lock_limit(memory->bytes(), rails.size(), lock_limits()));
  std::vector<uint64_t> most;
  for (const auto& rail : rails) {
    if (rail->device().max_mr_size != 0) most.push_back(rail->device().max_mr_size);
  }
  std::shared_ptr<Registration> out(new Registration(rails, std::move(memory)));
  out->slice_bytes_ = slice_bytes_for(out->bytes(), options.max_slice, most);
  out->slices_ = (out->bytes() - 1) / out->slice_bytes_ + 1;
  if (out->slices_ > kMaxSlices / rails.size()) {
    return Status(Code::kNoMemory, "a region of " + std::to_string(out->bytes()) +
                                       " bytes needs more memory registrations than " +
                                       std::to_string(kMaxSlices) + ": raise max_slice");
  }
  for (const auto& rail : rails) {
    WB_RETURN_IF_ERROR(check_device_limit(out->slices_, rail->registrations(),
                                          {rail->name(), rail->device().max_mr}));
  }
  out->regions_.resize(rails.size());
  const bool relaxed = options.relaxed_ordering && !strict;
  std::vector<Status> status(rails.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < rails.size(); ++i) {
    const auto work = [&, i] { status[i] = out->register_on(i, right, relaxed); };
    if (rails.size() > 1 && out->bytes() >= kWorthAThread) {
      const SignalsBlocked blocked;
      threads.emplace_back(work);
    } else {
      work();
    }
  }
  for (std::thread& thread : threads) thread.join();
  for (Status& one : status) WB_RETURN_IF_ERROR(std::move(one));
  return std::shared_ptr<const Registration>(std::move(out));
}

// Ascending, which is the cheap order where a provider's cost grows with what is registered.
Status Registration::register_on(size_t rail_index, Right right, bool relaxed) {
  Rail& rail = *rails_[rail_index];
  unsigned access = right == Right::kRemoteRead ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_LOCAL_WRITE;
  if (relaxed) access |= IBV_ACCESS_RELAXED_ORDERING;
  regions_[rail_index].reserve(slices_);
  for (size_t slice = 0; slice < slices_; ++slice) {
    const uint64_t at = slice * slice_bytes_;
    const uint64_t length = std::min(slice_bytes_, bytes() - at);
    ibv_mr* region = register_slice(rail, memory_->kind(), memory_->data() + at, length, access);
    if (region == nullptr) return registration_failed(errno, rail, length);
    rail.count_registration(1);
    regions_[rail_index].push_back(region);
  }
  return Status();
}

Registration::~Registration() {
  for (size_t rail = 0; rail < regions_.size(); ++rail) {
    for (ibv_mr* region : regions_[rail]) {
      if (rails_[rail]->verbs().dereg_mr(region) == 0) {
        rails_[rail]->count_registration(-1);
      } else {
        // The NIC may go on using the pages: they are never given back.
        (void)new std::shared_ptr<Allocation>(memory_);
      }
    }
  }
}

void keep_for_good(std::shared_ptr<const Registration> registration) {
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::shared_ptr<const Registration>>;
  const std::lock_guard lock(mutex);
  kept->push_back(std::move(registration));
}

}  // namespace wb::verbs
