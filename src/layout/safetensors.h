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

inline constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;

// How many bytes of a file of `file_size` bytes its length word and header take, from the first 8.
Result<uint64_t> safetensors_header_bytes(std::span<const std::byte> first_bytes,
                                          uint64_t file_size);

// The tensors of one header, in the order of their data. `bytes` starts at the file's first byte
// and may be a prefix that holds the whole header; `file_size` is the size of the file. Places have
// file = 0. Accepts what the reference implementation accepts: no gaps, no overlaps, header of at
// most 100 MB.
struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;
  std::vector<TensorFile> places;  // parallel to tensors
};
//
// On purpose stricter than the reference in what no writer makes: a name, a field or a __metadata__
// key that is there twice, white space before '{', a tensor described by a list. Of what is well
// formed, more than kMaxRank dimensions and a dimension of 2^63 or more are refused.
Result<SafetensorsHeader> parse_safetensors_header(std::span<const std::byte> bytes,
                                                   uint64_t file_size);

// A .safetensors file, or a folder with model.safetensors or model.safetensors.index.json. With an
// index, each tensor must be in the file that the index names, in no other, and each tensor of
// those files must be in the index. kNotFound for what does not exist, kBadData for what is
// malformed.
Result<Checkpoint> open_checkpoint(const std::filesystem::path& path);

// The bytes of a safetensors file up to its data: the 8-byte length and the padded JSON header, for
// tensors that will follow in the given order without gaps. Names are distinct and valid UTF-8.
std::string make_safetensors_header(std::span<const TensorInfo> tensors);

}  // namespace wb
