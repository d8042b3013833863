#include "layout/spec.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <span>

#include "base/checked.h"

namespace wb {
namespace {

constexpr uint32_t kMaxValue = 65536;
constexpr uint32_t kMaxWorld = 1u << 20;
// Longest SPEC: a list of kMaxValue layer counts would be refused by pp * vpp long before.
constexpr size_t kMaxText = size_t{64} << 10;

// One integer key: where it lives, what its absence means, and who has it.
struct Key {
  std::string_view name;
  uint32_t Spec::*field;
  uint32_t absent;
  std::array<bool, 4> of;  // indexed by Framework
};

constexpr std::array<Key, 11> kKeys = {{
    {"tp", &Spec::tp, 1, {true, false, true, false}},
    {"pp", &Spec::pp, 1, {true, false, true, false}},
    {"vpp", &Spec::vpp, 1, {true, false, false, false}},
    {"dp", &Spec::dp, 1, {true, false, true, false}},
    {"cp", &Spec::cp, 1, {true, false, false, false}},
    {"ep", &Spec::ep, 0, {true, false, true, false}},
    {"etp", &Spec::etp, 0, {true, false, false, false}},
    {"engines", &Spec::engines, 1, {false, false, true, false}},
    {"shards", &Spec::shards, 1, {false, true, false, false}},
    {"replicas", &Spec::replicas, 1, {false, true, false, false}},
    {"n", &Spec::n, 1, {false, false, false, true}},
}};

constexpr std::array<std::string_view, 4> kFrameworks = {"megatron", "fsdp", "vllm", "replicated"};

bool has_key(Framework framework, const Key& key) { return key.of[static_cast<size_t>(framework)]; }

// The user's word, short and printable, in quotes.
std::string quoted(std::string_view word) {
  constexpr size_t kShown = 40;
  std::string out = "'";
  for (char c : word.substr(0, kShown)) out += c >= ' ' && c <= '~' ? c : '?';
  if (word.size() > kShown) out += "...";
  return out + "'";
}

Status wrong(std::string message) { return Status(Code::kInvalidArgument, std::move(message)); }

std::string keys_of(Framework framework) {
  std::string out;
  const auto add = [&](std::string_view name) {
    if (!out.empty()) out += ", ";
    out += name;
  };
  for (const Key& key : kKeys) {
    if (has_key(framework, key)) add(key.name);
  }
  if (framework == Framework::kFsdp) add("flat");
  if (framework == Framework::kMegatron) add("layers");
  return out;
}

// A plain decimal number in [low, kMaxValue].
std::optional<uint32_t> number(std::string_view text, uint32_t low) {
  if (text.empty() || text.size() > 5 || (text.size() > 1 && text[0] == '0')) return std::nullopt;
  uint32_t value = 0;
  for (char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + static_cast<uint32_t>(c - '0');
  }
  if (value < low || value > kMaxValue) return std::nullopt;
  return value;
}

Status read_layers(std::string_view value, Spec* spec) {
  while (true) {
    const size_t slash = value.find('/');
    const std::string_view word = value.substr(0, slash);
    const std::optional<uint32_t> count = number(word, 0);
    if (!count) {
      return wrong("layers: " + quoted(word) +
                   " is not a number of layers; write one number per stage, as in "
                   "layers=15/16/16/14");
    }
    spec->layers.push_back(*count);
    if (slash == std::string_view::npos) return Status();
    value.remove_prefix(slash + 1);
  }
}

Status read_flat(std::string_view value, Spec* spec) {
  if (value != "0" && value != "1") {
    return wrong("flat: " + quoted(value) + " is neither 0 nor 1");
  }
  spec->flat = value == "1";
  return Status();
}

Status read_number(const Key& key, std::string_view value, Spec* spec) {
  const std::optional<uint32_t> parsed = number(value, 1);
  if (!parsed) {
    std::string hint = key.absent == 0 && value == "0"
                           ? "; leave " + std::string(key.name) + " out for its default"
                           : "";
    return wrong(std::string(key.name) + ": " + quoted(value) +
                 " is not a whole number from 1 to 65536" + hint);
  }
  spec->*key.field = *parsed;
  return Status();
}

Status read_item(std::string_view item, Spec* spec, std::vector<std::string_view>* seen) {
  const size_t equals = item.find('=');
  if (equals == std::string_view::npos) {
    return wrong(quoted(item) + " is not key=value; keys of " +
                 std::string(framework_name(spec->framework)) + ": " + keys_of(spec->framework));
  }
  const std::string_view name = item.substr(0, equals);
  const std::string_view value = item.substr(equals + 1);
  if (std::find(seen->begin(), seen->end(), name) != seen->end()) {
    return wrong("key " + quoted(name) + " is given twice; give it once");
  }
  seen->push_back(name);
  if (name == "flat" && spec->framework == Framework::kFsdp) return read_flat(value, spec);
  if (name == "layers" && spec->framework == Framework::kMegatron) return read_layers(value, spec);
  for (const Key& key : kKeys) {
    if (key.name == name && has_key(spec->framework, key)) return read_number(key, value, spec);
  }
  return wrong(std::string(framework_name(spec->framework)) + " has no key " + quoted(name) +
               "; its keys: " + keys_of(spec->framework));
}

std::string product_text(std::initializer_list<std::pair<std::string_view, uint32_t>> factors) {
  std::string names;
  std::string values;
  for (const auto& [name, value] : factors) {
    names += (names.empty() ? "" : "*") + std::string(name);
    values += (values.empty() ? "" : "*") + std::to_string(value);
  }
  return names + " = " + values;
}

uint64_t saturated(std::span<const uint32_t> factors) {
  uint64_t out = 1;
  for (uint32_t factor : factors) {
    out = checked_mul<uint64_t>(out, factor).value_or(std::numeric_limits<uint64_t>::max());
  }
  return out;
}

Status check_megatron(const Spec& spec) {
  const uint32_t etp = spec.etp == 0 ? spec.tp : spec.etp;
  const uint32_t ep = spec.ep == 0 ? 1 : spec.ep;
  const uint64_t experts = uint64_t{etp} * ep;
  const uint64_t stage = uint64_t{spec.tp} * spec.dp * spec.cp;
  if (stage % experts != 0) {
    return wrong(product_text({{"ep", ep}, {"etp", etp}}) + " does not divide " +
                 product_text({{"tp", spec.tp}, {"dp", spec.dp}, {"cp", spec.cp}}) +
                 "; choose ep and etp so that it does");
  }
  if (spec.vpp > 1 && spec.pp == 1) {
    return wrong("vpp = " + std::to_string(spec.vpp) +
                 " needs pp of 2 or more (Megatron's interleaved schedule)");
  }
  const uint64_t chunks = uint64_t{spec.pp} * spec.vpp;
  if (!spec.layers.empty() && spec.layers.size() != chunks) {
    return wrong("layers has " + std::to_string(spec.layers.size()) + " numbers; " +
                 product_text({{"pp", spec.pp}, {"vpp", spec.vpp}}) + " needs " +
                 std::to_string(chunks));
  }
  for (uint32_t count : spec.layers) {
    if (count > kMaxValue) return wrong("layers: " + std::to_string(count) + " is over 65536");
  }
  return Status();
}

Status check_vllm(const Spec& spec) {
  const uint64_t group = uint64_t{spec.tp} * spec.dp;
  if (spec.ep != 0 && spec.ep != group) {
    return wrong(
        "ep = " + std::to_string(spec.ep) + " is not possible: vLLM spreads experts over all of " +
        product_text({{"tp", spec.tp}, {"dp", spec.dp}}) + "; write ep=" + std::to_string(group) +
        ", or leave ep out to cut every expert instead");
  }
  return Status();
}

}  // namespace

std::string_view framework_name(Framework framework) {
  return kFrameworks[static_cast<size_t>(framework)];
}

uint32_t Spec::world() const {
  uint64_t ranks = 0;
  switch (framework) {
    case Framework::kMegatron:
      ranks = saturated(std::array{tp, pp, dp, cp});
      break;
    case Framework::kFsdp:
      ranks = saturated(std::array{shards, replicas});
      break;
    case Framework::kVllm:
      ranks = saturated(std::array{tp, pp, dp, engines});
      break;
    case Framework::kReplicated:
      ranks = n;
      break;
  }
  return static_cast<uint32_t>(std::min<uint64_t>(ranks, std::numeric_limits<uint32_t>::max()));
}

std::string Spec::to_string() const {
  std::string out(framework_name(framework));
  char separator = ':';
  const auto add = [&](std::string_view name, const std::string& value) {
    out += separator;
    out += std::string(name) + "=" + value;
    separator = ',';
  };
  for (const Key& key : kKeys) {
    if (has_key(framework, key) && this->*key.field != key.absent) {
      add(key.name, std::to_string(this->*key.field));
    }
  }
  if (flat) add("flat", "1");
  if (!layers.empty()) {
    std::string list;
    for (uint32_t count : layers) list += (list.empty() ? "" : "/") + std::to_string(count);
    add("layers", list);
  }
  return out;
}

Status Spec::check() const {
  if (static_cast<size_t>(framework) >= kFrameworks.size()) {
    return wrong("framework " + std::to_string(static_cast<int>(framework)) + " does not exist");
  }
  const std::string name(framework_name(framework));
  for (const Key& key : kKeys) {
    const uint32_t value = this->*key.field;
    if (value == key.absent) continue;
    if (!has_key(framework, key)) {
      return wrong(name + " has no key '" + std::string(key.name) +
                   "'; its keys: " + keys_of(framework));
    }
    if (value < 1 || value > kMaxValue) {
      return wrong(std::string(key.name) + " = " + std::to_string(value) +
                   " is not from 1 to 65536");
    }
  }
  if (flat && framework != Framework::kFsdp) return wrong(name + " has no key 'flat'");
  if (!layers.empty() && framework != Framework::kMegatron) {
    return wrong(name + " has no key 'layers'");
  }
  if (world() > kMaxWorld) {
    return wrong("the world of " + to_string() + " has more than 1048576 ranks");
  }
  if (framework == Framework::kMegatron) return check_megatron(*this);
  if (framework == Framework::kVllm) return check_vllm(*this);
  return Status();
}

Result<Spec> parse_spec(std::string_view text) {
  if (text.size() > kMaxText) return wrong("a SPEC of more than 65536 characters");
  const size_t colon = text.find(':');
  const std::string_view word = text.substr(0, colon);
  const auto framework = std::find(kFrameworks.begin(), kFrameworks.end(), word);
  if (framework == kFrameworks.end()) {
    return wrong("unknown framework " + quoted(word) +
                 "; known: megatron, fsdp, vllm, replicated (as in megatron:tp=2,pp=2)");
  }
  Spec spec;
  spec.framework = static_cast<Framework>(framework - kFrameworks.begin());
  std::string_view rest =
      colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  std::vector<std::string_view> seen;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    WB_RETURN_IF_ERROR(read_item(rest.substr(0, comma), &spec, &seen));
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
    if (rest.empty()) return wrong("a comma at the end; give another key=value or remove it");
  }
  WB_RETURN_IF_ERROR(spec.check());
  return spec;
}

}  // namespace wb
