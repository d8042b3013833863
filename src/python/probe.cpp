#include "python/probe.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "python/layout.h"

namespace wb::python {
namespace {

using Probe = FreedHandle<wb_probe, wb_probe_free>;
using Numbers = std::vector<int64_t>;

std::unique_ptr<Probe> create(const Table& table, int32_t restore, uint32_t threads,
                              const std::optional<std::string>& backup_dir, uint64_t max_bytes,
                              uint64_t seed) {
  wb_probe_options options{};
  options.struct_size = sizeof options;
  options.restore = restore;
  options.threads = threads;
  options.backup_dir = backup_dir.has_value() ? c_text(*backup_dir) : nullptr;
  options.max_bytes = max_bytes;
  options.seed = seed;
  wb_probe* probe = nullptr;
  wb_table* const all = table.get();
  run([&] { return wb_probe_create(all, &options, &probe); });
  return std::make_unique<Probe>(probe);
}

uint32_t add_buffer(Probe& probe, const std::string& name, int32_t dtype, const Numbers& shape,
                    uint64_t data, uint64_t bytes) {
  const wb_buffer buffer{sizeof(wb_buffer),
                         c_text(name),
                         dtype,
                         static_cast<uint32_t>(shape.size()),
                         shape.data(),
                         reinterpret_cast<void*>(data),
                         bytes};
  uint32_t index = 0;
  check(wb_probe_add_buffer(probe.get(), &buffer, &index));
  return index;
}

// kind, index, count, what
std::tuple<int32_t, uint32_t, uint32_t, std::string> begin_pass(Probe& probe) {
  wb_probe_pass pass{};
  pass.struct_size = sizeof pass;
  wb_probe* const handle = probe.get();
  run([&] { return wb_probe_begin_pass(handle, &pass); });
  return {pass.kind, pass.index, pass.count, pass.what == nullptr ? "" : pass.what};
}

// Bytes of one element; 0: no type of a probe tensor.
size_t width(wb_dtype dtype) {
  switch (dtype) {
    case WB_BOOL:
    case WB_U8:
    case WB_I8:
    case WB_F8_E5M2:
    case WB_F8_E4M3:
    case WB_F8_E8M0:
    case WB_F8_E4M3_FNUZ:
    case WB_F8_E5M2_FNUZ:
      return 1;
    case WB_I16:
    case WB_U16:
    case WB_F16:
    case WB_BF16:
      return 2;
    case WB_I32:
    case WB_U32:
    case WB_F32:
      return 4;
    case WB_I64:
    case WB_U64:
    case WB_F64:
    case WB_C64:
      return 8;
    default:
      return 0;
  }
}

// A DLPack array of unsigned integers as wide as the elements, and the dtype that they stand for.
// It keeps the probe alive: its memory stays for a loader that keeps references.
nb::typed<nb::tuple, nb::str, int, nb::any> view(nb::handle_t<Probe> self, size_t index) {
  wb_probe_view raw{};
  check(wb_probe_view_of(nb::cast<Probe&>(self).get(), index, &raw));
  const size_t bytes = width(raw.dtype);
  std::array<size_t, 8> shape{};
  std::array<int64_t, 8> stride{};
  if (bytes == 0 || raw.rank > shape.size()) {
    raise(WB_INTERNAL, "a probe tensor of a type that Python cannot hold");
  }
  for (uint32_t d = 0; d < raw.rank; ++d) {
    shape[d] = static_cast<size_t>(raw.shape[d]);
    stride[d] = raw.stride[d] / static_cast<int64_t>(bytes);
    if (raw.stride[d] % static_cast<int64_t>(bytes) != 0) {
      raise(WB_INTERNAL, "a probe tensor whose stride is no whole number of elements");
    }
  }
  const nb::dlpack::dtype type{static_cast<uint8_t>(nb::dlpack::dtype_code::UInt),
                               static_cast<uint8_t>(8 * bytes), 1};
  nb::ndarray<> array(const_cast<void*>(raw.data), raw.rank, shape.data(), self, stride.data(),
                      type, nb::device::cpu::value, 0);
  return nb::make_tuple(raw.name, raw.dtype, nb::cast(array));
}

// `places`: (name, address, bytes) of the live tensors; None: nothing is compared.
void end_pass(
    Probe& probe,
    const std::optional<std::vector<std::tuple<std::string, uint64_t, uint64_t>>>& places) {
  std::vector<wb_probe_place> raw;
  if (places.has_value()) {
    for (const auto& [name, data, bytes] : *places) {
      raw.push_back({c_text(name), reinterpret_cast<const void*>(data), bytes});
    }
  }
  wb_probe* const handle = probe.get();
  run([&] {
    return wb_probe_end_pass(handle, places.has_value() ? raw.data() : nullptr, raw.size());
  });
}

// Whether the caller must load the real weights.
bool abort(Probe& probe) {
  int32_t reload = 0;
  wb_probe* const handle = probe.get();
  run([&] { return wb_probe_abort(handle, &reload); });
  return reload != 0;
}

wb_probe_summary raw_summary(const Probe& probe) {
  wb_probe_summary raw{};
  raw.struct_size = sizeof raw;
  check(wb_probe_summary_of(probe.get(), &raw));
  return raw;
}

nb::typed<nb::dict, nb::str, nb::any> summary(const Probe& probe) {
  const wb_probe_summary raw = raw_summary(probe);
  nb::dict all;
  all["buffer_bytes"] = raw.buffer_bytes;
  all["copied_bytes"] = raw.copied_bytes;
  all["cast_bytes"] = raw.cast_bytes;
  all["untouched_bytes"] = raw.untouched_bytes;
  all["constant_bytes"] = raw.constant_bytes;
  all["computed_bytes"] = raw.computed_bytes;
  all["elements"] = raw.elements;
  all["no_home"] = raw.no_home;
  all["one_home"] = raw.one_home;
  all["more_homes"] = raw.more_homes;
  all["buffers"] = raw.buffers;
  all["pieces"] = raw.pieces;
  all["passes"] = raw.passes;
  all["backup_bytes"] = raw.backup_bytes;
  all["peak_bytes"] = raw.peak_bytes;
  all["load_ns"] = raw.load_ns;
  all["read_ns"] = raw.read_ns;
  all["solve_ns"] = raw.solve_ns;
  all["digest"] = raw.digest;
  return all;
}

// buffer, kind, offset, bytes, count, pitch
nb::typed<nb::list, nb::any> ranges(const Probe& probe) {
  nb::list all;
  const size_t count = raw_summary(probe).ranges;
  for (size_t i = 0; i < count; ++i) {
    wb_probe_range range{};
    check(wb_probe_range_at(probe.get(), i, &range));
    all.append(nb::make_tuple(range.buffer, range.kind, range.offset, range.bytes, range.count,
                              range.pitch));
  }
  return all;
}

// name, elements, no_home, one_home, more_homes, cast
nb::typed<nb::list, nb::any> homes(const Probe& probe, const Table& table) {
  size_t count = 0;
  check(wb_table_count(table.get(), &count));
  nb::list all;
  for (size_t i = 0; i < count; ++i) {
    wb_probe_homes raw{};
    check(wb_probe_homes_of(probe.get(), i, &raw));
    all.append(nb::make_tuple(raw.name, raw.elements, raw.no_home, raw.one_home, raw.more_homes,
                              raw.cast));
  }
  return all;
}

// name, owner, offset
nb::typed<nb::list, nb::any> aliases(const Probe& probe) {
  nb::list all;
  const size_t count = raw_summary(probe).aliases;
  for (size_t i = 0; i < count; ++i) {
    wb_probe_alias alias{};
    check(wb_probe_alias_at(probe.get(), i, &alias));
    all.append(nb::make_tuple(alias.name, alias.owner, alias.offset));
  }
  return all;
}

std::unique_ptr<Layout> layout(const Probe& probe) {
  wb_layout* made = nullptr;
  check(wb_probe_layout(probe.get(), &made));
  return std::make_unique<Layout>(made);
}

std::string report(const Probe& probe) {
  const char* const text = wb_probe_report(probe.get());
  if (text == nullptr) check(wb_last_error()->code);
  return text;
}

}  // namespace

void bind_probe(nb::module_& module) {
  nb::class_<Probe>(module, "Probe")
      .def_static("create", &create, nb::arg("table"), nb::arg("restore"), nb::arg("threads"),
                  nb::arg("backup_dir").none(), nb::arg("max_bytes"), nb::arg("seed"))
      .def("add_buffer", &add_buffer, nb::arg("name"), nb::arg("dtype"), nb::arg("shape"),
           nb::arg("data"), nb::arg("bytes"))
      .def("begin_pass", &begin_pass)
      .def("view", &view, nb::arg("index"))
      .def("end_pass", &end_pass, nb::arg("places").none())
      .def("abort", &abort)
      .def("summary", &summary)
      .def("ranges", &ranges)
      .def("homes", &homes, nb::arg("table"))
      .def("aliases", &aliases)
      .def("layout", &layout)
      .def("report", &report);
}

}  // namespace wb::python
