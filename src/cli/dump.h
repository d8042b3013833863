// Writes what a rank holds as a safetensors file, so that other tools can look at it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "base/status.h"
#include "layout/worker_layout.h"

namespace wb::cli {

// The file appears as base/output_file.h says. `buffers` is parallel to layout.buffers.
Status dump_safetensors(const std::filesystem::path& path, const WorkerLayout& layout,
                        std::span<std::byte* const> buffers);

}  // namespace wb::cli
