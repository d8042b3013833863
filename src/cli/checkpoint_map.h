// A checkpoint whose files are mapped for reading: the trainer's first weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "layout/safetensors.h"

namespace wb::cli {

// One file, mapped read-only and unmapped by the destructor.
class FileMap {
 public:
  static Result<std::unique_ptr<FileMap>> open(const std::filesystem::path& path);
  ~FileMap();
  FileMap(const FileMap&) = delete;
  FileMap& operator=(const FileMap&) = delete;
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit FileMap(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> bytes_;
};

class CheckpointMap {
 public:
  static Result<CheckpointMap> open(const std::filesystem::path& path);

  const TensorTable& table() const { return checkpoint_.table; }
  // The bytes of one tensor. `tensor` is an index into the table.
  std::span<const std::byte> tensor(uint32_t tensor) const;

 private:
  Checkpoint checkpoint_;
  std::vector<std::unique_ptr<FileMap>> files_;
};

}  // namespace wb::cli
