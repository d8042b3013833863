// The text form of sharding rules: lines to structures. The format is described in
// docs/layouts-and-rules.md. The text is not trusted: sizes, placeholders, words and numbers are
// checked here, so that the interpreter meets only rules that make sense.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "layout/model_config.h"

namespace wb {

// When a line applies.
struct RuleCondition {
  std::vector<std::string> families;  // empty: all
  std::string when;                   // a symbol that must not be zero; empty: none
  std::string unless;                 // a symbol that must be zero; empty: none

  bool holds(const ModelConfig& config) const;
};

enum class LayerKind : uint8_t { kAny, kDense, kMoe };

// A tensor of the checkpoint of some families.
struct TensorRule {
  std::string name;                // with {layer}, {mtp} and {expert}
  std::string key;                 // rule_key(name)
  std::vector<std::string> shape;  // expressions over the symbols of the configuration; "_": any
  RuleCondition condition;
  LayerKind kind = LayerKind::kAny;
  bool optional = false;  // in all of its places or in none
  bool buffer = false;    // not a parameter for the framework
  bool ignored = false;   // in some checkpoints, held by nobody
  std::string alias_of;   // key of the tensor that is stored a second time; held under that name

  bool per_layer() const { return key.find("{}") != std::string::npos; }
  bool per_expert() const { return name.find("{expert}") != std::string::npos; }
  bool mtp() const { return name.find("{mtp}") != std::string::npos; }
  bool held() const { return !ignored && alias_of.empty(); }
};

enum class Where : uint8_t {
  kFirst,     // the first pipeline stage
  kLast,      // the last
  kLastOnly,  // the last, where it is not the first too
  kLayer,     // the stage of each layer
  kDense,     // ... of each layer without experts
  kMoe,       // ... of each layer with experts
  kMtp,       // ... of each multi-token-prediction layer
  kEach,      // each tensor that the selector names, on every rank
  kBlock,     // one for each layer and one for the rest, on every rank
};

enum class CutKind : uint8_t {
  kWhole,
  kRows,
  kColumns,
  kStacked,
  kGated,
  kQkvMegatron,
  kQkvVllm,
  kVocabMegatron,
  kVocabVllm,
  kExpertsGated,
  kExpertsColumns,
  kChunk,
  kExpertsChunk,
  kFlat,
};

// The ranks that share one cut. kTp: tensor parallel; kEtp: tensor parallel inside experts.
enum class CutGroup : uint8_t { kNone, kTp, kEtp, kShards };

enum class Selector : uint8_t { kNamed, kAll, kBuffers, kParameters };

// One of a worker's own parameters, and the checkpoint tensors that it is made of.
struct HoldRule {
  Where where = Where::kFirst;
  std::string own;  // with {layer}, {local}, {local_expert}, {name} and {block}
  CutKind cut = CutKind::kWhole;
  CutGroup group = CutGroup::kNone;
  int64_t multiple = 1;  // of vocabulary padding
  Selector selector = Selector::kNamed;
  std::vector<std::string> sources;  // keys, for Selector::kNamed
  RuleCondition condition;
};

struct RuleBook {
  std::vector<TensorRule> tensors;
  std::vector<HoldRule> holds;
  std::vector<std::string> prefixed_families;  // of `prefix`
  std::string prefix;                          // may stand before each name of a checkpoint
  std::vector<std::string> mtp_families;       // of `mtp`-capable blocks: those with {mtp} tensors
  std::string layer_own;                       // `mtp_layer A = B`: own names that start with A
  std::string mtp_own;                         // start with B in a multi-token-prediction layer
  bool skip_mtp = false;                       // the framework does not hold those layers
};

// The name with every placeholder as "{}" and, for {mtp}, "#mtp" at its end.
std::string rule_key(std::string_view name);

// `file` is the name for messages. kBadData names file and line.
Result<RuleBook> parse_rules(std::string_view file, std::string_view text);

// Value of a sum of products of numbers and symbols. kInvalidArgument for a malformed expression,
// an unknown symbol or an overflow.
Result<int64_t> evaluate(std::string_view expression, const ModelConfig& config);

// The configuration with what the others imply filled in (kv_heads and head_dim), or
// kInvalidArgument for numbers that no model has.
Result<ModelConfig> completed(const ModelConfig& config);

}  // namespace wb
