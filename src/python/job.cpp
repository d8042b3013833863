#include "python/job.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <mutex>

namespace wb::python {
namespace {

// Held while a log record is on its way into Python. Records of one job never overlap; jobs are
// few.
std::mutex& log_mutex() {
  static std::mutex* const mutex = new std::mutex;  // threads may log until the process ends
  return *mutex;
}
bool python_is_over = false;  // under log_mutex()

const char* or_null(const std::string& text) { return text.empty() ? nullptr : c_text(text); }

}  // namespace

void end_of_python() {
  // The thread with the mutex may be waiting for the GIL.
  const nb::gil_scoped_release release;
  const std::scoped_lock lock(log_mutex());
  python_is_over = true;
}

Job::Job(const Options& options, double timeout) : log_(new Log{options.log}) {
  wb_job_options raw{};
  raw.struct_size = sizeof raw;
  raw.name = or_null(options.name);
  raw.store = or_null(options.store);
  raw.token = or_null(options.token);
  raw.token_file = or_null(options.token_file);
  raw.host = or_null(options.host);
  raw.transports = or_null(options.transports);
  raw.etcd_user = or_null(options.etcd_user);
  raw.etcd_password = or_null(options.etcd_password);
  raw.ca_file = or_null(options.ca_file);
  raw.log_level = options.log_level;
  if (!options.log.is_none()) {
    raw.log = &write_log;
    raw.log_user = log_.get();
  }
  const int64_t limit = milliseconds(timeout);
  run([&] { return wb_job_open(&raw, limit, handle_.out()); });
}

Job::~Job() {
  if (handle_.shut()) return;
  drop_log();
  (void)log_.release();  // threads that could not be ended may still look at it
}

void Job::write_log(void* user, int32_t level, const char* room, const char* message,
                    const wb_log_field* fields, size_t field_count) noexcept {
  const std::scoped_lock lock(log_mutex());
  if (python_is_over) return;
  const nb::gil_scoped_acquire acquire;
  const nb::object call = static_cast<const Log*>(user)->callable;
  if (!call.is_valid()) return;
  try {
    nb::dict facts;
    for (size_t i = 0; i < field_count; ++i) facts[fields[i].key] = nb::str(fields[i].value);
    call(level, room, message, facts);
  } catch (nb::python_error& error) {
    error.discard_as_unraisable("weightbridge: the log");
  } catch (const std::exception&) {
    PyErr_Clear();  // no memory for a record: there is nobody to tell
  }
}

std::string Job::store_url() const {
  const char* const url = wb_job_store_url(get());
  if (url == nullptr) check(wb_last_error()->code);
  return url;
}

namespace {

int visit_job(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (nb::inst_ready(self)) Py_VISIT(nb::inst_ptr<Job>(self)->log());
  return 0;
}

int clear_job(PyObject* self) {
  nb::inst_ptr<Job>(self)->drop_log();
  return 0;
}

}  // namespace

void bind_job(nb::module_& module) {
  static PyType_Slot collected[] = {{Py_tp_traverse, reinterpret_cast<void*>(&visit_job)},
                                    {Py_tp_clear, reinterpret_cast<void*>(&clear_job)},
                                    {0, nullptr}};
  nb::class_<Job>(module, "Job", nb::type_slots(collected))
      .def_static(
          "open",
          [](const std::string& store, const std::string& token, const std::string& token_file,
             const std::string& name, const std::string& host, const std::string& transports,
             const std::string& etcd_user, const std::string& etcd_password,
             const std::string& ca_file, nb::object log, int log_level, double timeout) {
            return std::make_unique<Job>(
                Job::Options{store, token, token_file, name, host, transports, etcd_user,
                             etcd_password, ca_file, std::move(log), log_level},
                timeout);
          },
          nb::arg("store"), nb::arg("token"), nb::arg("token_file"), nb::arg("name"),
          nb::arg("host"), nb::arg("transports"), nb::arg("etcd_user"), nb::arg("etcd_password"),
          nb::arg("ca_file"), nb::arg("log").none(), nb::arg("log_level"), nb::arg("timeout"))
      .def("store_url", &Job::store_url)
      .def("close", &Job::close, nb::arg("timeout"))
      .def("closed", &Job::closed);
  module.def("end_of_python", &end_of_python);
}

}  // namespace wb::python
