// Memory of the library. Part of weightbridge.hpp.
#ifndef WEIGHTBRIDGE_MEMORY_HPP
#define WEIGHTBRIDGE_MEMORY_HPP

#include <weightbridge/detail.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace weightbridge {

struct MemoryOptions {
  MemoryKind kind = MemoryKind::kShared;
  bool huge_pages = false;
  std::string name = {};

  wb_memory_options raw() const {
    return {sizeof(wb_memory_options), static_cast<wb_memory_kind>(kind), huge_pages ? 1 : 0,
            detail::text_or_null(name)};
  }
};

// Zeroed memory of the library. Layouts, publishers and receivers that use it keep it mapped.
class Memory {
 public:
  static Result<Memory> alloc(std::uint64_t bytes, const MemoryOptions& options = {}) {
    const wb_memory_options raw = options.raw();
    void* data = nullptr;
    const wb_code code = wb_memory_alloc(&raw, bytes, &data);
    if (code != WB_OK) return Status::of(code);
    return Memory(data, bytes);
  }
  void* data() const { return data_.get(); }
  std::uint64_t bytes() const { return bytes_; }

 private:
  Memory(void* data, std::uint64_t bytes) : data_(data), bytes_(bytes) {}
  std::unique_ptr<void, detail::Freer<void, wb_memory_free>> data_;
  std::uint64_t bytes_;
};

}  // namespace weightbridge

#endif
