#include "transport/registry.h"

#include <gtest/gtest.h>

namespace wb {
namespace {

TEST(Choose, TakesTheFirstThatReachesAndTellsAboutAll) {
  const std::vector<Candidate> candidates = {{TransportKind::kLocal, {false, "another host"}},
                                             {TransportKind::kUcx, {true, "UCX is here"}},
                                             {TransportKind::kVerbs, {true, "a card is here"}}};
  const Choice choice = choose_transport(candidates);
  EXPECT_EQ(choice.kind, TransportKind::kUcx);
  EXPECT_EQ(choice.reason,
            "local (not possible): another host; ucx (chosen): UCX is here; "
            "verbs (possible): a card is here");
}

TEST(Choose, NothingReachesMeansNothingIsChosen) {
  const std::vector<Candidate> none = {{TransportKind::kLocal, {false, "a"}},
                                       {TransportKind::kUcx, {false, "b"}}};
  EXPECT_FALSE(choose_transport(none).kind.has_value());
  EXPECT_EQ(choose_transport(none).reason, "local (not possible): a; ucx (not possible): b");
  EXPECT_FALSE(choose_transport({}).kind.has_value());
  EXPECT_FALSE(choose_transport({}).reason.empty());
}

TEST(Registry, MakesWhatItHasAndSaysWhatItLacks) {
  EXPECT_TRUE(make_domain(TransportKind::kLocal, {}).ok());
  EXPECT_TRUE(make_domain(TransportKind::kFake, {}).ok());
  DomainOptions no_verbs;
  no_verbs.verbs.library = "libibverbs-that-is-not-installed.so.1";
  const auto verbs = make_domain(TransportKind::kVerbs, no_verbs);
  ASSERT_FALSE(verbs.ok());
  EXPECT_EQ(verbs.status().code(), Code::kUnsupported);
  EXPECT_NE(verbs.status().message().find(no_verbs.verbs.library), std::string::npos);
  DomainOptions no_ucx;
  no_ucx.ucx.library = "libucp-that-is-not-installed.so.0";
  const auto ucx = make_domain(TransportKind::kUcx, no_ucx);
  ASSERT_FALSE(ucx.ok());
  EXPECT_EQ(ucx.status().code(), Code::kUnsupported);
  EXPECT_NE(ucx.status().message().find(no_ucx.ucx.library), std::string::npos);
  DomainOptions never;
  never.local.poll_bytes = 0;
  EXPECT_EQ(make_domain(TransportKind::kLocal, never).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace wb
