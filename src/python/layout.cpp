#include "python/layout.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace wb::python {
namespace {

using Numbers = std::vector<int64_t>;
using TensorTuple = std::tuple<std::string, int32_t, Numbers>;  // name, dtype, shape
using TablePointer = std::unique_ptr<Table>;
using LayoutPointer = std::unique_ptr<Layout>;

Numbers numbers(const int64_t* values, uint32_t count) {
  return values == nullptr ? Numbers() : Numbers(values, values + count);
}

void* address(uint64_t value) { return reinterpret_cast<void*>(value); }

TablePointer open_table(const std::string& path) {
  wb_table* table = nullptr;
  const char* const file = c_text(path);
  run([&] { return wb_table_open(file, &table); });
  return std::make_unique<Table>(table);
}

TablePointer create_table(const std::vector<TensorTuple>& tensors) {
  std::vector<wb_tensor> raw;
  raw.reserve(tensors.size());
  for (const auto& [name, dtype, shape] : tensors) {
    raw.push_back({c_text(name), dtype, static_cast<uint32_t>(shape.size()), shape.data()});
  }
  wb_table* table = nullptr;
  run([&] { return wb_table_create(raw.data(), raw.size(), &table); });
  return std::make_unique<Table>(table);
}

std::vector<TensorTuple> table_tensors(const Table& table) {
  size_t count = 0;
  check(wb_table_count(table.get(), &count));
  std::vector<TensorTuple> all;
  all.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    wb_tensor tensor{};
    check(wb_table_tensor(table.get(), i, &tensor));
    all.emplace_back(tensor.name, tensor.dtype, numbers(tensor.shape, tensor.rank));
  }
  return all;
}

LayoutPointer create_layout(const Table& table) {
  wb_layout* layout = nullptr;
  check(wb_layout_create(table.get(), &layout));
  return std::make_unique<Layout>(layout);
}

LayoutPointer layout_from_rules(const Table& table, const std::string& folder,
                                const std::string& spec, uint32_t rank) {
  wb_layout* layout = nullptr;
  wb_table* const all = table.get();
  const char* const model = c_text(folder);
  const char* const rule = c_text(spec);
  run([&] { return wb_layout_from_rules(all, model, rule, rank, &layout); });
  return std::make_unique<Layout>(layout);
}

uint32_t add_buffer(Layout& layout, const std::string& name, int32_t dtype, const Numbers& shape,
                    uint64_t data, uint64_t bytes) {
  const wb_buffer buffer{
      sizeof(wb_buffer), c_text(name),  dtype, static_cast<uint32_t>(shape.size()),
      shape.data(),      address(data), bytes};
  uint32_t index = 0;
  check(wb_layout_add_buffer(layout.get(), &buffer, &index));
  return index;
}

void add_piece(Layout& layout, const std::string& tensor, uint32_t buffer,
               const std::optional<Numbers>& start, const std::optional<Numbers>& count,
               const std::optional<Numbers>& step, int64_t offset,
               const std::optional<Numbers>& stride) {
  std::optional<size_t> rank;
  for (const auto* array : {&start, &count, &step, &stride}) {
    if (!array->has_value()) continue;
    if (rank.has_value() && *rank != (*array)->size()) {
      raise(WB_INVALID_ARGUMENT,
            ("piece of " + tensor + ": start, count, step and stride differ in length").c_str());
    }
    rank = (*array)->size();
  }
  // A scalar's empty lists are not "none given": they need an address.
  static constexpr int64_t kNothing = 0;
  const auto pointer = [](const std::optional<Numbers>& array) -> const int64_t* {
    if (!array.has_value()) return nullptr;
    return array->empty() ? &kNothing : array->data();
  };
  const wb_piece piece{
      sizeof(wb_piece), c_text(tensor), buffer,        static_cast<uint32_t>(rank.value_or(0)),
      pointer(start),   pointer(count), pointer(step), offset,
      pointer(stride)};
  check(wb_layout_add_piece(layout.get(), &piece));
}

uint32_t add_tensor(Layout& layout, const std::string& tensor, uint64_t data, uint64_t bytes) {
  uint32_t index = 0;
  check(wb_layout_add_tensor(layout.get(), c_text(tensor), address(data), bytes, &index));
  return index;
}

void allocate(Layout& layout, int32_t kind, bool huge_pages,
              const std::optional<std::string>& name) {
  const wb_memory_options options{sizeof(wb_memory_options), kind, huge_pages ? 1 : 0,
                                  name.has_value() ? c_text(*name) : nullptr};
  wb_layout* const handle = layout.get();
  run([&] { return wb_layout_allocate(handle, &options); });
}

using BufferTuple = std::tuple<std::string, int32_t, Numbers, uint64_t, uint64_t>;

std::vector<BufferTuple> buffers(const Layout& layout) {
  size_t count = 0;
  check(wb_layout_count(layout.get(), &count));
  std::vector<BufferTuple> all;
  all.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    wb_buffer buffer{};
    buffer.struct_size = sizeof buffer;
    check(wb_layout_buffer(layout.get(), static_cast<uint32_t>(i), &buffer));
    all.emplace_back(buffer.name, buffer.dtype, numbers(buffer.shape, buffer.rank),
                     reinterpret_cast<uint64_t>(buffer.data), buffer.bytes);
  }
  return all;
}

// tensor, buffer, start, count, step, offset, stride
using PieceTuple = std::tuple<std::string, uint32_t, Numbers, Numbers, Numbers, int64_t, Numbers>;

std::vector<PieceTuple> pieces(const Layout& layout) {
  size_t count = 0;
  check(wb_layout_piece_count(layout.get(), &count));
  std::vector<PieceTuple> all;
  all.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    wb_piece piece{};
    piece.struct_size = sizeof piece;
    check(wb_layout_piece(layout.get(), i, &piece));
    all.emplace_back(piece.tensor, piece.buffer, numbers(piece.start, piece.rank),
                     numbers(piece.count, piece.rank), numbers(piece.step, piece.rank),
                     piece.offset, numbers(piece.stride, piece.rank));
  }
  return all;
}

using ExtraTuple = std::tuple<std::string, uint32_t, int32_t, uint64_t, uint64_t>;

std::vector<ExtraTuple> extras(const Layout& layout) {
  size_t count = 0;
  check(wb_layout_extra_count(layout.get(), &count));
  std::vector<ExtraTuple> all;
  all.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    wb_extra extra{};
    extra.struct_size = sizeof extra;
    check(wb_layout_extra(layout.get(), i, &extra));
    all.emplace_back(extra.name, extra.buffer, extra.kind, extra.offset, extra.bytes);
  }
  return all;
}

std::string text(const char* value) {
  if (value == nullptr) check(wb_last_error()->code);
  return value;
}

// The text belongs to the calling thread, so it is copied before another call can replace it.
std::string diff(const Layout& a, const Layout& b) {
  const char* value = nullptr;
  {
    wb_layout* const left = a.get();
    wb_layout* const right = b.get();
    const nb::gil_scoped_release release;
    value = wb_layout_diff(left, right);
  }
  return text(value);
}

std::pair<TablePointer, LayoutPointer> load(const std::string& path) {
  wb_table* table = nullptr;
  wb_layout* layout = nullptr;
  const char* const file = c_text(path);
  run([&] { return wb_layout_load(file, &table, &layout); });
  return {std::make_unique<Table>(table), std::make_unique<Layout>(layout)};
}

}  // namespace

void bind_layout(nb::module_& module) {
  nb::class_<Table>(module, "Table")
      .def_static("open", &open_table, nb::arg("path"))
      .def_static("create", &create_table, nb::arg("tensors"))
      .def("tensors", &table_tensors);

  nb::class_<Layout>(module, "Layout")
      .def_static("create", &create_layout, nb::arg("table"))
      .def_static("from_rules", &layout_from_rules, nb::arg("table"), nb::arg("model_dir"),
                  nb::arg("spec"), nb::arg("rank"))
      .def_static("load", &load, nb::arg("path"))
      .def("add_buffer", &add_buffer, nb::arg("name"), nb::arg("dtype"), nb::arg("shape"),
           nb::arg("data"), nb::arg("bytes"))
      .def("add_piece", &add_piece, nb::arg("tensor"), nb::arg("buffer"), nb::arg("start").none(),
           nb::arg("count").none(), nb::arg("step").none(), nb::arg("offset"),
           nb::arg("stride").none())
      .def("add_tensor", &add_tensor, nb::arg("tensor"), nb::arg("data"), nb::arg("bytes"))
      .def(
          "add_extra",
          [](Layout& layout, uint32_t buffer, uint64_t offset, uint64_t bytes, int32_t kind,
             const std::string& name) {
            check(wb_layout_add_extra(layout.get(), buffer, offset, bytes, kind, c_text(name)));
          },
          nb::arg("buffer"), nb::arg("offset"), nb::arg("bytes"), nb::arg("kind"), nb::arg("name"))
      .def(
          "bind",
          [](Layout& layout, uint32_t buffer, uint64_t data, uint64_t bytes) {
            check(wb_layout_bind(layout.get(), buffer, address(data), bytes));
          },
          nb::arg("buffer"), nb::arg("data"), nb::arg("bytes"))
      .def("allocate", &allocate, nb::arg("kind"), nb::arg("huge_pages"), nb::arg("name").none())
      .def(
          "check",
          [](const Layout& layout, int32_t role) {
            wb_layout* const handle = layout.get();
            run([&] { return wb_layout_check(handle, role); });
          },
          nb::arg("role"))
      .def("buffers", &buffers)
      .def("pieces", &pieces)
      .def("extras", &extras)
      .def("digest", [](const Layout& layout) { return text(wb_layout_digest(layout.get())); })
      .def(
          "save",
          [](const Layout& layout, const std::string& path) {
            wb_layout* const handle = layout.get();
            const char* const file = c_text(path);
            run([&] { return wb_layout_save(handle, file); });
          },
          nb::arg("path"))
      .def_static("diff", &diff, nb::arg("a"), nb::arg("b"));
}

}  // namespace wb::python
