// The symbols that rules may use, and expressions over them.
#include <algorithm>
#include <array>
#include <optional>

#include "base/checked.h"
#include "layout/quote.h"
#include "layout/rules_text.h"

namespace wb {
namespace {

struct Symbol {
  std::string_view name;
  int64_t ModelConfig::*field;
};

constexpr int64_t kMaxLayers = 1 << 24;

constexpr std::array<Symbol, 15> kSymbols = {{
    {"vocab", &ModelConfig::vocab},
    {"hidden", &ModelConfig::hidden},
    {"heads", &ModelConfig::heads},
    {"kv_heads", &ModelConfig::kv_heads},
    {"head_dim", &ModelConfig::head_dim},
    {"ffn", &ModelConfig::intermediate},
    {"experts", &ModelConfig::experts},
    {"moe_ffn", &ModelConfig::moe_intermediate},
    {"shared", &ModelConfig::shared_experts},
    {"q_rank", &ModelConfig::q_lora_rank},
    {"kv_rank", &ModelConfig::kv_lora_rank},
    {"nope", &ModelConfig::qk_nope_head_dim},
    {"rope", &ModelConfig::qk_rope_head_dim},
    {"v_dim", &ModelConfig::v_head_dim},
    {"mtp_layers", &ModelConfig::mtp_layers},
}};

std::optional<int64_t> symbol(std::string_view name, const ModelConfig& config) {
  if (name == "tied") return config.tied_embeddings ? 1 : 0;
  for (const Symbol& s : kSymbols) {
    if (s.name == name) return config.*s.field;
  }
  return std::nullopt;
}

bool name_char(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; }

// Recursive descent; depth is bounded because the text is not trusted.
class Parser {
 public:
  Parser(std::string_view text, const ModelConfig& config) : text_(text), config_(config) {}

  Result<int64_t> run() {
    const std::optional<int64_t> value = sum(0);
    if (!value || !text_.empty()) {
      return Status(Code::kInvalidArgument, fault_.empty() ? "malformed expression" : fault_);
    }
    return *value;
  }

 private:
  static constexpr int kMaxDepth = 8;

  bool take(char c) {
    if (text_.empty() || text_[0] != c) return false;
    text_.remove_prefix(1);
    return true;
  }

  std::optional<int64_t> fail(std::string fault) {
    if (fault_.empty()) fault_ = std::move(fault);
    return std::nullopt;
  }

  std::optional<int64_t> sum(int depth) {
    std::optional<int64_t> total = product(depth);
    while (total && take('+')) {
      const std::optional<int64_t> next = product(depth);
      if (!next) return std::nullopt;
      total = checked_add(*total, *next);
      if (!total) return fail("an expression overflows");
    }
    return total;
  }

  std::optional<int64_t> product(int depth) {
    std::optional<int64_t> total = factor(depth);
    while (total && take('*')) {
      const std::optional<int64_t> next = factor(depth);
      if (!next) return std::nullopt;
      total = checked_mul(*total, *next);
      if (!total) return fail("an expression overflows");
    }
    return total;
  }

  std::optional<int64_t> factor(int depth) {
    if (take('(')) {
      if (depth >= kMaxDepth) return fail("parentheses are nested too deep");
      const std::optional<int64_t> inner = sum(depth + 1);
      if (!inner || !take(')')) return fail("malformed expression");
      return inner;
    }
    size_t length = 0;
    while (length < text_.size() && name_char(text_[length])) ++length;
    const std::string_view word = text_.substr(0, length);
    text_.remove_prefix(length);
    if (word.empty()) return fail("malformed expression");
    if (word[0] >= '0' && word[0] <= '9') return literal(word);
    const std::optional<int64_t> value = symbol(word, config_);
    if (!value) return fail("unknown symbol " + quote(word));
    return value;
  }

  std::optional<int64_t> literal(std::string_view word) {
    if (word.size() > 9) return fail("a number of more than 9 digits");
    int64_t value = 0;
    for (char c : word) {
      if (c < '0' || c > '9') return fail("malformed number " + quote(word));
      value = value * 10 + (c - '0');
    }
    return value;
  }

  std::string_view text_;
  const ModelConfig& config_;
  std::string fault_;
};

}  // namespace

bool RuleCondition::holds(const ModelConfig& config) const {
  if (!families.empty() &&
      std::find(families.begin(), families.end(), config.family) == families.end()) {
    return false;
  }
  if (!when.empty() && symbol(when, config).value_or(0) == 0) return false;
  return unless.empty() || symbol(unless, config).value_or(0) == 0;
}

Result<int64_t> evaluate(std::string_view expression, const ModelConfig& config) {
  return Parser(expression, config).run();
}

Result<ModelConfig> completed(const ModelConfig& config) {
  ModelConfig out = config;
  if (out.layers < 1 || out.layers > kMaxLayers || out.mtp_layers > kMaxLayers) {
    return Status(Code::kInvalidArgument, "the configuration has " + std::to_string(out.layers) +
                                              " + " + std::to_string(out.mtp_layers) +
                                              " layers; a model has from 1 to 2^24");
  }
  for (const Symbol& s : kSymbols) {
    if (out.*s.field < 0) {
      return Status(Code::kInvalidArgument,
                    "the configuration has a negative " + std::string(s.name));
    }
  }
  if (out.heads < 1) {
    return Status(Code::kInvalidArgument, "the configuration has no attention heads");
  }
  if (out.kv_heads == 0) out.kv_heads = out.heads;
  if (out.head_dim == 0) out.head_dim = out.hidden / out.heads;
  if (out.head_dim == 0 && out.kv_lora_rank == 0) {
    return Status(Code::kInvalidArgument, "the configuration has heads of size 0");
  }
  if (out.heads % out.kv_heads != 0) {
    return Status(Code::kInvalidArgument,
                  "heads = " + std::to_string(out.heads) +
                      " is not divisible by kv_heads = " + std::to_string(out.kv_heads));
  }
  return out;
}

}  // namespace wb
