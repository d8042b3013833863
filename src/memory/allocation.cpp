#include "memory/allocation.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <utility>

#include "base/checked.h"
#include "memory/headroom.h"
#include "memory/mapped.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace wb {
namespace {

std::string text_of(uint64_t bytes) { return std::to_string(bytes) + " bytes"; }

uint64_t page_bytes() { return static_cast<uint64_t>(sysconf(_SC_PAGESIZE)); }

// The length of the mapping: whole pages of the kind asked for. kNoMemory when it cannot fit.
Result<uint64_t> mapping_length(uint64_t bytes, PageUse use, bool huge) {
  if (bytes == 0) return Status(Code::kInvalidArgument, "an allocation of zero bytes");
  // Above the address space's end nothing fits, and rounding up could wrap.
  if (bytes > (uint64_t{1} << 62)) {
    return Status(Code::kNoMemory, text_of(bytes) + " are more than any address space");
  }
  if (huge) {
    const HugePages pages = huge_pages_free();
    if (pages.page_bytes == 0) {
      return Status(Code::kUnsupported, "this machine has no explicit huge pages");
    }
    const uint64_t length = round_up(bytes, pages.page_bytes);
    if (length > pages.free_bytes) {
      return Status(Code::kNoMemory, text_of(length) + " of huge pages are needed and " +
                                         text_of(pages.free_bytes) +
                                         " are free: raise vm.nr_hugepages, or allocate without "
                                         "huge pages");
    }
    return length;
  }
  const uint64_t length = round_up(bytes, page_bytes());
  const Headroom headroom = memory_headroom(use);
  if (length > headroom.bytes) {
    return Status(Code::kNoMemory, text_of(length) + " are needed and " + text_of(headroom.bytes) +
                                       " are left under " + headroom.limit);
  }
  return length;
}

// Every page present now, so that no later access faults or finds memory gone.
Status populate(std::byte* data, uint64_t length) {
  if (madvise(data, length, MADV_POPULATE_WRITE) == 0) return Status();
  if (errno != EINVAL) return errno_status(errno, "populating " + text_of(length));
  // Kernels before 5.14: a write to each page.
  for (uint64_t at = 0; at < length; at += page_bytes()) {
    *reinterpret_cast<volatile std::byte*>(data + at) = std::byte{0};
  }
  return Status();
}

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

class Mapping {
 public:
  Mapping(void* data, uint64_t length) : data_(data), length_(length) {}
  ~Mapping() {
    if (data_ != MAP_FAILED) munmap(data_, length_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  bool ok() const { return data_ != MAP_FAILED; }
  std::byte* get() const { return static_cast<std::byte*>(data_); }
  std::byte* release() { return static_cast<std::byte*>(std::exchange(data_, MAP_FAILED)); }

 private:
  void* data_;
  uint64_t length_;
};

Status seal(int fd, int seals) {
  if (fcntl(fd, F_ADD_SEALS, seals) == 0) return Status();
  return errno_status(errno, "sealing shared memory");
}

std::atomic<uint64_t> next_id = 1;

}  // namespace

Allocation::Allocation(MemoryKind kind, std::byte* data, uint64_t bytes, uint64_t mapped, int fd)
    : kind_(kind),
      data_(data),
      bytes_(bytes),
      mapped_(mapped),
      fd_(fd),
      id_(next_id.fetch_add(1, std::memory_order_relaxed)) {}

Allocation::~Allocation() {
  // Both fail only for arguments that this class never holds.
  if (mapped_ != 0) munmap(data_, mapped_);
  if (fd_ >= 0) close(fd_);
}

Result<std::shared_ptr<Allocation>> Allocation::host(uint64_t bytes,
                                                     const AllocationOptions& options) {
  WB_ASSIGN_OR_RETURN(const uint64_t length,
                      mapping_length(bytes, PageUse::kAnonymous, options.huge_pages));
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (options.huge_pages ? MAP_HUGETLB : 0);
  Mapping mapping(mmap(nullptr, length, PROT_READ | PROT_WRITE, flags, -1, 0), length);
  if (!mapping.ok()) return errno_status(errno, "allocating " + text_of(length));
  // A hint: fewer faults and page-table walks where the kernel has large pages to give.
  if (!options.huge_pages) madvise(mapping.get(), length, MADV_HUGEPAGE);
  WB_RETURN_IF_ERROR(populate(mapping.get(), length));
  return std::shared_ptr<Allocation>(
      new Allocation(MemoryKind::kHost, mapping.release(), bytes, length, -1));
}

Result<std::shared_ptr<Allocation>> Allocation::shared(uint64_t bytes,
                                                       const AllocationOptions& options) {
  WB_ASSIGN_OR_RETURN(const uint64_t length,
                      mapping_length(bytes, PageUse::kMemfd, options.huge_pages));
  const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING | (options.huge_pages ? MFD_HUGETLB : 0U);
  Fd fd(memfd_create(options.name.c_str(), flags));
  if (fd.get() < 0) return errno_status(errno, "creating shared memory");
  if (ftruncate(fd.get(), static_cast<off_t>(length)) != 0) {
    return errno_status(errno, "sizing shared memory to " + text_of(length));
  }
  WB_RETURN_IF_ERROR(seal(fd.get(), F_SEAL_GROW | F_SEAL_SHRINK));
  Mapping mapping(mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0), length);
  if (!mapping.ok()) return errno_status(errno, "mapping " + text_of(length));
  // Only this mapping may ever write: set after it is made, and final.
  WB_RETURN_IF_ERROR(seal(fd.get(), F_SEAL_FUTURE_WRITE | F_SEAL_SEAL));
  if (!options.huge_pages) madvise(mapping.get(), length, MADV_HUGEPAGE);
  WB_RETURN_IF_ERROR(populate(mapping.get(), length));
  return std::shared_ptr<Allocation>(
      new Allocation(MemoryKind::kShared, mapping.release(), bytes, length, fd.release()));
}

Result<std::shared_ptr<Allocation>> Allocation::caller(void* base, uint64_t bytes) {
  if (base != nullptr && bytes != 0 &&
      checked_add(reinterpret_cast<uint64_t>(base), bytes).has_value()) {
    // Before the look at the page table: device addresses are mapped without rights.
    WB_RETURN_IF_ERROR(check_not_device(base, bytes));
  }
  WB_RETURN_IF_ERROR(check_mapped(base, bytes, false));
  return std::shared_ptr<Allocation>(
      new Allocation(MemoryKind::kCaller, static_cast<std::byte*>(base), bytes, 0, -1));
}

}  // namespace wb
