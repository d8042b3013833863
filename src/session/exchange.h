// How a transport's connection blobs reach the peer: topics of its endpoint.
#pragma once

#include <memory>
#include <string>

#include "control/peer.h"
#include "transport/transport.h"

namespace wb {

inline constexpr std::string_view kManifestTopic = "manifest";

// "exchange/local"
inline std::string exchange_topic(TransportKind kind) {
  return "exchange/" + std::string(transport_name(kind));
}

class PeerExchange final : public Exchange {
 public:
  PeerExchange(std::string address, std::string token, TransportKind kind)
      : address_(std::move(address)), token_(std::move(token)), topic_(exchange_topic(kind)) {}
  Result<std::string> call(std::string_view payload, Deadline deadline) override {
    return peer_call(address_, token_, topic_, payload, deadline);
  }

 private:
  const std::string address_;
  const std::string token_;
  const std::string topic_;
};

}  // namespace wb
