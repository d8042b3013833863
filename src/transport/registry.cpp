#include "transport/registry.h"

#include <arpa/inet.h>

#include "transport/fake/domain.h"
#include "transport/local/domain.h"
#include "transport/ucx/domain.h"
#include "transport/verbs/domain.h"

namespace wb {

std::string_view transport_name(TransportKind kind) {
  switch (kind) {
    case TransportKind::kLocal:
      return "local";
    case TransportKind::kUcx:
      return "ucx";
    case TransportKind::kVerbs:
      return "verbs";
    case TransportKind::kFake:
      return "fake";
  }
  return "unknown";
}

bool loopback_host(const std::string& host) {
  in_addr four{};
  if (inet_pton(AF_INET, host.c_str(), &four) == 1) return ntohl(four.s_addr) >> 24 == 127;
  in6_addr six{};
  if (inet_pton(AF_INET6, host.c_str(), &six) == 1) return IN6_IS_ADDR_LOOPBACK(&six);
  return host == "localhost";
}

Result<std::unique_ptr<Domain>> make_domain(TransportKind kind, const DomainOptions& options) {
  switch (kind) {
    case TransportKind::kLocal:
      return local::LocalDomain::make(options);
    case TransportKind::kUcx:
      return ucx::UcxDomain::make(options);
    case TransportKind::kVerbs:
      return verbs::VerbsDomain::make(options);
    case TransportKind::kFake:
      return fake::make_domain(options);
  }
  return Status(Code::kInvalidArgument, "there is no such transport");
}

Choice choose_transport(std::span<const Candidate> candidates) {
  Choice choice;
  for (const Candidate& candidate : candidates) {
    const bool taken = candidate.reach.reachable && !choice.kind.has_value();
    if (taken) choice.kind = candidate.kind;
    if (!choice.reason.empty()) choice.reason += "; ";
    choice.reason += std::string(transport_name(candidate.kind)) +
                     (taken                       ? " (chosen): "
                      : candidate.reach.reachable ? " (possible): "
                                                  : " (not possible): ") +
                     candidate.reach.reason;
  }
  if (candidates.empty()) choice.reason = "no transport is allowed";
  return choice;
}

}  // namespace wb
