// Reads the header of a safetensors file, or of a sharded checkpoint folder. The header is hostile:
// every size, range and nesting is bounded before it is believed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "layout/tensor_table.h"

namespace wb {

// Where one tensor's bytes lie.
struct TensorFile {
  uint32_t file = 0;    // index into Checkpoint::files
  uint64_t offset = 0;  // from the start of the file
  uint64_t bytes = 0;
};

struct Checkpoint {
  TensorTable table;
  std::vector<std::filesystem::path> files;
  std::vector<TensorFile> places;  // parallel to the table
};

// The tensors of one header. `bytes` starts at the file's first byte and may be a prefix that holds
// the whole header; `file_size` is the size of the file. Places have file = 0. Accepts what the
// reference implementation accepts: no gaps, no overlaps, header of at most 100 MB.
struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;
  std::vector<TensorFile> places;  // parallel to tensors
};
Result<SafetensorsHeader> parse_safetensors_header(std::span<const std::byte> bytes,
                                                   uint64_t file_size);

// A .safetensors file, or a folder with model.safetensors or model.safetensors.index.json.
Result<Checkpoint> open_checkpoint(const std::filesystem::path& path);

// The bytes of a safetensors file up to its data: the 8-byte length and the padded JSON header, for
// tensors that will follow in the given order without gaps.
std::string make_safetensors_header(std::span<const TensorInfo> tensors);

}  // namespace wb
