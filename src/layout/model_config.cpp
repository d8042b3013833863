#include "layout/model_config.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "layout/input_file.h"
#include "layout/json_events.h"
#include "layout/quote.h"

namespace wb {
namespace {

constexpr uint64_t kMaxConfigBytes = 1 << 20;
// Real models are far below; products of two, and sums of some such products, fit in int64.
constexpr uint64_t kMaxExtent = uint64_t{1} << 28;
constexpr uint64_t kMaxCount = 1 << 16;

enum class Presence { kAbsent, kNull, kInteger, kBoolean, kOther };

struct Member {
  Presence presence = Presence::kOther;
  uint64_t number = 0;
};

// The scalar members of a config.json, and its one list that matters. Members of no interest may be
// anything, since configurations carry much (rope, quantisation, labels).
class ConfigListener : public JsonListener {
 public:
  std::map<std::string, Member> members;
  std::set<uint64_t> mlp_only_layers;
  std::string model_type;

 private:
  Status on_value(const Value& value) override {
    if (depth() == 0) {
      if (value.kind == Kind::kObject) return Status();
      return Status(Code::kBadData, "not a JSON object");
    }
    if (depth() == 1 && key(1) == "mlp_only_layers" && value.kind != Kind::kArray &&
        value.kind != Kind::kNull) {
      return Status(Code::kBadData, "mlp_only_layers is not a list");
    }
    if (depth() == 2 && key(1) == "mlp_only_layers") {
      if (value.kind == Kind::kUnsigned && value.number < kMaxCount) {
        mlp_only_layers.insert(value.number);
        return Status();
      }
      return Status(Code::kBadData, "mlp_only_layers holds what is not a layer");
    }
    if (depth() != 1) return Status();
    Member member;
    if (value.kind == Kind::kNull) member.presence = Presence::kNull;
    if (value.kind == Kind::kUnsigned) member = {Presence::kInteger, value.number};
    if (value.kind == Kind::kBoolean) member = {Presence::kBoolean, value.number};
    if (!members.emplace(key(1), member).second) {
      return Status(Code::kBadData, quote(key(1)) + " is there twice");
    }
    if (key(1) == "model_type" && value.kind == Kind::kString) model_type = value.text;
    return Status();
  }
};

// What the configuration class of a family says when config.json is silent. Zero: the class has no
// default, so config.json must speak.
struct Defaults {
  std::string_view family;
  bool tied;
  uint64_t layers, hidden, heads, intermediate, vocab;
  uint64_t kv_heads;  // zero: as heads
  uint64_t head_dim;  // zero: hidden / heads
};

// transformers: BertConfig, LlamaConfig, Qwen2Config, Qwen3Config, Qwen3MoeConfig,
// DeepseekV3Config. Kimi-K2 comes with a class of its own whose defaults are another model's.
constexpr std::array<Defaults, 7> kFamilies = {{
    {"bert", true, 12, 768, 12, 3072, 30522, 0, 0},
    {"llama", false, 32, 4096, 32, 11008, 32000, 0, 0},
    {"qwen2", false, 32, 4096, 32, 22016, 151936, 32, 0},
    {"qwen3", false, 32, 4096, 32, 22016, 151936, 32, 128},
    {"qwen3_moe", false, 24, 2048, 32, 6144, 151936, 4, 0},
    {"deepseek_v3", false, 61, 7168, 128, 18432, 129280, 128, 0},
    {"kimi_k2", false, 0, 0, 0, 0, 0, 0, 0},
}};

Result<Defaults> defaults_of(const std::string& family) {
  std::string known;
  for (const Defaults& defaults : kFamilies) {
    if (defaults.family == family) return defaults;
    if (!known.empty()) known += ", ";
    known += defaults.family;
  }
  return Status(Code::kUnsupported,
                "no sharding rules for model_type " + quote(family) + "; there are for " + known);
}

// Reads members one after the other and keeps the first fault, so that a family reads as a list.
class Reader {
 public:
  explicit Reader(const ConfigListener& listener) : listener_(listener) {}

  Status status() const { return status_; }

  // An integer in [least, most]. Absent: `otherwise`, or a fault when there is none.
  int64_t integer(const std::string& name, std::optional<uint64_t> otherwise, uint64_t least,
                  uint64_t most) {
    const Member member = find(name);
    if (member.presence == Presence::kAbsent) {
      if (!otherwise) fail(name + " is missing");
      return static_cast<int64_t>(otherwise.value_or(0));
    }
    if (member.presence != Presence::kInteger || member.number < least || member.number > most) {
      fail(name + " is not an integer from " + std::to_string(least) + " to " +
           std::to_string(most));
      return 0;
    }
    return static_cast<int64_t>(member.number);
  }
  // As above, where null means that there is none: `if_null`.
  int64_t nullable(const std::string& name, std::optional<uint64_t> otherwise, int64_t if_null,
                   uint64_t most) {
    return find(name).presence == Presence::kNull ? if_null : integer(name, otherwise, 1, most);
  }
  bool boolean(const std::string& name, bool otherwise) {
    const Member member = find(name);
    if (member.presence == Presence::kAbsent) return otherwise;
    if (member.presence != Presence::kBoolean) fail(name + " is neither true nor false");
    return member.number != 0;
  }
  // The one of two spellings that is there.
  std::string spelling(const std::string& name, const std::string& alias) {
    const Member a = find(name);
    const Member b = find(alias);
    if (b.presence == Presence::kAbsent) return name;
    if (a.presence != Presence::kAbsent && a.number != b.number) {
      fail(name + " and " + alias + " differ");
    }
    return alias;
  }
  const std::set<uint64_t>& mlp_only_layers() const { return listener_.mlp_only_layers; }

  void fail(const std::string& what, Code code = Code::kBadData) {
    if (status_.ok()) status_ = Status(code, what);
  }

 private:
  Member find(const std::string& name) const {
    const auto at = listener_.members.find(name);
    return at == listener_.members.end() ? Member{Presence::kAbsent, 0} : at->second;
  }

  const ConfigListener& listener_;
  Status status_;
};

std::optional<uint64_t> unless_zero(uint64_t value) {
  return value == 0 ? std::nullopt : std::optional(value);
}

void read_common(Reader* reader, const Defaults& defaults, ModelConfig* config) {
  const auto extent = [&](const std::string& name, uint64_t otherwise) {
    return reader->integer(name, unless_zero(otherwise), 1, kMaxExtent);
  };
  config->layers = reader->integer("num_hidden_layers", unless_zero(defaults.layers), 1, kMaxCount);
  config->hidden = extent("hidden_size", defaults.hidden);
  config->heads = reader->integer("num_attention_heads", unless_zero(defaults.heads), 1, kMaxCount);
  config->intermediate = extent("intermediate_size", defaults.intermediate);
  config->vocab = extent("vocab_size", defaults.vocab);
  config->tied_embeddings = reader->boolean("tie_word_embeddings", defaults.tied);
}

// Key and value heads, and the width of a head.
void read_attention(Reader* reader, const Defaults& defaults, ModelConfig* config) {
  const auto heads = static_cast<uint64_t>(config->heads);
  config->kv_heads =
      reader->nullable("num_key_value_heads", defaults.kv_heads == 0 ? heads : defaults.kv_heads,
                       config->heads, kMaxCount);
  // Zero stands for "not said" until the division below.
  config->head_dim = defaults.head_dim != 0
                         ? reader->integer("head_dim", defaults.head_dim, 1, kMaxExtent)
                         : reader->nullable("head_dim", 0, 0, kMaxExtent);
  if (!reader->status().ok()) return;
  if (config->heads % config->kv_heads != 0) {
    reader->fail(std::to_string(config->heads) + " attention heads are not a multiple of " +
                 std::to_string(config->kv_heads) + " key-value heads");
  }
  if (config->head_dim != 0) return;
  if (config->hidden % config->heads != 0) {
    reader->fail("hidden_size " + std::to_string(config->hidden) + " is not a multiple of " +
                 std::to_string(config->heads) + " attention heads");
  }
  config->head_dim = config->hidden / config->heads;
}

void read_bert(Reader* reader, ModelConfig* config) {
  config->kv_heads = config->heads;
  if (!reader->status().ok()) return;
  if (config->hidden % config->heads != 0) {
    reader->fail("hidden_size " + std::to_string(config->hidden) + " is not a multiple of " +
                 std::to_string(config->heads) + " attention heads");
  }
  config->head_dim = config->hidden / config->heads;
}

// Layers without experts are expressed only as a run of first layers.
void read_qwen3_moe(Reader* reader, ModelConfig* config) {
  config->experts =
      reader->integer(reader->spelling("num_experts", "num_local_experts"), 128, 1, kMaxCount);
  config->moe_intermediate = reader->integer("moe_intermediate_size", 768, 1, kMaxExtent);
  if (reader->integer("decoder_sparse_step", 1, 1, kMaxCount) != 1) {
    reader->fail("decoder_sparse_step other than 1", Code::kUnsupported);
  }
  for (const uint64_t layer : reader->mlp_only_layers()) {
    if (layer != static_cast<uint64_t>(config->first_dense_layers++)) {
      reader->fail("mlp_only_layers that are not the first layers", Code::kUnsupported);
    }
  }
}

void read_deepseek(Reader* reader, bool defaults, ModelConfig* config) {
  const auto otherwise = [&](uint64_t value) {
    return defaults ? std::optional(value) : std::nullopt;
  };
  const auto extent = [&](const std::string& name, uint64_t value) {
    return reader->integer(name, otherwise(value), 1, kMaxExtent);
  };
  config->kv_heads = reader->nullable(
      "num_key_value_heads", defaults ? uint64_t{128} : static_cast<uint64_t>(config->heads),
      config->heads, kMaxCount);
  config->experts = reader->integer(reader->spelling("n_routed_experts", "num_local_experts"),
                                    otherwise(256), 1, kMaxCount);
  config->moe_intermediate = extent("moe_intermediate_size", 2048);
  config->shared_experts = reader->nullable("n_shared_experts", otherwise(1), 0, kMaxCount);
  config->first_dense_layers = reader->integer("first_k_dense_replace", otherwise(3), 0, kMaxCount);
  config->q_lora_rank = reader->nullable("q_lora_rank", otherwise(1536), 0, kMaxExtent);
  config->kv_lora_rank = extent("kv_lora_rank", 512);
  config->qk_nope_head_dim = extent("qk_nope_head_dim", 128);
  config->qk_rope_head_dim = extent("qk_rope_head_dim", 64);
  config->v_head_dim = extent("v_head_dim", 128);
  config->mtp_layers = reader->integer("num_nextn_predict_layers", 0, 0, kMaxCount);
  if (reader->integer("moe_layer_freq", 1, 1, kMaxCount) != 1) {
    reader->fail("moe_layer_freq other than 1", Code::kUnsupported);
  }
}

}  // namespace

Result<ModelConfig> parse_model_config(std::string_view json) {
  ConfigListener listener;
  WB_RETURN_IF_ERROR(listener.walk(json));
  if (listener.model_type.empty()) {
    return Status(Code::kBadData, "the configuration has no model_type");
  }
  WB_ASSIGN_OR_RETURN(const Defaults defaults, defaults_of(listener.model_type));
  ModelConfig config;
  config.family = listener.model_type;
  Reader reader(listener);
  read_common(&reader, defaults, &config);
  if (config.family == "bert") {
    read_bert(&reader, &config);
  } else if (config.family == "deepseek_v3" || config.family == "kimi_k2") {
    read_deepseek(&reader, config.family == "deepseek_v3", &config);
  } else {
    read_attention(&reader, defaults, &config);
    if (config.family == "qwen3_moe") read_qwen3_moe(&reader, &config);
  }
  if (config.first_dense_layers > config.layers) {
    reader.fail(std::to_string(config.first_dense_layers) + " layers without experts of " +
                std::to_string(config.layers) + " layers");
  }
  WB_RETURN_IF_ERROR(reader.status());
  return config;
}

Result<ModelConfig> read_model_config(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "config.json";
  WB_ASSIGN_OR_RETURN(const InputFile file, InputFile::open(path));
  WB_ASSIGN_OR_RETURN(const std::string text, file.read_all(kMaxConfigBytes));
  auto config = parse_model_config(text);
  if (!config.ok()) return config.status().prefixed(path.string() + ": ");
  return config;
}

}  // namespace wb
