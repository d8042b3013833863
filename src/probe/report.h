// What a probing found, for people and programs.
#pragma once

#include <string>

#include "layout/tensor_table.h"
#include "probe/prober.h"

namespace wb::probe {

// "copied", "cast", "untouched", "constant", "computed".
const char* kind_name(ByteKind kind);

// JSON: bytes by kind, elements by homes, and by name what is not copied and what has no home.
std::string report_json(const TensorTable& table, const Probed& probed);

}  // namespace wb::probe
