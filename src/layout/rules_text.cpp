#include "layout/rules_text.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <span>

#include "base/split.h"
#include "layout/quote.h"

namespace wb {
namespace {

constexpr size_t kMaxText = 1 << 20;
constexpr size_t kMaxWord = 512;
constexpr size_t kMaxWords = 64;
constexpr size_t kMaxLets = 64;

using Words = std::span<const std::string>;

template <typename T>
struct Spelling {
  std::string_view name;
  T value;
};

constexpr std::array<Spelling<Where>, 9> kWheres = {{{"first", Where::kFirst},
                                                     {"last", Where::kLast},
                                                     {"last_only", Where::kLastOnly},
                                                     {"layer", Where::kLayer},
                                                     {"dense", Where::kDense},
                                                     {"moe", Where::kMoe},
                                                     {"mtp", Where::kMtp},
                                                     {"each", Where::kEach},
                                                     {"block", Where::kBlock}}};

constexpr std::array<Spelling<CutGroup>, 3> kGroups = {
    {{"tp", CutGroup::kTp}, {"etp", CutGroup::kEtp}, {"shards", CutGroup::kShards}}};

constexpr std::array<Spelling<Selector>, 3> kSelectors = {{{"@all", Selector::kAll},
                                                           {"@buffers", Selector::kBuffers},
                                                           {"@parameters", Selector::kParameters}}};

// What a cut needs: a group, a number, how many sources (0: any), and whether its sources are the
// tensors of all experts.
struct CutSpelling {
  std::string_view name;
  CutKind value;
  bool group;
  bool multiple;
  size_t sources;
  bool experts;
};

constexpr std::array<CutSpelling, 14> kCuts = {{
    {"whole", CutKind::kWhole, false, false, 1, false},
    {"rows", CutKind::kRows, true, false, 1, false},
    {"columns", CutKind::kColumns, true, false, 1, false},
    {"stacked", CutKind::kStacked, false, false, 0, false},
    {"gated", CutKind::kGated, true, false, 2, false},
    {"qkv_megatron", CutKind::kQkvMegatron, true, false, 3, false},
    {"qkv_vllm", CutKind::kQkvVllm, true, false, 3, false},
    {"vocab_megatron", CutKind::kVocabMegatron, true, true, 1, false},
    {"vocab_vllm", CutKind::kVocabVllm, true, true, 1, false},
    {"experts_gated", CutKind::kExpertsGated, true, false, 2, true},
    {"experts_columns", CutKind::kExpertsColumns, true, false, 1, true},
    {"chunk", CutKind::kChunk, true, false, 1, false},
    {"experts_chunk", CutKind::kExpertsChunk, true, false, 0, true},
    {"flat", CutKind::kFlat, true, false, 0, false},
}};

template <typename Table>
auto find_spelling(const Table& table, std::string_view name) {
  const auto row =
      std::find_if(table.begin(), table.end(), [&](const auto& r) { return r.name == name; });
  return row == table.end() ? nullptr : &*row;
}

Status bad(std::string message) { return Status(Code::kBadData, std::move(message)); }

std::vector<std::string> split(std::string_view line) {
  std::vector<std::string> words;
  size_t at = 0;
  while (at < line.size()) {
    const size_t end = std::min(line.find_first_of(" \t", at), line.size());
    if (end > at) words.emplace_back(line.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Braces may only form one of `allowed`, each at most once.
Status check_placeholders(std::string_view name, std::span<const std::string_view> allowed) {
  std::vector<std::string_view> seen;
  for (size_t at = 0; at < name.size();) {
    const size_t open = name.find_first_of("{}", at);
    if (open == std::string_view::npos) break;
    const size_t close = name.find('}', open);
    if (name[open] == '}' || close == std::string_view::npos) {
      return bad("unbalanced braces in " + quote(name));
    }
    const std::string_view word = name.substr(open, close - open + 1);
    if (std::find(allowed.begin(), allowed.end(), word) == allowed.end()) {
      return bad("placeholder " + std::string(word) + " has no meaning in " + quote(name));
    }
    if (std::find(seen.begin(), seen.end(), word) != seen.end()) {
      return bad("placeholder " + std::string(word) + " is twice in " + quote(name));
    }
    seen.push_back(word);
    at = close + 1;
  }
  return Status();
}

Status check_checkpoint_name(std::string_view name) {
  constexpr std::array<std::string_view, 3> kAllowed = {"{layer}", "{mtp}", "{expert}"};
  if (name.empty() || name[0] == '@') return bad("a tensor name is missing");
  if (contains(name, "{layer}") && contains(name, "{mtp}")) {
    return bad(quote(name) + " has both {layer} and {mtp}");
  }
  const size_t layer = std::min(name.find("{layer}"), name.find("{mtp}"));
  if (contains(name, "{expert}") && !(layer < name.find("{expert}"))) {
    return bad(quote(name) + " has {expert} without a layer before it");
  }
  return check_placeholders(name, kAllowed);
}

// Conditions of the open block and of the end of a line: only A,B  when S  unless S.
Status read_condition(Words words, RuleCondition* condition) {
  for (size_t i = 0; i < words.size(); i += 2) {
    if (i + 1 == words.size()) return bad(quote(words[i]) + " needs a word behind it");
    const std::string& word = words[i + 1];
    if (words[i] == "only") {
      std::vector<std::string> families = split_commas(word);
      for (const std::string& family : families) {
        const auto& block = condition->families;
        if (!block.empty() && std::find(block.begin(), block.end(), family) == block.end()) {
          return bad("family " + quote(family) + " is not one of this block");
        }
      }
      condition->families = std::move(families);
    } else if (words[i] == "when" || words[i] == "unless") {
      WB_RETURN_IF_ERROR(evaluate(word, ModelConfig()).status());
      (words[i] == "when" ? condition->when : condition->unless) = word;
    } else {
      return bad("unknown word " + quote(words[i]));
    }
  }
  return Status();
}

bool starts_condition(const std::string& word) {
  return word == "only" || word == "when" || word == "unless";
}

Result<std::vector<std::string>> read_shape(const std::string& word) {
  if (word.size() < 3 || word.front() != '[' || word.back() != ']') {
    return bad(quote(word) + " is not a shape like [vocab,hidden]");
  }
  std::vector<std::string> dims = split_commas(std::string_view(word).substr(1, word.size() - 2));
  for (const std::string& dim : dims) {
    if (dim != "_") WB_RETURN_IF_ERROR(evaluate(dim, ModelConfig()).status());
  }
  if (dims.size() > 4) return bad("more than 4 dimensions");
  return dims;
}

// NAME(group,number) or NAME.
Status read_cut(const std::string& word, HoldRule* rule, const CutSpelling** found) {
  const size_t open = word.find('(');
  *found = find_spelling(kCuts, std::string_view(word).substr(0, open));
  if (*found == nullptr) return bad("unknown cut " + quote(word));
  const CutSpelling& cut = **found;
  rule->cut = cut.value;
  std::vector<std::string> arguments;
  if (open != std::string::npos) {
    if (word.back() != ')') return bad(quote(word) + " has no closing parenthesis");
    arguments = split_commas(std::string_view(word).substr(open + 1, word.size() - open - 2));
  }
  const size_t wanted = size_t{cut.group} + size_t{cut.multiple};
  if (arguments.size() != wanted) {
    return bad("cut " + std::string(cut.name) + " takes " + std::to_string(wanted) + " arguments");
  }
  if (cut.group) {
    const auto* group = find_spelling(kGroups, arguments[0]);
    if (group == nullptr) return bad("unknown group " + quote(arguments[0]));
    rule->group = group->value;
  }
  if (cut.multiple) {
    WB_ASSIGN_OR_RETURN(rule->multiple, evaluate(arguments[1], ModelConfig()));
    if (rule->multiple < 1 || rule->multiple > 65536) {
      return bad("padding to a multiple of " + arguments[1]);
    }
  }
  return Status();
}

Status check_own_name(const HoldRule& rule) {
  constexpr std::array<std::string_view, 3> kLayer = {"{layer}", "{local}", "{local_expert}"};
  constexpr std::array<std::string_view, 1> kName = {"{name}"};
  constexpr std::array<std::string_view, 1> kBlock = {"{block}"};
  switch (rule.where) {
    case Where::kFirst:
    case Where::kLast:
    case Where::kLastOnly:
      return check_placeholders(rule.own, {});
    case Where::kLayer:
    case Where::kDense:
    case Where::kMoe:
    case Where::kMtp:
      if (!contains(rule.own, "{layer}") && !contains(rule.own, "{local}")) {
        return bad(quote(rule.own) + " would be the same in every layer");
      }
      return check_placeholders(rule.own, kLayer);
    case Where::kEach:
      if (rule.own != "{name}") return bad("each holds tensors as {name}");
      return check_placeholders(rule.own, kName);
    case Where::kBlock:
      if (!contains(rule.own, "{block}")) return bad("a block's own name needs {block}");
      return check_placeholders(rule.own, kBlock);
  }
  return bad("unknown place");
}

// Whether the names of the sources fit the place, the own name and the cut.
Status check_sources(const HoldRule& rule, const CutSpelling& cut, Words names) {
  if (cut.sources != 0 && names.size() != cut.sources) {
    return bad("cut " + std::string(cut.name) + " takes " + std::to_string(cut.sources) +
               " tensors");
  }
  const bool selects = rule.where == Where::kEach || rule.where == Where::kBlock;
  if (selects != (rule.selector != Selector::kNamed)) {
    return bad("each and block take @all, @buffers or @parameters, other places take names");
  }
  if ((rule.where == Where::kBlock) != (cut.value == CutKind::kFlat)) {
    return bad("block and flat go together");
  }
  if (rule.where == Where::kEach && cut.value != CutKind::kWhole && cut.value != CutKind::kChunk) {
    return bad("each takes whole or chunk");
  }
  if (selects) return Status();
  const bool layer =
      rule.where == Where::kLayer || rule.where == Where::kDense || rule.where == Where::kMoe;
  const bool local_expert = contains(rule.own, "{local_expert}");
  if (local_expert && cut.experts) return bad("the cut takes all experts at once");
  for (const std::string& name : names) {
    WB_RETURN_IF_ERROR(check_checkpoint_name(name));
    if (contains(name, "{layer}") != layer ||
        contains(name, "{mtp}") != (rule.where == Where::kMtp)) {
      return bad(quote(name) + " does not belong to the place of the line");
    }
    if (contains(name, "{expert}") != (local_expert || cut.experts)) {
      return bad(quote(name) + " and " + quote(rule.own) + " do not agree about experts");
    }
  }
  return Status();
}

class BookParser {
 public:
  Status line(std::string_view text) {
    std::vector<std::string> words = split(text.substr(0, text.find('#')));
    if (words.empty()) return Status();
    if (words.size() > kMaxWords) return bad("more than 64 words");
    if (words[0] == "let") return read_let(words);
    for (std::string& word : words) WB_RETURN_IF_ERROR(substitute(&word));
    const Words rest = Words(words).subspan(1);
    if (words[0] == "tensors" || words[0] == "rules") return open_block(words[0], rest);
    if (block_.empty()) return bad(quote(words[0]) + " before the first block");
    if (block_ == "tensors") return tensor_line(words[0], rest);
    return rule_line(words[0], rest);
  }

  RuleBook take() { return std::move(book_); }

 private:
  Status read_let(const std::vector<std::string>& words) {
    if (words.size() != 4 || words[2] != "=") return bad("let takes NAME = TEXT");
    const std::string& name = words[1];
    if (name.size() != 1 || name[0] < 'A' || name[0] > 'Z') {
      return bad("the name of a let is one capital letter");
    }
    std::string value = words[3];
    WB_RETURN_IF_ERROR(substitute(&value));
    if (lets_.size() >= kMaxLets) return bad("too many lets");
    lets_[name[0]] = std::move(value);
    return Status();
  }

  // "$L.rest" -> value of L + ".rest".
  Status substitute(std::string* word) {
    if (word->size() > kMaxWord) return bad("a word of more than 512 characters");
    if ((*word)[0] != '$') return Status();
    const auto let = word->size() < 2 ? lets_.end() : lets_.find((*word)[1]);
    if (let == lets_.end()) return bad(quote(*word) + " is not defined by a let");
    *word = let->second + word->substr(2);
    if (word->size() > kMaxWord) return bad("a word of more than 512 characters");
    return Status();
  }

  Status open_block(const std::string& kind, Words families) {
    if (families.empty()) return bad(kind + " needs families");
    block_ = kind;
    families_.assign(families.begin(), families.end());
    if (families_.size() == 1 && families_[0] == "*") families_.clear();
    return Status();
  }

  Status tensor_line(const std::string& word, Words rest) {
    if (word == "prefix") {
      if (rest.size() != 1 || !book_.prefix.empty()) return bad("prefix takes one text, once");
      book_.prefix = rest[0];
      book_.prefixed_families = families_;
      return Status();
    }
    if (rest.empty()) return bad(quote(word) + " needs a name");
    TensorRule rule;
    rule.name = rest[0];
    rule.condition.families = families_;
    WB_RETURN_IF_ERROR(check_checkpoint_name(rule.name));
    rule.key = rule_key(rule.name);
    rest = rest.subspan(1);
    if (word == "alias") {
      if (rest.size() < 2 || rest[0] != "=") return bad("alias takes NAME = NAME");
      WB_RETURN_IF_ERROR(check_checkpoint_name(rest[1]));
      rule.alias_of = rule_key(rest[1]);
      rest = rest.subspan(2);
    } else if (word == "tensor") {
      if (rest.empty()) return bad("a tensor needs a shape");
      WB_ASSIGN_OR_RETURN(rule.shape, read_shape(rest[0]));
      rest = rest.subspan(1);
    } else if (word == "ignore") {
      rule.ignored = true;
    } else {
      return bad("unknown word " + quote(word));
    }
    return finish_tensor(std::move(rule), rest);
  }

  Status finish_tensor(TensorRule rule, Words rest) {
    while (!rest.empty() && !starts_condition(rest[0])) {
      if (rest[0] == "optional") {
        rule.optional = true;
      } else if (rest[0] == "buffer") {
        rule.buffer = true;
      } else if (rest[0] == "dense" || rest[0] == "moe") {
        rule.kind = rest[0] == "moe" ? LayerKind::kMoe : LayerKind::kDense;
      } else {
        return bad("unknown word " + quote(rest[0]));
      }
      rest = rest.subspan(1);
    }
    if (rule.kind != LayerKind::kAny && !contains(rule.name, "{layer}")) {
      return bad("dense and moe are of tensors with {layer}");
    }
    WB_RETURN_IF_ERROR(read_condition(rest, &rule.condition));
    if (rule.mtp()) {
      for (const std::string& family : rule.condition.families) {
        auto& known = book_.mtp_families;
        if (std::find(known.begin(), known.end(), family) == known.end()) known.push_back(family);
      }
    }
    book_.tensors.push_back(std::move(rule));
    return Status();
  }

  Status rule_line(const std::string& word, Words rest) {
    if (word == "skip_mtp") {
      if (!rest.empty()) return bad("skip_mtp takes nothing");
      book_.skip_mtp = true;
      return Status();
    }
    if (word == "mtp_layer") {
      if (rest.size() != 3 || rest[1] != "=") return bad("mtp_layer takes PREFIX = PREFIX");
      book_.layer_own = rest[0];
      book_.mtp_own = rest[2];
      return Status();
    }
    const auto* where = find_spelling(kWheres, word);
    if (where == nullptr) return bad("unknown word " + quote(word));
    if (rest.size() < 4 || rest[1] != "=") return bad(quote(word) + " takes OWN = CUT TENSOR...");
    HoldRule rule;
    rule.where = where->value;
    rule.own = rest[0];
    rule.condition.families = families_;
    const CutSpelling* cut = nullptr;
    WB_RETURN_IF_ERROR(read_cut(rest[2], &rule, &cut));
    rest = rest.subspan(3);
    size_t count = 0;
    while (count < rest.size() && !starts_condition(rest[count])) ++count;
    const Words names = rest.first(count);
    if (names.empty()) return bad("no tensors");
    if (const auto* selector = find_spelling(kSelectors, names[0])) {
      if (names.size() != 1) return bad(names[0] + " stands alone");
      rule.selector = selector->value;
    }
    WB_RETURN_IF_ERROR(check_own_name(rule));
    WB_RETURN_IF_ERROR(check_sources(rule, *cut, names));
    if (rule.selector == Selector::kNamed) {
      for (const std::string& name : names) rule.sources.push_back(rule_key(name));
    }
    WB_RETURN_IF_ERROR(read_condition(rest.subspan(count), &rule.condition));
    book_.holds.push_back(std::move(rule));
    return Status();
  }

  RuleBook book_;
  std::string block_;
  std::vector<std::string> families_;
  std::map<char, std::string> lets_;
};

}  // namespace

std::string rule_key(std::string_view name) {
  std::string key;
  for (size_t at = 0; at < name.size();) {
    const size_t close = name[at] == '{' ? name.find('}', at) : std::string_view::npos;
    if (close == std::string_view::npos) {
      key += name[at++];
    } else {
      key += "{}";
      at = close + 1;
    }
  }
  if (contains(name, "{mtp}")) key += "#mtp";
  return key;
}

Result<RuleBook> parse_rules(std::string_view file, std::string_view text) {
  if (text.size() > kMaxText) return bad(std::string(file) + ": more than 1 MiB of rules");
  BookParser parser;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    Status status = parser.line(text.substr(0, end));
    if (!status.ok()) {
      return bad(std::string(file) + ":" + std::to_string(number) + ": " + status.message());
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parser.take();
}

}  // namespace wb
