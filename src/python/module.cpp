// The extension module: the C ABI as Python objects. The package around it (weightbridge/) gives it
// tensors, defaults and documentation.
#include <nanobind/nanobind.h>

#include "python/job.h"
#include "python/layout.h"
#include "python/probe.h"
#include "python/worker.h"

NB_MODULE(_weightbridge, module) {
  module.doc() = "The native part of weightbridge.";
  module.def("version", [] { return wb_version(); });
  wb::python::bind_layout(module);
  wb::python::bind_job(module);
  wb::python::bind_publisher(module);
  wb::python::bind_receiver(module);
  wb::python::bind_probe(module);
}
