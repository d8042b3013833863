// Where the elements of checkpoint tensors lie in one worker's memory. Part of weightbridge.hpp.
#ifndef WEIGHTBRIDGE_LAYOUT_HPP
#define WEIGHTBRIDGE_LAYOUT_HPP

#include <weightbridge/memory.hpp>
#include <weightbridge/table.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace weightbridge {

struct Buffer {
  std::string name;
  DType dtype = DType::kU8;
  std::vector<std::int64_t> shape = {};  // in elements
  void* data = nullptr;                  // null: no memory yet
  std::uint64_t bytes = 0;               // 0: what dtype and shape need
};

namespace detail {

// Points into `buffer`.
inline wb_buffer raw_of(const Buffer& buffer) {
  return {sizeof(wb_buffer),
          buffer.name.c_str(),
          static_cast<wb_dtype>(buffer.dtype),
          static_cast<std::uint32_t>(buffer.shape.size()),
          buffer.shape.data(),
          buffer.data,
          buffer.bytes};
}

}  // namespace detail

// Empty start and count: the whole tensor (or a scalar). Empty step: 1 each. Empty stride: dense,
// row-major.
struct Piece {
  std::string tensor;
  std::uint32_t buffer = 0;
  std::vector<std::int64_t> start = {};
  std::vector<std::int64_t> count = {};
  std::vector<std::int64_t> step = {};
  std::int64_t offset = 0;                // bytes
  std::vector<std::int64_t> stride = {};  // bytes
};

// Bytes of a buffer that no piece covers.
struct Extra {
  std::string name;
  std::uint32_t buffer = 0;
  ExtraKind kind = ExtraKind::kUnmapped;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

class Layout {
 public:
  // A layout file, and its table.
  static Result<std::pair<Table, Layout>> load(const std::string& path) {
    wb_table* table = nullptr;
    wb_layout* handle = nullptr;
    const wb_code code = wb_layout_load(path.c_str(), &table, &handle);
    if (code != WB_OK) return Status::of(code);
    return std::pair(Table(table), Layout(handle));
  }
  static Result<Layout> create(const Table& table) {
    wb_layout* handle = nullptr;
    const wb_code code = wb_layout_create(table.get(), &handle);
    if (code != WB_OK) return Status::of(code);
    return Layout(handle);
  }
  static Result<Layout> from_rules(const Table& table, const std::string& model_dir,
                                   const std::string& spec, std::uint32_t rank) {
    wb_layout* handle = nullptr;
    const wb_code code =
        wb_layout_from_rules(table.get(), model_dir.c_str(), spec.c_str(), rank, &handle);
    if (code != WB_OK) return Status::of(code);
    return Layout(handle);
  }

  // Returns the buffer's index.
  Result<std::uint32_t> add_buffer(const Buffer& buffer) {
    const wb_buffer raw = detail::raw_of(buffer);
    std::uint32_t index = 0;
    const wb_code code = wb_layout_add_buffer(get(), &raw, &index);
    if (code != WB_OK) return Status::of(code);
    return index;
  }

  Status add_piece(const Piece& piece) {
    std::size_t rank = 0;
    for (const auto* array : {&piece.start, &piece.count, &piece.step, &piece.stride}) {
      if (array->empty()) continue;
      if (rank != 0 && rank != array->size()) {
        return Status::make(Code::kInvalidArgument, "piece of " + piece.tensor +
                                                        ": start, count, step and stride differ "
                                                        "in length");
      }
      rank = array->size();
    }
    const wb_piece raw{sizeof(wb_piece),
                       piece.tensor.c_str(),
                       piece.buffer,
                       static_cast<std::uint32_t>(rank),
                       data_or_null(piece.start),
                       data_or_null(piece.count),
                       data_or_null(piece.step),
                       piece.offset,
                       data_or_null(piece.stride)};
    return Status::of(wb_layout_add_piece(get(), &raw));
  }

  // A buffer that holds a whole tensor under the tensor's own name, dense and row-major. Returns
  // its index. `data` null: no memory yet; `bytes` 0: what the tensor needs.
  Result<std::uint32_t> add_tensor(const std::string& tensor, void* data = nullptr,
                                   std::uint64_t bytes = 0) {
    std::uint32_t index = 0;
    const wb_code code = wb_layout_add_tensor(get(), tensor.c_str(), data, bytes, &index);
    if (code != WB_OK) return Status::of(code);
    return index;
  }
  // The same over an array, vector or span; its size is checked.
  template <typename Range>
  requires requires(Range& range) { std::span(range); }
  Result<std::uint32_t> add_tensor(const std::string& tensor, Range& range) {
    const auto bytes = std::as_writable_bytes(std::span(range));
    return add_tensor(tensor, bytes.data(), bytes.size());
  }

  Status add_extra(std::uint32_t buffer, std::uint64_t offset, std::uint64_t bytes, ExtraKind kind,
                   const std::string& name) {
    return Status::of(wb_layout_add_extra(get(), buffer, offset, bytes,
                                          static_cast<wb_extra_kind>(kind), name.c_str()));
  }
  Status bind(std::uint32_t buffer, void* data, std::uint64_t bytes) {
    return Status::of(wb_layout_bind(get(), buffer, data, bytes));
  }
  Status allocate(const MemoryOptions& options = {}) {
    const wb_memory_options raw = options.raw();
    return Status::of(wb_layout_allocate(get(), &raw));
  }
  Status check(Role role) const {
    return Status::of(wb_layout_check(get(), static_cast<wb_role>(role)));
  }

  Result<std::vector<Buffer>> buffers() const {
    std::size_t count = 0;
    if (const wb_code code = wb_layout_count(get(), &count); code != WB_OK) return Status::of(code);
    std::vector<Buffer> all;
    for (std::size_t i = 0; i < count; ++i) {
      wb_buffer raw{};
      raw.struct_size = sizeof raw;
      const wb_code code = wb_layout_buffer(get(), static_cast<std::uint32_t>(i), &raw);
      if (code != WB_OK) return Status::of(code);
      all.push_back({raw.name,
                     static_cast<DType>(raw.dtype),
                     {raw.shape, raw.shape + raw.rank},
                     raw.data,
                     raw.bytes});
    }
    return all;
  }
  Result<std::vector<Piece>> pieces() const {
    std::size_t count = 0;
    const wb_code code = wb_layout_piece_count(get(), &count);
    if (code != WB_OK) return Status::of(code);
    std::vector<Piece> all;
    for (std::size_t i = 0; i < count; ++i) {
      wb_piece raw{};
      raw.struct_size = sizeof raw;
      if (const wb_code got = wb_layout_piece(get(), i, &raw); got != WB_OK) {
        return Status::of(got);
      }
      all.push_back({raw.tensor,
                     raw.buffer,
                     {raw.start, raw.start + raw.rank},
                     {raw.count, raw.count + raw.rank},
                     {raw.step, raw.step + raw.rank},
                     raw.offset,
                     {raw.stride, raw.stride + raw.rank}});
    }
    return all;
  }
  Result<std::vector<Extra>> extras() const {
    std::size_t count = 0;
    const wb_code code = wb_layout_extra_count(get(), &count);
    if (code != WB_OK) return Status::of(code);
    std::vector<Extra> all;
    for (std::size_t i = 0; i < count; ++i) {
      wb_extra raw{};
      raw.struct_size = sizeof raw;
      if (const wb_code got = wb_layout_extra(get(), i, &raw); got != WB_OK) {
        return Status::of(got);
      }
      all.push_back(
          {raw.name, raw.buffer, static_cast<ExtraKind>(raw.kind), raw.offset, raw.bytes});
    }
    return all;
  }
  Result<std::string> digest() const { return text(wb_layout_digest(get())); }
  Status save(const std::string& path) const {
    return Status::of(wb_layout_save(get(), path.c_str()));
  }
  // JSON: see wb_layout_diff().
  static Result<std::string> diff(const Layout& a, const Layout& b) {
    return text(wb_layout_diff(a.get(), b.get()));
  }
  wb_layout* get() const { return handle_.get(); }

 private:
  friend class Probe;
  static Result<std::string> text(const char* of_library) {
    if (of_library == nullptr) return Status::of(wb_last_error()->code);
    return std::string(of_library);
  }
  static const std::int64_t* data_or_null(const std::vector<std::int64_t>& values) {
    return values.empty() ? nullptr : values.data();
  }
  explicit Layout(wb_layout* handle) : handle_(handle) {}
  std::unique_ptr<wb_layout, detail::Freer<wb_layout, wb_layout_free>> handle_;
};

}  // namespace weightbridge

#endif
