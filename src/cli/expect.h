// What a rank must hold after a pull, worked out a second time without the library.
//
// Nothing here uses the layout rules, boxes, pieces, plans or the safetensors reader of the
// library: the checkpoint file and config.json are read anew, and each framework's parameters are
// written down as rows and columns of checkpoint tensors, straight from the frameworks' own
// definitions. A parameter is built front to back from slices, so each of its bytes has exactly one
// expectation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cli/checkpoint_map.h"
#include "cli/fill.h"
#include "layout/spec.h"

namespace wb::cli {

// A checkpoint tensor seen as a matrix: dimension 0 by the product of the others.
struct SourceTensor {
  std::string name;
  uint32_t width = 0;  // bytes of an element
  uint64_t rows = 1;
  uint64_t columns = 1;
  const std::byte* data = nullptr;
  uint64_t elements() const { return rows * columns; }
};

struct SourceConfig {
  std::string family;
  uint64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, vocab = 0;
  uint64_t experts = 0, first_dense = 0, shared_experts = 0, q_lora_rank = 0;
  bool tied = false;
};

class SourceModel {
 public:
  static Result<SourceModel> open(const std::filesystem::path& folder);
  const SourceConfig& config() const { return config_; }
  const std::map<std::string, SourceTensor, std::less<>>& tensors() const { return tensors_; }
  // A head that some checkpoints ship although it is tied to the embedding: no framework has a
  // parameter of its own for it.
  bool is_alias(std::string_view name) const { return config_.tied && name == "lm_head.weight"; }
  // Null when there is none.
  const SourceTensor* find(std::string_view name) const;

 private:
  Status add_file(const std::filesystem::path& path);
  SourceConfig config_;
  std::map<std::string, SourceTensor, std::less<>> tensors_;
  std::vector<std::unique_ptr<FileMap>> files_;
};

// Rows [row, row + rows) and columns [column, column + columns) of a tensor, stored densely; or
// `columns` bytes of padding.
struct Slice {
  enum class Kind {
    kValues,
    kZeros,  // padding that must be zero
    kFree,   // padding that the framework never reads and a pull keeps as it is
  } kind = Kind::kValues;
  const SourceTensor* tensor = nullptr;  // of kValues
  uint64_t row = 0, rows = 0, column = 0, columns = 0;
  uint64_t bytes() const {
    return kind == Kind::kValues ? rows * columns * tensor->width : columns;
  }
};

struct ExpectedParameter {
  std::string name;
  std::vector<Slice> slices;
  uint64_t bytes() const;

  ExpectedParameter& all(const SourceTensor& t);
  ExpectedParameter& rows(const SourceTensor& t, uint64_t first, uint64_t count);
  ExpectedParameter& columns(const SourceTensor& t, uint64_t first, uint64_t count);
  // `count` elements from the row-major element `first` on.
  ExpectedParameter& elements(const SourceTensor& t, uint64_t first, uint64_t count);
  ExpectedParameter& zeros(uint64_t bytes);
  ExpectedParameter& free(uint64_t bytes);
};

using Expectation = std::vector<ExpectedParameter>;

// kNotFound names a tensor that the framework needs and the checkpoint lacks; kUnsupported a family
// that is not written down here.
Result<Expectation> expect_rank(const SourceModel& model, const Spec& spec, uint32_t rank);
Result<Expectation> expect_vllm(const SourceModel& model, const Spec& spec, uint32_t rank);
Result<Expectation> expect_megatron(const SourceModel& model, const Spec& spec, uint32_t rank);
Result<Expectation> expect_fsdp(const SourceModel& model, const Spec& spec, uint32_t rank);

struct HeldBuffer {
  std::string name;
  std::span<const std::byte> bytes;
};

struct Verification {
  uint64_t needed = 0;    // bytes of checkpoint values in the expectation
  uint64_t verified = 0;  // of those, found right
  uint64_t padding = 0;   // bytes that must be zero and are
  uint64_t wrong = 0;     // bytes of elements that are not as expected, padding included
  std::string fault;      // the first wrong parameter and element; empty when all is right
  bool ok() const { return fault.empty() && wrong == 0 && verified == needed; }
};

// Compares each byte of each buffer. A buffer without an expectation, an expectation without a
// buffer and a difference of size are faults too.
Verification verify(const Expectation& expectation, std::span<const HeldBuffer> held,
                    uint64_t version, Values values);

}  // namespace wb::cli
