#include "cli/demo_results.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace wb::cli {
namespace {

using nlohmann::json;

DemoSettings settings(const char* mode, uint32_t receivers) {
  DemoSettings out;
  out.mode = mode;
  out.versions = 3;
  out.receivers = receivers;
  return out;
}

std::string pulled(uint64_t version, uint64_t rank, uint64_t bytes, uint64_t read_ns,
                   uint64_t memcpy_ns, uint64_t torn = 0) {
  return json{{"event", "pulled"},
              {"version", version},
              {"rank", rank},
              {"bytes", bytes},
              {"needed", bytes},
              {"verified", bytes},
              {"expected", bytes},
              {"read_ns", read_ns},
              {"memcpy_ns", memcpy_ns},
              {"wrong", 0},
              {"fault", ""},
              {"torn", torn},
              {"padding", 0},
              {"skipped", torn == 0 ? 0 : 1}}
      .dump();
}

std::string published(uint64_t version, uint64_t ns) {
  return json{{"event", "published"}, {"version", version}, {"rank", 0}, {"publish_ns", ns}}.dump();
}

std::string line_with(const std::string& text, const std::string& word) {
  const size_t at = text.find(word);
  if (at == std::string::npos) return {};
  const size_t begin = text.rfind('\n', at) + 1;
  return text.substr(begin, text.find('\n', at) - begin);
}

TEST(DemoResults, MediansOfAllRows) {
  DemoResults results(settings("snapshot", 2));
  // Rates 10, 20, 30, 400 of rollout-0 and 1; a row of 0 bytes has none.
  results.add(published(1, 5000));
  results.add(pulled(1, 0, 1000, 100, 50));
  results.add(pulled(1, 1, 1000, 50, 50));
  results.add(published(2, 3000));
  results.add(pulled(2, 0, 3000, 100, 110));
  results.add(pulled(2, 1, 4000, 10, 1000));
  results.add(published(3, 1000));
  results.add(pulled(3, 0, 0, 0, 0));
  const json report = results.to_json("", 1);
  EXPECT_DOUBLE_EQ(report["median"]["gb_per_s"], 25);
  EXPECT_DOUBLE_EQ(report["median"]["of_memcpy"], 1.05);   // of 0.5, 1, 1.1 and 100
  EXPECT_DOUBLE_EQ(report["median"]["publish_ns"], 3000);  // of 5000 twice, 3000 twice and 1000
  const std::string line = line_with(results.text(""), "median");
  for (const char* word : {"of all rows", "25.00", "1.05", "3.0 us"}) {
    EXPECT_NE(line.find(word), std::string::npos) << line;
  }
}

TEST(DemoResults, TornReadsAreRetriedOnlyIfThereAreAny) {
  for (const char* mode : {"snapshot", "inplace"}) {
    for (const uint64_t torn : {0u, 2u}) {
      DemoResults results(settings(mode, 1));
      for (uint64_t version = 1; version <= 3; ++version) {
        results.add(pulled(version, 0, 100, 10, 10, version == 3 ? torn : 0));
      }
      EXPECT_NE(results.text("").find(
                    torn == 0 ? "torn reads detected: 0; versions skipped by receivers: 0\n"
                              : "torn reads detected: 2, each discarded and retried; versions "
                                "skipped by receivers: 1\n"),
                std::string::npos)
          << results.text("");
    }
  }
}

TEST(DemoResults, TheTrainersMemoryMustHaveBeenVerified) {
  DemoSettings two = settings("snapshot", 1);
  two.trainers = 2;
  DemoResults results(two);
  for (uint64_t version = 1; version <= 3; ++version) results.add(pulled(version, 0, 9, 10, 10));
  const auto held = [](int rank, int verified) {
    return json{{"event", "verified"}, {"rank", rank}, {"verified", verified}, {"expected", 9}}
        .dump();
  };
  results.add(held(0, 9));
  EXPECT_EQ(results.fault(), "the memory of trainer-1 was not verified");
  results.add(held(1, 8));
  EXPECT_EQ(results.fault(), "the memory of trainer-1 was not verified");
  results.add(held(1, 9));
  EXPECT_EQ(results.fault(), "");
  EXPECT_EQ(results.to_json("", 1)["trainer_bytes"], 18);
}

// The reason is the one line on stderr.
TEST(DemoResults, AFailureIsNotExplainedTwice) {
  DemoResults results(settings("snapshot", 1));
  EXPECT_EQ(results.text("trainer-0 ended by signal 9"), "\nFAIL\n");
  EXPECT_EQ(results.to_json("trainer-0 ended by signal 9", 1)["failure"],
            "trainer-0 ended by signal 9");
  results.add(pulled(1, 0, 100, 10, 10));
  const std::string text = results.text("");
  EXPECT_EQ(text.substr(text.size() - 6), "\nFAIL\n");
  EXPECT_EQ(results.fault(), "rollout-0 pulled 1 versions instead of 3");
  EXPECT_EQ(text.find(results.fault()), std::string::npos);
}

}  // namespace
}  // namespace wb::cli
