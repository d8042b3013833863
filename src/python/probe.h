// The learning of a layout from a loader.
#pragma once

#include <nanobind/nanobind.h>

namespace wb::python {

void bind_probe(nanobind::module_& module);

}  // namespace wb::python
