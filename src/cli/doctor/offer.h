// What a doctor that serves tells one that reads: where its test memory is, per transport, and how
// its bytes are made, so that the reader can check each of them without asking again.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "transport/transport.h"

namespace wb::cli::doctor {

inline constexpr std::string_view kOfferTopic = "doctor";

struct OfferedTransport {
  TransportKind kind = TransportKind::kLocal;
  std::string error;  // why it is not offered; then the rest is empty
  std::string address;
  std::string key;
};

struct Offer {
  std::string host;    // name of the machine that serves
  uint64_t bytes = 0;  // of the memory; a multiple of kOfferUnit
  uint64_t seed = 0;   // word i of the memory is offer_word(seed, i)
  std::vector<OfferedTransport> transports;
};
inline constexpr uint64_t kOfferUnit = 1u << 20;
inline constexpr uint64_t kOfferMost = uint64_t{1} << 36;

std::string encode_offer(const Offer& offer);
Result<Offer> decode_offer(std::string_view bytes);

// SplitMix64: no two places look alike, whatever the seed.
inline uint64_t offer_word(uint64_t seed, uint64_t index) {
  uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace wb::cli::doctor
