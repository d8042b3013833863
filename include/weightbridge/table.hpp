// The tensors of a checkpoint. Part of weightbridge.hpp.
#ifndef WEIGHTBRIDGE_TABLE_HPP
#define WEIGHTBRIDGE_TABLE_HPP

#include <weightbridge/detail.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace weightbridge {

struct TensorInfo {
  std::string name;
  DType dtype = DType::kU8;
  std::vector<std::int64_t> shape = {};  // in elements
};

class Table {
 public:
  static Result<Table> open(const std::string& path) {
    wb_table* handle = nullptr;
    const wb_code code = wb_table_open(path.c_str(), &handle);
    if (code != WB_OK) return Status::of(code);
    return Table(handle);
  }
  static Result<Table> create(const std::vector<TensorInfo>& tensors) {
    std::vector<wb_tensor> raw;
    for (const TensorInfo& tensor : tensors) {
      raw.push_back({tensor.name.c_str(), static_cast<wb_dtype>(tensor.dtype),
                     static_cast<std::uint32_t>(tensor.shape.size()), tensor.shape.data()});
    }
    wb_table* handle = nullptr;
    const wb_code code = wb_table_create(raw.data(), raw.size(), &handle);
    if (code != WB_OK) return Status::of(code);
    return Table(handle);
  }

  // In order of names.
  Result<std::vector<TensorInfo>> tensors() const {
    std::size_t count = 0;
    if (const wb_code code = wb_table_count(get(), &count); code != WB_OK) return Status::of(code);
    std::vector<TensorInfo> all;
    for (std::size_t i = 0; i < count; ++i) {
      wb_tensor raw{};
      if (const wb_code code = wb_table_tensor(get(), i, &raw); code != WB_OK) {
        return Status::of(code);
      }
      all.push_back({raw.name, static_cast<DType>(raw.dtype), {raw.shape, raw.shape + raw.rank}});
    }
    return all;
  }
  wb_table* get() const { return handle_.get(); }

 private:
  friend class Layout;
  explicit Table(wb_table* handle) : handle_(handle) {}
  std::unique_ptr<wb_table, detail::Freer<wb_table, wb_table_free>> handle_;
};

}  // namespace weightbridge

#endif
