#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "cli/doctor/findings.h"
#include "cli/doctor/offer.h"
#include "cli/doctor/peer.h"
#include "cli/host_port.h"
#include "cli/reporter.h"
#include "control/peer.h"
#include "memory/allocation.h"
#include "plan/read_list.h"
#include "session/exchange.h"
#include "transport/registry.h"

namespace wb::cli::doctor {
namespace {

using Clock = Deadline::Clock;

constexpr uint64_t kRow = 4096;
constexpr int kWordReads = 33;
constexpr std::chrono::seconds kAbortWait{5};

double seconds_since(Clock::time_point begun) {
  return std::chrono::duration<double>(Clock::now() - begun).count();
}

// Everything in parts of a MiB, and every other 4 KiB as the rows of one run.
ReadList whole(uint64_t bytes) {
  ReadList list;
  for (uint64_t at = 0; at < bytes; at += kOfferUnit) {
    list.runs.push_back({.remote_offset = at, .local_offset = at, .length = kOfferUnit});
  }
  list.bytes = bytes;
  list.reads = list.runs.size();
  return list;
}
ReadList rows(uint64_t bytes) {
  const uint64_t count = bytes / (2 * kRow);
  ReadList list;
  list.runs.push_back(
      {.length = kRow, .count = count, .remote_pitch = 2 * kRow, .local_pitch = kRow});
  list.bytes = count * kRow;
  list.reads = count;
  return list;
}

// Byte of the first wrong word of `list` in local memory.
std::optional<uint64_t> first_wrong(const ReadList& list, const std::byte* local, uint64_t seed) {
  for (const Run& run : list.runs) {
    for (uint64_t row = 0; row < run.count; ++row) {
      const uint64_t remote = run.remote_offset + row * static_cast<uint64_t>(run.remote_pitch);
      const std::byte* here =
          local + run.local_offset + row * static_cast<uint64_t>(run.local_pitch);
      for (uint64_t at = 0; at < run.length; at += sizeof(uint64_t)) {
        uint64_t word = 0;
        std::memcpy(&word, here + at, sizeof word);
        if (word != offer_word(seed, (remote + at) / sizeof word)) return remote + at;
      }
    }
  }
  return std::nullopt;
}

struct Measured {
  std::string mechanism;
  double whole_seconds = 0, row_seconds = 0, word_seconds = 0;
};

// One transport against one offer.
class Trial {
 public:
  Trial(const PeerOptions& options, const Offer& offer, const OfferedTransport& offered)
      : options_(options), offer_(offer), offered_(offered) {}

  // kMismatch for wrong bytes of a READ that reported success.
  Status run(Measured* measured) {
    DomainOptions domain_options;
    WB_ASSIGN_OR_RETURN(const HostPort peer, parse_host_port("--peer", options_.peer));
    // A doctor that reads serves nobody: it needs an address only to know whether all is on one
    // host.
    domain_options.host = loopback_host(peer.host) ? "127.0.0.1" : "0.0.0.0";
    domain_options.verbs = options_.verbs;
    WB_ASSIGN_OR_RETURN(domain_, make_domain(offered_.kind, domain_options));
    if (!offered_.error.empty()) {
      return Status(Code::kUnsupported, "the peer does not offer it: " + offered_.error);
    }
    const Reach reach = domain_->reach(offered_.address);
    if (!reach.reachable) return Status(Code::kUnavailable, reach.reason);
    WB_ASSIGN_OR_RETURN(memory_, Allocation::host(offer_.bytes, {.name = "weightbridge-doctor"}));
    WB_ASSIGN_OR_RETURN(const RegionId region,
                        domain_->register_region(memory_, Access::kLocalTarget));
    WB_ASSIGN_OR_RETURN(
        connection_, domain_->connect(offered_.address,
                                      std::make_unique<PeerExchange>(options_.peer, options_.token,
                                                                     offered_.kind),
                                      options_.deadline));
    WB_ASSIGN_OR_RETURN(const RemoteRegion remote,
                        connection_->import_region(offered_.key, options_.deadline));
    WB_RETURN_IF_ERROR(read(whole(offer_.bytes), remote, region, &measured->whole_seconds));
    WB_RETURN_IF_ERROR(read(rows(offer_.bytes), remote, region, &measured->row_seconds));
    WB_RETURN_IF_ERROR(read_words(remote, &measured->word_seconds));
    measured->mechanism = connection_->mechanism();
    return {};
  }

 private:
  Status read(const ReadList& list, RemoteRegion remote, RegionId local, double* seconds) {
    std::memset(memory_->data(), 0xa5, memory_->bytes());  // nothing of an earlier read can pass
    WB_ASSIGN_OR_RETURN(auto job,
                        connection_->prepare(list, std::span(&remote, 1), std::span(&local, 1)));
    const auto begun = Clock::now();
    WB_RETURN_IF_ERROR(connection_->post(*job));
    JobState state = JobState::kActive;
    while ((state = connection_->poll(*job)) == JobState::kActive) {
      if (!options_.deadline.expired()) continue;
      const std::string done = human_bytes(static_cast<double>(job->bytes_done()));
      WB_RETURN_IF_ERROR(connection_->abort(*job, Deadline::after(kAbortWait)));
      return Status(Code::kDeadline, "only " + done + " came in time");
    }
    if (state != JobState::kDone) return job->status();
    *seconds = seconds_since(begun);
    if (const auto wrong = first_wrong(list, memory_->data(), offer_.seed)) {
      return Status(Code::kMismatch,
                    "the READ reported success, but byte " + std::to_string(*wrong) + " is wrong");
    }
    return {};
  }

  Status read_words(RemoteRegion remote, double* seconds) {
    std::array<double, kWordReads> times{};
    for (double& time : times) {
      std::array<uint64_t, 8> words{};
      const auto begun = Clock::now();
      WB_RETURN_IF_ERROR(connection_->read_words(remote, kRow, words, options_.deadline));
      time = seconds_since(begun);
      for (size_t i = 0; i < words.size(); ++i) {
        if (words[i] != offer_word(offer_.seed, kRow / sizeof(uint64_t) + i)) {
          return Status(Code::kMismatch, "a word that was read alone is wrong");
        }
      }
    }
    std::nth_element(times.begin(), times.begin() + kWordReads / 2, times.end());
    *seconds = times[kWordReads / 2];
    return {};
  }

  const PeerOptions& options_;
  const Offer& offer_;
  const OfferedTransport& offered_;
  std::unique_ptr<Domain> domain_;
  std::shared_ptr<Allocation> memory_;
  std::unique_ptr<Connection> connection_;  // goes before its domain
};

std::string describe(const Offer& offer, const Measured& measured) {
  const auto rate = [](uint64_t bytes, double seconds) {
    return human_bytes(static_cast<double>(bytes) / std::max(seconds, 1e-9)) + "/s";
  };
  return fmt::format(
      "{}: {} of {} read and every byte checked, {}; rows of 4 KiB {}; 64 bytes in {}",
      measured.mechanism, human_bytes(static_cast<double>(offer.bytes)), offer.host,
      rate(offer.bytes, measured.whole_seconds), rate(offer.bytes / 2, measured.row_seconds),
      human_time(measured.word_seconds * 1e9));
}

constexpr char kReachCure[] =
    "see this line's reason; the doctor on each of the two machines names what stops it";

}  // namespace

Result<PeerResult> try_peer(const PeerOptions& options) {
  WB_ASSIGN_OR_RETURN(const std::string answer,
                      peer_call(options.peer, options.token, kOfferTopic, "", options.deadline));
  WB_ASSIGN_OR_RETURN(const Offer offer, decode_offer(answer));
  PeerResult result;
  result.status = Status(Code::kUnavailable, "the peer offers no transport of this build");
  bool read = false;
  for (const OfferedTransport& offered : offer.transports) {
    if (options.transport && offered.kind != *options.transport) continue;
    const std::string subject = "peer " + std::string(transport_name(offered.kind));
    Measured measured;
    Status status = Trial(options, offer, offered).run(&measured);
    if (status.ok()) {
      ok(&result.findings, subject, describe(offer, measured));
      read = true;
      continue;
    }
    if (status.code() == Code::kMismatch) {
      result.wrong_bytes = true;
      problem(&result.findings, subject, status.message(),
              "do not use this transport between these machines, and report it: this must never "
              "happen");
    } else {
      missing(&result.findings, options.transport.has_value(), subject, status.to_string(),
              kReachCure);
    }
    result.status = std::move(status);
  }
  if (read && !result.wrong_bytes) result.status = {};
  if (!read && !options.transport) {
    problem(&result.findings, "peer", "no transport can read from " + offer.host, kReachCure);
  }
  return result;
}

}  // namespace wb::cli::doctor
