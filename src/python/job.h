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

  wb_job* get() const { return handle_.get(); }
  std::string store_url() const;
  void close(double timeout) { handle_.close(timeout); }
  bool closed() const { return handle_.closed(); }

 private:
  static void write_log(void* user, int32_t level, const char* room, const char* message,
                        const wb_log_field* fields, size_t field_count) noexcept;
  nb::object log_;  // outlives the handle, which calls it
  ClosingHandle<wb_job, wb_job_close> handle_{"job"};
};

void bind_job(nb::module_& module);

}  // namespace wb::python
