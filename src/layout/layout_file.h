// A worker layout as a file: JSON that carries its version and the digest of what it says.
//
//   {"weightbridge_layout": 1, "digest": "32 hex digits", "tensors": [[name, dtype, [shape]], ...],
//    "buffers": [[name, dtype, [shape], bytes], ...],
//    "pieces": [[tensor, buffer, offset, [[start, count, step, stride], ...]], ...],
//    "extras": [[buffer, offset, bytes, kind, name], ...]}
//
// Tensors and buffers are named by their index; boxes count units (see dtype.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/status.h"
#include "layout/tensor_table.h"
#include "layout/worker_layout.h"

namespace wb {

struct LayoutFile {
  TensorTable table;
  WorkerLayout layout;
};

inline constexpr uint64_t kMaxLayoutFile = uint64_t{1} << 30;

std::string layout_text(const TensorTable& table, const WorkerLayout& layout);
// kBadData: malformed, of another version, not of its digest, or no layout (check_layout as a
// source).
Result<LayoutFile> parse_layout(std::string_view text);

// The file appears complete or not at all; a regular file of that name is replaced, anything else
// is refused.
Status save_layout(const std::filesystem::path& path, const TensorTable& table,
                   const WorkerLayout& layout);
Result<LayoutFile> load_layout(const std::filesystem::path& path);

}  // namespace wb
