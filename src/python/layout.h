// Tables and layouts.
#pragma once

#include <nanobind/nanobind.h>

#include "python/handle.h"

namespace wb::python {

using Table = FreedHandle<wb_table, wb_table_free>;
using Layout = FreedHandle<wb_layout, wb_layout_free>;

void bind_layout(nb::module_& module);

}  // namespace wb::python
