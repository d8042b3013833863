#include "cli/exit_code.h"

#include <gtest/gtest.h>

namespace wb::cli {
namespace {

constexpr int kFirst = static_cast<int>(Code::kInvalidArgument);
constexpr int kLast = static_cast<int>(Code::kInternal);

TEST(ExitCode, EveryErrorHasACodeAndAHint) {
  for (int value = kFirst; value <= kLast; ++value) {
    const Code code = static_cast<Code>(value);
    EXPECT_NE(exit_code(code), kExitOk) << code_name(code);
    EXPECT_FALSE(hint(code).empty()) << code_name(code);
  }
  EXPECT_EQ(exit_code(Code::kOk), kExitOk);
  EXPECT_TRUE(hint(Code::kOk).empty());
}

// Pull prints it, and has no --mode of its own.
TEST(ExitCode, TheHintsOfTornReadsSpeakOfTheTrainers) {
  for (const Code code : {Code::kStarved, Code::kTorn}) {
    EXPECT_NE(hint(code).find("trainers with `publish --mode snapshot`"), std::string_view::npos);
  }
}

std::string written(const Status& status, int* exit) {
  testing::internal::CaptureStderr();
  *exit = fail("pull", status);
  return testing::internal::GetCapturedStderr();
}

TEST(ExitCode, AFailureIsOneLine) {
  for (int value = kFirst; value <= kLast; ++value) {
    const Code code = static_cast<Code>(value);
    int exit = 0;
    const std::string line = written(Status(code, "a\nb\x1b c"), &exit);
    EXPECT_EQ(exit, exit_code(code));
    EXPECT_EQ(line, "weightbridge pull: " + std::string(code_name(code)) +
                        ": a b? c (hint: " + std::string(hint(code)) + ")\n");
  }
}

}  // namespace
}  // namespace wb::cli
