// What docs/spec.md and docs/layouts-and-rules.md show is what the code does.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "layout/rules_text.h"
#include "layout/spec.h"

namespace wb {
namespace {

std::vector<std::string> lines_of(const char* file) {
  std::ifstream in(std::filesystem::path(WB_DOCS) / file);
  EXPECT_TRUE(in) << file;
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// The fenced blocks of a page.
std::vector<std::string> blocks_of(const char* file) {
  std::vector<std::string> blocks;
  bool inside = false;
  for (const std::string& line : lines_of(file)) {
    if (line.starts_with("```")) {
      inside = !inside;
      if (inside) blocks.emplace_back();
    } else if (inside) {
      blocks.back() += line + "\n";
    }
  }
  return blocks;
}

TEST(RulesDocs, EachSpecOfThePageParses) {
  const std::vector<std::string> blocks = blocks_of("spec.md");
  ASSERT_FALSE(blocks.empty());
  size_t specs = 0;
  for (std::string text = blocks[0]; !text.empty(); ++specs) {
    const std::string line = text.substr(0, text.find('\n'));
    EXPECT_TRUE(parse_spec(line).ok()) << line;
    text.erase(0, line.size() + 1);
  }
  EXPECT_EQ(specs, 4u);
}

TEST(RulesDocs, EachErrorOfThePageIsTheErrorOfTheParser) {
  size_t errors = 0;
  for (const std::string& line : lines_of("spec.md")) {
    const size_t spec_end = line.find("` | ");
    if (!line.starts_with("| `") || spec_end == std::string::npos) continue;
    const auto spec = parse_spec(line.substr(3, spec_end - 3));
    if (line.find(':') > spec_end) continue;  // a row of another table
    std::string message = line.substr(spec_end + 4, line.size() - spec_end - 6);
    std::erase(message, '\\');
    ASSERT_FALSE(spec.ok()) << line;
    EXPECT_EQ(spec.status().message(), message);
    ++errors;
  }
  EXPECT_EQ(errors, 4u);
}

TEST(RulesDocs, EachRuleFileOfThePageParses) {
  const std::vector<std::string> blocks = blocks_of("layouts-and-rules.md");
  EXPECT_EQ(blocks.size(), 2u);
  for (const std::string& block : blocks) {
    const auto book = parse_rules("layouts-and-rules.md", block);
    EXPECT_TRUE(book.ok()) << book.status().to_string();
  }
}

}  // namespace
}  // namespace wb
