// Writes what a rank holds as a safetensors file, so that other tools can look at it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "base/status.h"
#include "layout/worker_layout.h"

namespace wb::cli {

// kInvalidArgument if `path` exists and is not a regular file: a dump would put a file in the place
// of a device or of a link. Ok if there is nothing.
Status check_dump_target(const std::filesystem::path& path);

// The file appears under its name complete or not at all, with the mode that the umask leaves of
// 0666. A regular file of that name is replaced. `buffers` is parallel to layout.buffers.
Status dump_safetensors(const std::filesystem::path& path, const WorkerLayout& layout,
                        std::span<std::byte* const> buffers);

}  // namespace wb::cli
