#include <unistd.h>

#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "cli/doctor/findings.h"
#include "cli/doctor/offer.h"
#include "cli/doctor/peer.h"
#include "control/peer.h"
#include "memory/allocation.h"
#include "session/exchange.h"
#include "session/progress_thread.h"
#include "transport/registry.h"

namespace wb::cli::doctor {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

class Service final : public PeerService {
 public:
  ~Service() override {
    // A server that still runs could call into the domains.
    if (server_ != nullptr) (void)server_->close(Deadline::after(std::chrono::seconds(3)));
  }

  Status start(const ServeOptions& options) {
    Offer offer;
    offer.host = host_name();
    offer.bytes = (options.bytes + kOfferUnit - 1) / kOfferUnit * kOfferUnit;
    if (options.bytes == 0 || offer.bytes > kOfferMost) {
      return Status(Code::kInvalidArgument, "the test memory is of 1 byte to 64 GiB");
    }
    offer.seed = random_id().low;
    WB_ASSIGN_OR_RETURN(const auto memory,
                        Allocation::shared(offer.bytes, {.name = "weightbridge-doctor"}));
    auto* const words = reinterpret_cast<uint64_t*>(memory->data());
    for (uint64_t i = 0; i < offer.bytes / sizeof(uint64_t); ++i) {
      words[i] = offer_word(offer.seed, i);
    }

    PeerServerOptions server;
    server.host = options.host;
    server.port = options.port;
    server.token = options.token;
    for (const TransportKind kind :
         {TransportKind::kLocal, TransportKind::kUcx, TransportKind::kVerbs}) {
      OfferedTransport offered = add(kind, options, memory);
      const std::string subject = "serve " + std::string(transport_name(kind));
      if (offered.error.empty()) {
        ok(&findings_, subject, "offered");
        Domain* const domain = domains_.back().get();
        server.topics[exchange_topic(kind)] = [domain](std::string_view payload) {
          return domain->handle_exchange(payload);
        };
      } else {
        note(&findings_, subject, offered.error, "see the doctor's other lines on this machine");
      }
      offer.transports.push_back(std::move(offered));
    }
    server.topics[std::string(kOfferTopic)] =
        [message = encode_offer(offer)](std::string_view) -> Result<std::string> {
      return message;
    };
    WB_ASSIGN_OR_RETURN(server_, PeerServer::listen(std::move(server)));
    return {};
  }

  std::string address() const override { return server_->address(); }
  const Findings& findings() const override { return findings_; }
  Status close(Deadline deadline) override { return server_->close(deadline); }

 private:
  OfferedTransport add(TransportKind kind, const ServeOptions& serve,
                       const std::shared_ptr<Allocation>& memory) {
    OfferedTransport offered;
    offered.kind = kind;
    DomainOptions options;
    options.host = serve.host;
    options.verbs = serve.verbs;
    auto domain = make_domain(kind, options);
    Status status = domain.status();
    if (status.ok()) {
      auto region = (*domain)->register_region(memory, Access::kRemoteRead);
      status = region.status();
      if (status.ok()) {
        auto key = (*domain)->export_key(*region);
        status = key.status();
        if (status.ok()) offered.key = std::move(key).value();
      }
    }
    if (!status.ok()) {
      offered.error = status.message();
      return offered;
    }
    offered.address = (*domain)->address();
    domains_.push_back(std::move(domain).value());
    auto helper = ProgressThread::start_if_needed(domains_.back().get());
    if (!helper.ok()) {
      offered.error = helper.status().message();
    } else if (*helper != nullptr) {
      helpers_.push_back(std::move(helper).value());
    }
    return offered;
  }

  Findings findings_;
  std::vector<std::unique_ptr<Domain>> domains_;
  std::vector<std::unique_ptr<ProgressThread>> helpers_;  // go before the domains they help
  std::unique_ptr<PeerServer> server_;
};

}  // namespace

Result<std::unique_ptr<PeerService>> PeerService::start(const ServeOptions& options) {
  auto service = std::make_unique<Service>();
  WB_RETURN_IF_ERROR(service->start(options));
  return std::unique_ptr<PeerService>(std::move(service));
}

}  // namespace wb::cli::doctor
