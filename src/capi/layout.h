// Tables and layouts behind handles, and where a layout's buffers lie.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/status.h"
#include "capi/handle.h"
#include "capi/memory.h"
#include "layout/tensor_table.h"
#include "layout/worker_layout.h"
#include "session/job.h"

namespace wb::capi {

struct TableObject {
  static constexpr Kind kKind = Kind::kTable;
  explicit TableObject(TensorTable of) : table(std::move(of)) {}
  const TensorTable table;
};

// A layout with the memory of its buffers, ready for Publisher::create and Receiver::create.
struct BoundLayout {
  TensorTable table;
  WorkerLayout layout;
  std::vector<BoundBuffer> buffers;
};

// What a wb_buffer says of a buffer; its memory apart.
Result<BufferInfo> buffer_info(const wb_buffer& given);

class LayoutObject {
 public:
  static constexpr Kind kKind = Kind::kLayout;

  LayoutObject(std::shared_ptr<const TableObject> table, WorkerLayout layout);

  Result<uint32_t> add_buffer(const wb_buffer& buffer);
  Result<uint32_t> add_tensor(const char* tensor, void* data, uint64_t bytes);
  Status add_piece(const wb_piece& piece);
  Status add_extra(uint32_t buffer, uint64_t offset, uint64_t bytes, wb_extra_kind kind,
                   const char* name);
  Status bind(uint32_t buffer, void* data, uint64_t bytes);
  Status allocate(const MemoryWish& wish);

  size_t count() const;
  Result<wb_buffer> describe(uint32_t buffer) const;
  Status check(LayoutRole role) const;
  const TensorTable& table() const { return table_->table; }
  // A copy: the layout may change meanwhile.
  WorkerLayout layout() const;
  size_t piece_count() const;
  size_t extra_count() const;
  Result<Piece> piece(size_t index) const;
  Result<Extra> extra(size_t index) const;
  // kFailedPrecondition names the first buffer without memory.
  Result<BoundLayout> bound() const;

 private:
  // Where a buffer lies: in memory that the library knows, in the caller's, or nowhere yet.
  struct Place {
    BoundBuffer known;  // memory is null when the library does not know it
    std::byte* data = nullptr;
  };

  // All with mutex_ held.
  Status check_index(uint32_t buffer) const;
  static Result<Place> place(void* data, uint64_t bytes);

  const std::shared_ptr<const TableObject> table_;
  mutable std::mutex mutex_;  // guards what follows
  WorkerLayout layout_;
  std::vector<Place> places_;  // parallel to layout_.buffers
  std::unordered_set<std::string> names_;
};

}  // namespace wb::capi
