// Publishers and receivers.
#pragma once

#include <nanobind/nanobind.h>

namespace wb::python {

void bind_publisher(nanobind::module_& module);
void bind_receiver(nanobind::module_& module);

}  // namespace wb::python
