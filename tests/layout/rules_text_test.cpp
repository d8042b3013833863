#include "layout/rules_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>
#include <vector>

#include "layout/rules_embedded.h"

namespace wb {
namespace {

using ::testing::HasSubstr;

const std::vector<std::string> kFiles = {"families",  "megatron", "fsdp",
                                         "fsdp_flat", "vllm",     "replicated"};

std::string fault(const std::string& text) {
  const auto book = parse_rules("x.rules", text);
  if (book.ok()) return "accepted";
  EXPECT_EQ(book.status().code(), Code::kBadData);
  return book.status().message();
}

TEST(RulesText, TheCompiledInFilesAreSound) {
  for (const std::string& file : kFiles) {
    ASSERT_FALSE(embedded_rules(file).empty()) << file;
    const auto book = parse_rules(file, embedded_rules(file));
    EXPECT_TRUE(book.ok()) << book.status().to_string();
  }
  EXPECT_TRUE(embedded_rules("nothing").empty());
}

TEST(RulesText, ReadsTensorsAndRules) {
  const auto book = parse_rules("x", R"(
    tensors llama  # a comment
    let L = model.layers.{layer}
    tensor $L.a.weight [heads*(nope+2),_] moe optional buffer only llama when tied
    alias  b.weight = a.weight unless q_rank
    rules *
    let L = model.layers.{layer}
    moe own.{local}.w{local_expert} = gated(etp) $L.{expert}.a $L.{expert}.b
    first e = vocab_vllm(tp,64) e.weight
  )");
  ASSERT_TRUE(book.ok()) << book.status().to_string();
  ASSERT_EQ(book->tensors.size(), 2u);
  const TensorRule& tensor = book->tensors[0];
  EXPECT_EQ(tensor.key, "model.layers.{}.a.weight");
  EXPECT_EQ(tensor.shape, (std::vector<std::string>{"heads*(nope+2)", "_"}));
  EXPECT_EQ(tensor.kind, LayerKind::kMoe);
  EXPECT_TRUE(tensor.optional && tensor.buffer && tensor.held());
  EXPECT_EQ(tensor.condition.when, "tied");
  EXPECT_EQ(book->tensors[1].alias_of, "a.weight");
  ASSERT_EQ(book->holds.size(), 2u);
  EXPECT_EQ(book->holds[0].group, CutGroup::kEtp);
  EXPECT_EQ(book->holds[0].sources.size(), 2u);
  EXPECT_EQ(book->holds[1].multiple, 64);
  EXPECT_TRUE(book->holds[1].condition.families.empty()) << "any family";
}

TEST(RulesText, FaultsNameFileAndLine) {
  EXPECT_THAT(fault("\n\nfirst a = whole b"), HasSubstr("x.rules:3: 'first' before the first"));
  const std::vector<std::pair<std::string, std::string>> rules = {
      {"sometimes a = whole b", "unknown word 'sometimes'"},
      {"first a whole b", "takes OWN = CUT TENSOR"},
      {"first a = slices b", "unknown cut 'slices'"},
      {"first a = rows b", "takes 1 arguments"},
      {"first a = rows(pp) b", "unknown group 'pp'"},
      {"first a = rows(tp b", "closing parenthesis"},
      {"first a = vocab_vllm(tp,0) b", "multiple of 0"},
      {"first a = vocab_vllm(tp,99999999999) b", "9 digits"},
      {"first a = whole b c", "takes 1 tensors"},
      {"first a = gated(tp) b", "takes 2 tensors"},
      {"first a = whole when tied", "no tensors"},
      {"first a = whole b when", "needs a word"},
      {"first a = whole b when tied2", "unknown symbol 'tied2'"},
      {"first a = whole b only qwen2", "'qwen2' is not one of this block"},
      {"first a{layer} = whole b", "has no meaning"},
      {"first a = whole b.{layer}", "does not belong"},
      {"layer a = whole b.{layer}", "the same in every layer"},
      {"layer a.{layer} = whole b", "does not belong"},
      {"layer a.{layer}.{layer} = whole b.{layer}", "is twice"},
      {"layer a.{layer = whole b.{layer}", "every layer"},
      {"layer a.{local} = whole b.{layer}.{expert}", "about experts"},
      {"layer a.{local}{local_expert} = whole b.{layer}", "about experts"},
      {"layer a.{local}{local_expert} = experts_gated(tp) b.{layer}.{expert} c.{layer}.{expert}",
       "all experts at once"},
      {"layer a.{local} = whole b.{layer}.{mtp}", "both {layer} and {mtp}"},
      {"layer a.{local} = whole {expert}.{layer}", "without a layer before"},
      {"each {name} = rows(tp) @all", "whole or chunk"},
      {"each {name} = whole b", "take @all"},
      {"each n = whole @all", "as {name}"},
      {"first a = whole @all", "take @all"},
      {"block {block}x = whole @all", "go together"},
      {"block x = flat(shards) @all", "needs {block}"},
      {"each {name} = whole @all @all", "stands alone"},
      {"first $X = whole b", "not defined by a let"},
      {"let x = y", "one capital letter"},
      {"let X y", "NAME = TEXT"},
      {"mtp_layer a b", "PREFIX = PREFIX"},
      {"skip_mtp now", "takes nothing"},
      {"rules", "needs families"},
  };
  for (const auto& [line, what] : rules) {
    EXPECT_THAT(fault("rules llama\n" + line), HasSubstr("x.rules:2: ")) << line;
    EXPECT_THAT(fault("rules llama\n" + line), HasSubstr(what)) << line;
  }
  const std::vector<std::pair<std::string, std::string>> tensors = {
      {"tensor", "needs a name"},
      {"tensor a", "needs a shape"},
      {"tensor a vocab", "is not a shape"},
      {"tensor a []", "is not a shape"},
      {"tensor a [vocab,]", "malformed"},
      {"tensor a [vocab+]", "malformed"},
      {"tensor a [(vocab]", "malformed"},
      {"tensor a [((((((((((vocab))))))))))]", "nested too deep"},
      {"tensor a [3x]", "malformed number"},
      {"tensor a [999999999*999999999*999999999]", "overflows"},
      {"tensor a [1,1,1,1,1]", "more than 4"},
      {"tensor a [vocab] dense", "of tensors with {layer}"},
      {"tensor a [vocab] sparse", "unknown word 'sparse'"},
      {"tensor a.{x} [vocab]", "has no meaning"},
      {"alias a b", "NAME = NAME"},
      {"prefix", "takes one text"},
      {"hold a", "unknown word 'hold'"},
  };
  for (const auto& [line, what] : tensors) {
    EXPECT_THAT(fault("tensors llama\n" + line), HasSubstr(what)) << line;
  }
}

TEST(RulesText, SizesAreBounded) {
  EXPECT_THAT(fault(std::string(2 << 20, 'x')), HasSubstr("1 MiB"));
  EXPECT_THAT(fault("rules a\nfirst " + std::string(1000, 'x') + " = whole b"),
              HasSubstr("512 characters"));
  std::string words = "rules";
  for (int i = 0; i < 100; ++i) words += " a";
  EXPECT_THAT(fault(words), HasSubstr("64 words"));
  // A let that refers to a let doubles at most up to the limit of a word.
  std::string lets = "let A = " + std::string(300, 'x') + "\nlet B = $A" + std::string(300, 'x');
  EXPECT_THAT(fault(lets), HasSubstr("512 characters"));
}

TEST(RulesText, ExpressionsAreExact) {
  ModelConfig config;
  config.heads = 6;
  config.qk_nope_head_dim = 4;
  config.qk_rope_head_dim = 2;
  config.vocab = INT64_MAX;
  EXPECT_EQ(*evaluate("heads*(nope+rope)+2*heads", config), 48);
  EXPECT_EQ(*evaluate("2", config), 2);
  EXPECT_EQ(evaluate("vocab+1", config).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(evaluate("vocab*2", config).status().code(), Code::kInvalidArgument);
  EXPECT_FALSE(evaluate("", config).ok());
  EXPECT_FALSE(evaluate("heads heads", config).ok());
}

// Damaged files are refused or mean something; the interpreter's assumptions hold either way.
TEST(RulesText, DamagedFilesNeverCrash) {
  EXPECT_TRUE(rc::check([] {
    std::string text(embedded_rules(*rc::gen::elementOf(kFiles)));
    const int edits = *rc::gen::inRange(1, 6);
    for (int i = 0; i < edits; ++i) {
      const size_t at = *rc::gen::inRange<size_t>(0, text.size());
      const size_t length = std::min(*rc::gen::inRange<size_t>(0, 30), text.size() - at);
      const auto insert = *rc::gen::container<std::string>(
          rc::gen::element('{', '}', '$', '@', '(', ')', '[', ']', '=', ',', ' ', '\n', 'A', '9'));
      text.replace(at, length, insert);
    }
    const auto book = parse_rules("damaged", text);
    if (!book.ok()) {
      RC_ASSERT(book.status().code() == Code::kBadData);
      return;
    }
    for (const HoldRule& rule : book->holds) {
      RC_ASSERT((rule.selector == Selector::kNamed) == !rule.sources.empty());
      RC_ASSERT(rule.multiple >= 1);
    }
  }));
}

}  // namespace
}  // namespace wb
