// SPEC: how a layout is named: "framework:key=value,...". See docs/spec.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace wb {

enum class Framework { kMegatron, kFsdp, kVllm, kReplicated };

// "megatron", "fsdp", "vllm", "replicated".
std::string_view framework_name(Framework framework);

// Absent keys are 1; ep 0 means "off"; etp 0 means "as tp". Each value is in [1, 65536] (a number
// of `layers` may be 0) and the world in [1, 2^20].
struct Spec {
  Framework framework = Framework::kReplicated;
  uint32_t tp = 1;
  uint32_t pp = 1;
  uint32_t vpp = 1;
  uint32_t dp = 1;
  uint32_t cp = 1;
  uint32_t ep = 0;
  uint32_t etp = 0;
  uint32_t engines = 1;
  uint32_t shards = 1;
  uint32_t replicas = 1;
  uint32_t n = 1;
  bool flat = false;
  std::vector<uint32_t>
      layers;  // megatron "layers=15/16/16/14": layers per stage (or per chunk); empty: even

  bool operator==(const Spec&) const = default;

  // Number of ranks, at most UINT32_MAX for a Spec that check() refuses.
  uint32_t world() const;
  std::string to_string() const;  // canonical: parse(to_string()) == *this

  // What parse_spec promises, for a Spec filled in by hand: values in range, no key of another
  // framework, and the sizes of the groups fit together.
  Status check() const;
};

// kInvalidArgument names the word that is wrong and what would be right.
Result<Spec> parse_spec(std::string_view text);

}  // namespace wb
