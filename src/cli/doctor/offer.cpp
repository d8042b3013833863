#include "cli/doctor/offer.h"

#include "transport/codec.h"

namespace wb::cli::doctor {
namespace {

constexpr uint32_t kTag = 0x31646277;  // "wbd1"
constexpr size_t kMaxText = 4096;
constexpr size_t kMaxBlob = 1u << 20;
constexpr uint32_t kMaxTransports = 16;

}  // namespace

std::string encode_offer(const Offer& offer) {
  MessageWriter out(kTag);
  out.put(offer.host).put(offer.bytes).put(offer.seed);
  out.put(static_cast<uint32_t>(offer.transports.size()));
  for (const OfferedTransport& transport : offer.transports) {
    out.put(static_cast<uint8_t>(transport.kind))
        .put(transport.error)
        .put(transport.address)
        .put(transport.key);
  }
  return out.take();
}

Result<Offer> decode_offer(std::string_view bytes) {
  MessageReader in(bytes, kTag, "a doctor's offer");
  Offer offer;
  uint32_t count = 0;
  in.get(offer.host, kMaxText).get(offer.bytes).get(offer.seed).get(count);
  for (uint32_t i = 0; i < count && i < kMaxTransports; ++i) {
    OfferedTransport transport;
    uint8_t kind = 0;
    in.get(kind)
        .get(transport.error, kMaxText)
        .get(transport.address, kMaxBlob)
        .get(transport.key, kMaxBlob);
    transport.kind = static_cast<TransportKind>(kind);
    offer.transports.push_back(std::move(transport));
  }
  WB_RETURN_IF_ERROR(in.end());
  if (offer.bytes == 0 || offer.bytes % kOfferUnit != 0 || offer.bytes > kOfferMost) {
    return Status(Code::kBadData,
                  "a doctor's offer: its memory is of " + std::to_string(offer.bytes) + " bytes");
  }
  return offer;
}

}  // namespace wb::cli::doctor
