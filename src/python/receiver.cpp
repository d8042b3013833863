#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "python/job.h"
#include "python/layout.h"
#include "python/worker.h"

namespace wb::python {
namespace {

class Receiver {
 public:
  using Outcome = nb::typed<nb::tuple, nb::any, nb::any>;  // error or None, report or None

  Receiver(const Job& job, const Layout& layout, const std::string& name, uint32_t index,
           bool staging, bool huge_pages, nb::object on_event, double timeout)
      : on_event_(std::move(on_event)) {
    wb_receiver_options options{};
    options.struct_size = sizeof options;
    options.name = c_text(name);
    options.index = index;
    options.staging = staging ? 1 : 0;
    options.huge_pages = huge_pages ? 1 : 0;
    if (!on_event_.is_none()) {
      options.on_event = &forward_event;
      options.event_user = this;
    }
    wb_job* const owner = job.get();
    wb_layout* const buffers = layout.get();
    const int64_t limit = milliseconds(timeout);
    run([&] { return wb_receiver_create(owner, buffers, &options, limit, handle_.out()); });
  }

  // A pull that failed has a report too.
  Outcome pull(int32_t want, uint64_t number, double timeout) {
    wb_receiver* const handle = handle_.get();
    const int64_t limit = milliseconds(timeout);
    const wb_pull_report* report = nullptr;
    thrown_.reset();
    const wb_code code =
        released([&] { return wb_receiver_pull(handle, want, number, limit, &report); });
    Outcome result = finish(code, report);
    if (thrown_.has_value()) {
      nb::python_error error = std::move(*thrown_);
      thrown_.reset();
      error.restore();
      throw nb::python_error();
    }
    return result;
  }

  Outcome install() {
    wb_receiver* const handle = handle_.get();
    const wb_pull_report* report = nullptr;
    const wb_code code = released([&] { return wb_receiver_install(handle, &report); });
    return finish(code, report);
  }

  std::string report() const {
    const char* const text = wb_receiver_report(handle_.get());
    if (text == nullptr) check(wb_last_error()->code);
    return text;
  }
  void close(double timeout) {
    handle_.close(timeout);
    drop_on_event();
  }
  bool closed() const { return handle_.closed(); }

  // For Python's collector: a callback is often a method of what holds the receiver.
  PyObject* on_event() const { return on_event_.ptr(); }
  void drop_on_event() { on_event_ = nb::none(); }

 private:
  static Outcome finish(wb_code code, const wb_pull_report* report) {
    return nb::make_tuple(code == WB_OK ? nb::none() : make_error(code),
                          report == nullptr ? nb::object(nb::none()) : nb::object(copy(*report)));
  }

  static nb::dict copy(const wb_pull_report& raw) {
    nb::list sources;
    for (const auto& source : std::span(raw.sources, raw.source_count)) {
      sources.append(nb::make_tuple(source.worker, source.transport, source.mechanism,
                                    source.reason, source.bytes, source.reads));
    }
    nb::list timeline;
    for (const auto& entry : std::span(raw.timeline, raw.timeline_count)) {
      timeline.append(nb::make_tuple(entry.step, entry.begin_ns, entry.end_ns));
    }
    nb::list finalisers;
    for (const char* name : std::span(raw.finalisers, raw.finaliser_count)) {
      finalisers.append(nb::str(name));
    }
    nb::dict all;
    all["generation"] = raw.version.generation;
    all["number"] = raw.version.number;
    all["memory"] = raw.memory;
    all["attempts"] = raw.attempts;
    all["torn"] = raw.torn;
    all["bytes"] = raw.bytes;
    all["reads"] = raw.reads;
    all["versions_skipped"] = raw.versions_skipped;
    all["read_ns"] = raw.read_ns;
    all["total_ns"] = raw.total_ns;
    all["sources"] = sources;
    all["timeline"] = timeline;
    all["finalisers"] = finalisers;
    return all;
  }

  // On the pulling thread. What it throws is thrown by pull() when the library has ended it.
  static void forward_event(void* user, const wb_pull_event* event) noexcept {
    auto* const self = static_cast<Receiver*>(user);
    const nb::gil_scoped_acquire acquire;
    if (self->thrown_.has_value()) return;
    try {
      self->on_event_(event->kind, event->step, event->source, event->version.generation,
                      event->version.number);
    } catch (nb::python_error& error) {
      self->thrown_.emplace(std::move(error));
    }
  }

  nb::object on_event_;  // outlives the handle, which calls it
  std::optional<nb::python_error> thrown_;
  ClosingHandle<wb_receiver, wb_receiver_close> handle_{"receiver"};
};

int visit_receiver(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (nb::inst_ready(self)) Py_VISIT(nb::inst_ptr<Receiver>(self)->on_event());
  return 0;
}

int clear_receiver(PyObject* self) {
  nb::inst_ptr<Receiver>(self)->drop_on_event();
  return 0;
}

}  // namespace

void bind_receiver(nb::module_& module) {
  static PyType_Slot collected[] = {{Py_tp_traverse, reinterpret_cast<void*>(&visit_receiver)},
                                    {Py_tp_clear, reinterpret_cast<void*>(&clear_receiver)},
                                    {0, nullptr}};
  nb::class_<Receiver>(module, "Receiver", nb::type_slots(collected))
      .def_static(
          "create",
          [](const Job& job, const Layout& layout, const std::string& name, uint32_t index,
             bool staging, bool huge_pages, nb::object on_event, double timeout) {
            return std::make_unique<Receiver>(job, layout, name, index, staging, huge_pages,
                                              std::move(on_event), timeout);
          },
          nb::arg("job"), nb::arg("layout"), nb::arg("name"), nb::arg("index"), nb::arg("staging"),
          nb::arg("huge_pages"), nb::arg("on_event").none(), nb::arg("timeout"),
          nb::keep_alive<0, 1>())
      .def("pull", &Receiver::pull, nb::arg("want"), nb::arg("number"), nb::arg("timeout"))
      .def("install", &Receiver::install)
      .def("report", &Receiver::report)
      .def("close", &Receiver::close, nb::arg("timeout"))
      .def("closed", &Receiver::closed);
}

}  // namespace wb::python
