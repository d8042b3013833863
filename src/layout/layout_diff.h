// Where two layouts of one worker differ, in coordinates of the checkpoint.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "layout/tensor_table.h"
#include "layout/worker_layout.h"

namespace wb {

struct LayoutDifference {
  enum class Kind : uint8_t {
    kBuffer,  // a buffer that only one has, or of another dtype, shape or size
    kOnlyA,   // elements of the tensor that only A binds to these bytes
    kOnlyB,
  };
  Kind kind = Kind::kBuffer;
  std::string buffer;
  std::string tensor;  // of kOnlyA and kOnlyB
  Piece piece;         // of kOnlyA and kOnlyB: the elements, and where the layout has them
  std::string text;    // one line for a person
};

// Equal layouts (no difference) bind the same elements to the same bytes of buffers of the same
// names, however that is cut into pieces and in whatever order. Extras do not count: they are what
// pieces leave. kUnsupported when that would take unreasonably long.
Result<std::vector<LayoutDifference>> diff_layouts(const TensorTable& table, const WorkerLayout& a,
                                                   const WorkerLayout& b);

// {"equal": ..., "differences": [{"buffer", "kind", "tensor", "box", "offset", "strides", "text"}]}
std::string differences_json(const TensorTable& table,
                             const std::vector<LayoutDifference>& differences);

// "tensor[0:128, 0:64:2]", ranges as in Python; in units for packed types.
std::string box_text(const std::string& tensor, const Box& box);

}  // namespace wb
