#include "base/status.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <set>

namespace wb {
namespace {

TEST(Status, EveryCodeHasItsOwnName) {
  std::set<std::string_view> names;
  for (int code = 0; code <= static_cast<int>(Code::kInternal); ++code) {
    names.insert(code_name(static_cast<Code>(code)));
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(Code::kInternal) + 1);
  EXPECT_EQ(code_name(Code::kNoMemory), "no_memory");
  EXPECT_EQ(code_name(Code::kGenerationChanged), "generation_changed");
  EXPECT_EQ(code_name(static_cast<Code>(9999)), "internal") << "an unknown value does not crash";
}

TEST(Status, OneLineWithFacts) {
  EXPECT_EQ(Status().to_string(), "ok");
  const Status status = Status(Code::kPeerLost, "reading from trainer-2 failed")
                            .with_peer("trainer-2")
                            .with_tensor("lm_head.weight")
                            .with_vendor(-3);
  EXPECT_EQ(status.to_string(),
            "peer_lost: reading from trainer-2 failed (peer trainer-2, tensor lm_head.weight, "
            "vendor status -3)");
  EXPECT_TRUE(status.retryable());
}

TEST(Status, ErrnoBecomesTheNearestCode) {
  EXPECT_EQ(errno_status(EPERM, "x").code(), Code::kPermission);
  EXPECT_EQ(errno_status(ENOMEM, "x").code(), Code::kNoMemory);
  EXPECT_EQ(errno_status(EADDRINUSE, "x").code(), Code::kBusy);
  EXPECT_EQ(errno_status(EIO, "x").code(), Code::kIo);
  EXPECT_EQ(errno_status(EIO, "x").facts().sys_errno, EIO);
}

Result<std::unique_ptr<int>> half(int value) {
  if (value % 2 != 0) return Status(Code::kInvalidArgument, "odd");
  return std::make_unique<int>(value / 2);
}

Status quarter(int value, int* out) {
  WB_ASSIGN_OR_RETURN(const auto once, half(value));
  WB_ASSIGN_OR_RETURN(const auto twice, half(*once));
  *out = *twice;
  return Status();
}

TEST(Result, MacrosMoveValuesAndPassErrors) {
  int out = 0;
  EXPECT_TRUE(quarter(12, &out).ok());
  EXPECT_EQ(out, 3);
  EXPECT_EQ(quarter(6, &out).code(), Code::kInvalidArgument);
}

TEST(Result, OkWithoutAValueIsAnError) {
  const Result<int> result{Status()};
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), Code::kInternal);
}

}  // namespace
}  // namespace wb
