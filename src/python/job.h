// A job, and its log's way into Python.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>

#include "python/handle.h"

namespace wb::python {

// After end_of_python() nothing of the library enters the interpreter again.
void end_of_python();

class Job {
 public:
  // Arguments that are empty are not given. `log`: called with (level, room, message, fields), or
  // None.
  struct Options {
    std::string store, token, token_file, name, host, transports;
    std::string etcd_user, etcd_password, ca_file;
    nb::object log;
    int log_level = WB_LOG_INFO;
  };
  Job(const Options& options, double timeout);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  wb_job* get() const { return handle_.get(); }
  std::string store_url() const;
  void close(double timeout) {
    handle_.close(timeout);
    drop_log();
  }
  bool closed() const { return handle_.closed(); }

  // For Python's collector: a log is often a method of what holds the job.
  PyObject* log() const { return log_->callable.ptr(); }
  void drop_log() { log_->callable.reset(); }

 private:
  // What the library's threads know of the log. Read and dropped with the GIL.
  struct Log {
    nb::object callable;
  };
  static void write_log(void* user, int32_t level, const char* room, const char* message,
                        const wb_log_field* fields, size_t field_count) noexcept;
  std::unique_ptr<Log> log_;  // outlives the handle, which calls it
  ClosingHandle<wb_job, wb_job_close> handle_{"job"};
};

void bind_job(nb::module_& module);

}  // namespace wb::python
