#include "layout/spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>

namespace wb {
namespace {

using ::testing::HasSubstr;

std::string refusal(std::string_view text) {
  const auto spec = parse_spec(text);
  if (spec.ok()) return "accepted";
  EXPECT_EQ(spec.status().code(), Code::kInvalidArgument) << text;
  return spec.status().message();
}

TEST(Spec, AbsentKeysAreOne) {
  const Spec spec = *parse_spec("megatron:tp=2,pp=4");
  EXPECT_EQ(spec.framework, Framework::kMegatron);
  EXPECT_EQ(spec.tp, 2u);
  EXPECT_EQ(spec.pp, 4u);
  EXPECT_EQ(spec.dp, 1u);
  EXPECT_EQ(spec.ep, 0u) << "off";
  EXPECT_EQ(spec.etp, 0u) << "as tp";
  EXPECT_EQ(spec.world(), 8u);
  EXPECT_EQ(parse_spec("replicated")->world(), 1u);
  EXPECT_EQ(parse_spec("fsdp:")->world(), 1u);
}

TEST(Spec, WorldIsTheProductOfWhatSeparatesRanks) {
  EXPECT_EQ(parse_spec("megatron:tp=2,pp=3,vpp=5,dp=7,cp=11,ep=7,etp=2")->world(), 462u);
  EXPECT_EQ(parse_spec("fsdp:shards=3,replicas=2,flat=1")->world(), 6u);
  EXPECT_EQ(parse_spec("vllm:tp=2,pp=2,dp=3,ep=6,engines=5")->world(), 60u);
  EXPECT_EQ(parse_spec("replicated:n=3")->world(), 3u);
}

TEST(Spec, ListsOfLayersGoByStageOrByChunk) {
  EXPECT_EQ(parse_spec("megatron:pp=4,layers=15/16/16/14")->layers,
            (std::vector<uint32_t>{15, 16, 16, 14}));
  EXPECT_EQ(parse_spec("megatron:pp=2,vpp=2,layers=1/0/3/4")->layers.size(), 4u);
  EXPECT_THAT(refusal("megatron:pp=2,layers=1/2/3"), HasSubstr("pp = 2"));
  EXPECT_THAT(refusal("megatron:pp=2,vpp=2,layers=1/2"), HasSubstr("needs 4"));
  EXPECT_THAT(refusal("megatron:pp=2,layers=1/x"), HasSubstr("'x'"));
  EXPECT_THAT(refusal("megatron:pp=2,layers=1/"), HasSubstr("''"));
  EXPECT_THAT(refusal("vllm:pp=2,layers=1/1"), HasSubstr("no key 'layers'"));
}

TEST(Spec, ErrorsNameTheWordAndSayWhatIsRight) {
  EXPECT_THAT(refusal(""), HasSubstr("known: megatron, fsdp, vllm, replicated"));
  EXPECT_THAT(refusal("deepspeed:zero=3"), HasSubstr("unknown framework 'deepspeed'"));
  EXPECT_THAT(refusal("vllm:tpp=2"), HasSubstr("'tpp'; its keys: tp, pp, dp, ep, engines"));
  EXPECT_THAT(refusal("fsdp:tp=2"), HasSubstr("its keys: shards, replicas, flat"));
  EXPECT_THAT(refusal("vllm:tp"), HasSubstr("'tp' is not key=value"));
  EXPECT_THAT(refusal("vllm:tp=2,"), HasSubstr("comma at the end"));
  EXPECT_THAT(refusal("vllm:,tp=2"), HasSubstr("'' is not key=value"));
  EXPECT_THAT(refusal("vllm:tp=2,tp=2"), HasSubstr("'tp' is given twice"));
  EXPECT_THAT(refusal("fsdp:flat=2"), HasSubstr("neither 0 nor 1"));
  EXPECT_THAT(refusal("vllm:ep=0"), HasSubstr("leave ep out"));
  for (const char* value :
       {"", "0", "-1", "+2", "1.5", "65537", "99999999999999999999", "0x10", "02", " 2", "two"}) {
    EXPECT_THAT(refusal("vllm:tp=" + std::string(value)), HasSubstr("from 1 to 65536")) << value;
  }
  EXPECT_THAT(refusal("vllm:\x01\n=2"), HasSubstr("'?\?'")) << "printable";
  EXPECT_LT(refusal("vllm:" + std::string(10000, 'x') + "=1").size(), 200u);
  EXPECT_THAT(refusal(std::string(100000, 'x')), HasSubstr("65536 characters"));
}

TEST(Spec, GroupsMustFitTogether) {
  EXPECT_EQ(refusal("megatron:tp=4,dp=2,ep=2"), "accepted");
  EXPECT_THAT(refusal("megatron:tp=2,ep=3"), HasSubstr("ep*etp = 3*2 does not divide"));
  EXPECT_EQ(refusal("megatron:tp=2,dp=3,ep=3"), "accepted");
  EXPECT_EQ(refusal("megatron:tp=2,cp=2,ep=4,etp=1"), "accepted");
  EXPECT_THAT(refusal("megatron:vpp=2"), HasSubstr("needs pp of 2 or more"));
  EXPECT_THAT(refusal("vllm:tp=2,dp=2,ep=2"), HasSubstr("write ep=4"));
  EXPECT_THAT(refusal("vllm:tp=65536,pp=65536,dp=65536,engines=65536"), HasSubstr("1048576"));
  EXPECT_EQ(refusal("fsdp:shards=65536,replicas=16"), "accepted");
  EXPECT_THAT(refusal("fsdp:shards=65536,replicas=17"), HasSubstr("1048576"));
}

TEST(Spec, AFilledInSpecIsCheckedToo) {
  Spec spec;
  spec.framework = Framework::kVllm;
  spec.shards = 2;
  EXPECT_THAT(spec.check().message(), HasSubstr("no key 'shards'"));
  spec.shards = 1;
  spec.tp = 0;
  EXPECT_FALSE(spec.check().ok());
  spec.tp = 70000;
  EXPECT_FALSE(spec.check().ok());
  spec.tp = 2;
  spec.flat = true;
  EXPECT_FALSE(spec.check().ok());
  spec.flat = false;
  EXPECT_TRUE(spec.check().ok());
  spec.framework = static_cast<Framework>(9);
  EXPECT_FALSE(spec.check().ok());
}

rc::Gen<uint32_t> factor() { return rc::gen::element<uint32_t>(1, 2, 3, 4, 8); }

rc::Gen<Spec> any_spec() {
  return rc::gen::suchThat(rc::gen::exec([] {
                             Spec spec;
                             spec.framework =
                                 *rc::gen::element(Framework::kMegatron, Framework::kFsdp,
                                                   Framework::kVllm, Framework::kReplicated);
                             switch (spec.framework) {
                               case Framework::kMegatron:
                                 spec.tp = *factor();
                                 spec.pp = *factor();
                                 spec.vpp = spec.pp > 1 ? *factor() : 1;
                                 spec.dp = *factor();
                                 spec.cp = *factor();
                                 spec.ep = *rc::gen::element<uint32_t>(0, 1, 2, 4);
                                 spec.etp = *rc::gen::element<uint32_t>(0, 1, 2);
                                 if (*rc::gen::arbitrary<bool>()) {
                                   spec.layers = *rc::gen::container<std::vector<uint32_t>>(
                                       spec.pp * spec.vpp, rc::gen::inRange<uint32_t>(0, 100));
                                 }
                                 break;
                               case Framework::kFsdp:
                                 spec.shards = *factor();
                                 spec.replicas = *factor();
                                 spec.flat = *rc::gen::arbitrary<bool>();
                                 break;
                               case Framework::kVllm:
                                 spec.tp = *factor();
                                 spec.pp = *factor();
                                 spec.dp = *factor();
                                 spec.engines = *factor();
                                 spec.ep = *rc::gen::arbitrary<bool>() ? spec.tp * spec.dp : 0;
                                 break;
                               case Framework::kReplicated:
                                 spec.n = *factor();
                                 break;
                             }
                             return spec;
                           }),
                           [](const Spec& spec) { return spec.check().ok(); });
}

TEST(Spec, CanonicalTextParsesToTheSame) {
  EXPECT_TRUE(rc::check([] {
    const Spec spec = *any_spec();
    const auto again = parse_spec(spec.to_string());
    RC_ASSERT(again.ok());
    RC_ASSERT(*again == spec);
    RC_ASSERT(again->to_string() == spec.to_string());
  }));
}

// Whatever the text: an error with a sentence, or a SPEC that passes its own check.
TEST(Spec, DamagedTextNeverMakesABadSpec) {
  EXPECT_TRUE(rc::check([] {
    std::string text = (*any_spec()).to_string();
    const int edits = *rc::gen::inRange(0, 4);
    for (int i = 0; i < edits; ++i) {
      const size_t at = *rc::gen::inRange<size_t>(0, text.size() + 1);
      const char c = *rc::gen::oneOf(rc::gen::element(',', '=', ':', '/', '0', '9', 't', 'p'),
                                     rc::gen::arbitrary<char>());
      if (*rc::gen::arbitrary<bool>() || at == text.size()) {
        text.insert(at, 1, c);
      } else {
        text.erase(at, *rc::gen::inRange<size_t>(1, 4));
      }
    }
    const auto spec = parse_spec(text);
    if (!spec.ok()) {
      RC_ASSERT(spec.status().code() == Code::kInvalidArgument);
      RC_ASSERT(!spec.status().message().empty());
      return;
    }
    RC_ASSERT(spec->check().ok());
    RC_ASSERT(*parse_spec(spec->to_string()) == *spec);
  }));
}

}  // namespace
}  // namespace wb
