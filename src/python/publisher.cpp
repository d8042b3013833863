#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <memory>
#include <string>

#include "python/job.h"
#include "python/layout.h"
#include "python/worker.h"

namespace wb::python {
namespace {

using Publisher = ClosingHandle<wb_publisher, wb_publisher_close>;

void* stream_of(uint64_t stream) { return reinterpret_cast<void*>(stream); }

std::unique_ptr<Publisher> create(const Job& job, const Layout& layout, uint32_t rank,
                                  uint32_t world, int32_t mode, uint32_t slots, bool huge_pages,
                                  double timeout) {
  const wb_publisher_options options{sizeof(wb_publisher_options), rank, world, mode, slots,
                                     huge_pages ? 1 : 0,           0};
  wb_job* const owner = job.get();
  wb_layout* const buffers = layout.get();
  const int64_t limit = milliseconds(timeout);
  auto publisher = std::make_unique<Publisher>("publisher");
  run([&] { return wb_publisher_create(owner, buffers, &options, limit, publisher->out()); });
  return publisher;
}

nb::typed<nb::dict, nb::str, nb::any> stats(const Publisher& publisher) {
  wb_publisher_stats_t raw{};
  raw.struct_size = sizeof raw;
  check(wb_publisher_stats(publisher.get(), &raw));
  nb::dict all;
  all["published"] = raw.published;
  all["last_publish_ns"] = raw.last_publish_ns;
  all["last_begin_ns"] = raw.last_begin_ns;
  all["max_publish_ns"] = raw.max_publish_ns;
  all["generation"] = raw.version.generation;
  all["number"] = raw.version.number;
  return all;
}

std::string report(const Publisher& publisher) {
  const char* const text = wb_publisher_report(publisher.get());
  if (text == nullptr) check(wb_last_error()->code);
  return text;
}

}  // namespace

void bind_publisher(nb::module_& module) {
  nb::class_<Publisher>(module, "Publisher")
      .def_static("create", &create, nb::arg("job"), nb::arg("layout"), nb::arg("rank"),
                  nb::arg("world"), nb::arg("mode"), nb::arg("slots"), nb::arg("huge_pages"),
                  nb::arg("timeout"), nb::keep_alive<0, 1>())
      .def(
          "begin_update",
          [](Publisher& publisher, uint64_t stream) {
            wb_publisher* const handle = publisher.get();
            run([&] { return wb_publisher_begin_update(handle, stream_of(stream)); });
          },
          nb::arg("stream"))
      .def(
          "publish",
          [](Publisher& publisher, uint64_t number, uint64_t stream) {
            wb_publisher* const handle = publisher.get();
            run([&] { return wb_publisher_publish(handle, number, stream_of(stream)); });
          },
          nb::arg("number"), nb::arg("stream"))
      .def(
          "rejoin",
          [](Publisher& publisher, double timeout) {
            wb_publisher* const handle = publisher.get();
            const int64_t limit = milliseconds(timeout);
            run([&] { return wb_publisher_rejoin(handle, limit); });
          },
          nb::arg("timeout"))
      .def("stats", &stats)
      .def("report", &report)
      .def("close", &Publisher::close, nb::arg("timeout"))
      .def("closed", &Publisher::closed);
}

}  // namespace wb::python
