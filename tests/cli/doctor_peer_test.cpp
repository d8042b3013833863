// Two doctors in one process: the offer on the wire, and real reads with every byte checked.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "cli/doctor/offer.h"
#include "cli/doctor/peer.h"

namespace wb::cli::doctor {
namespace {

Offer some_offer() {
  Offer offer;
  offer.host = "node-7";
  offer.bytes = 4 * kOfferUnit;
  offer.seed = 0x1234567890abcdef;
  offer.transports = {{TransportKind::kLocal, "", "address", "key"},
                      {TransportKind::kVerbs, "no usable RDMA port", "", ""}};
  return offer;
}

TEST(DoctorOffer, TravelsWhole) {
  const auto offer = decode_offer(encode_offer(some_offer()));
  ASSERT_TRUE(offer.ok()) << offer.status().to_string();
  EXPECT_EQ(offer->host, "node-7");
  EXPECT_EQ(offer->bytes, 4 * kOfferUnit);
  EXPECT_EQ(offer->seed, 0x1234567890abcdefu);
  ASSERT_EQ(offer->transports.size(), 2u);
  EXPECT_EQ(offer->transports[0].key, "key");
  EXPECT_EQ(offer->transports[1].kind, TransportKind::kVerbs);
  EXPECT_EQ(offer->transports[1].error, "no usable RDMA port");
}

TEST(DoctorOffer, TruncatedOrLengthenedIsRefused) {
  const std::string whole = encode_offer(some_offer());
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_EQ(decode_offer(whole.substr(0, length)).status().code(), Code::kBadData) << length;
  }
  EXPECT_EQ(decode_offer(whole + "x").status().code(), Code::kBadData);
}

TEST(DoctorOffer, SizesThatCannotBeAreRefused) {
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{4096}, kOfferMost + kOfferUnit, UINT64_MAX}) {
    Offer offer = some_offer();
    offer.bytes = bytes;
    EXPECT_EQ(decode_offer(encode_offer(offer)).status().code(), Code::kBadData) << bytes;
  }
  Offer crowd = some_offer();
  crowd.transports.resize(17);
  EXPECT_EQ(decode_offer(encode_offer(crowd)).status().code(), Code::kBadData);
}

PeerOptions reader_of(const PeerService& service) {
  PeerOptions options;
  options.peer = service.address();
  options.token = "a-token-for-tests";
  options.deadline = Deadline::after(std::chrono::seconds(20));
  return options;
}

std::unique_ptr<PeerService> serve(uint64_t bytes = 3u << 20) {
  ServeOptions options;
  options.token = "a-token-for-tests";
  options.bytes = bytes;
  auto service = PeerService::start(options);
  EXPECT_TRUE(service.ok()) << service.status().to_string();
  return service.ok() ? std::move(service).value() : nullptr;
}

TEST(DoctorPeer, ReadsEveryByteLocally) {
  const auto service = serve();
  ASSERT_NE(service, nullptr);
  PeerOptions options = reader_of(*service);
  options.transport = TransportKind::kLocal;
  const auto result = try_peer(options);
  ASSERT_TRUE(result.ok()) << result.status().to_string();
  EXPECT_TRUE(result->status.ok()) << result->status.to_string();
  EXPECT_FALSE(result->wrong_bytes);
  ASSERT_EQ(result->findings.size(), 1u);
  EXPECT_EQ(result->findings[0].verdict, Verdict::kOk);
  EXPECT_NE(result->findings[0].text.find("every byte checked"), std::string::npos);
  EXPECT_TRUE(service->close(Deadline::after(std::chrono::seconds(5))).ok());
}

TEST(DoctorPeer, ATransportThatIsNotThereIsNamed) {
  const auto service = serve();
  ASSERT_NE(service, nullptr);
  PeerOptions options = reader_of(*service);
  options.transport = TransportKind::kFake;  // never offered
  const auto result = try_peer(options);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->status.code(), Code::kUnavailable);
}

TEST(DoctorPeer, AWrongTokenIsRefused) {
  const auto service = serve();
  ASSERT_NE(service, nullptr);
  PeerOptions options = reader_of(*service);
  options.token = "another-token";
  EXPECT_EQ(try_peer(options).status().code(), Code::kUnauthenticated);
}

TEST(DoctorPeer, NobodyThere) {
  std::string address;
  {
    const auto service = serve();
    ASSERT_NE(service, nullptr);
    address = service->address();
  }
  PeerOptions options;
  options.peer = address;
  options.token = "a-token-for-tests";
  options.deadline = Deadline::after(std::chrono::seconds(5));
  EXPECT_EQ(try_peer(options).status().code(), Code::kUnavailable);
}

TEST(DoctorPeer, OddSizesBecomeWholeMebibytesAndNoneIsRefused) {
  ServeOptions options;
  options.token = "a-token-for-tests";
  options.bytes = 0;
  EXPECT_EQ(PeerService::start(options).status().code(), Code::kInvalidArgument);
  const auto service = serve((1u << 20) + 1);
  ASSERT_NE(service, nullptr);
  PeerOptions reader = reader_of(*service);
  reader.transport = TransportKind::kLocal;
  const auto result = try_peer(reader);
  ASSERT_TRUE(result.ok());
  EXPECT_NE(result->findings[0].text.find("2.1 MB"), std::string::npos) << result->findings[0].text;
}

}  // namespace
}  // namespace wb::cli::doctor
