#include "session/job.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>
#include <string_view>
#include <thread>

#include "base/split.h"
#include "control/membership.h"
#include "session/job_internal.h"
#include "transport/registry.h"

namespace wb {
namespace {

constexpr std::string_view kEmbed = "embed:";
constexpr std::chrono::seconds kStoreStarts{5};
constexpr std::chrono::milliseconds kTryAgain{100};

class JobImpl final : public JobInternal, public std::enable_shared_from_this<JobImpl> {
 public:
  explicit JobImpl(JobOptions options) : options_(std::move(options)) {}

  Status open_store(Deadline deadline) {
    WB_ASSIGN_OR_RETURN(verbs_, parse_verbs_options(options_.verbs));
    StoreOptions store;
    store.token = options_.token;
    store.user = options_.etcd_user;
    store.password = options_.etcd_password;
    store.ca_file = options_.ca_file;
    if (std::string_view(options_.store).substr(0, kEmbed.size()) == kEmbed) {
      WB_ASSIGN_OR_RETURN(
          server_, StoreServer::listen(std::string_view(options_.store).substr(kEmbed.size()),
                                       options_.token));
      store_url_ = server_->endpoint();
      store.endpoints = {store_url_};
    } else {
      store_url_ = options_.store;
      store.endpoints = split_commas(options_.store);
    }
    return connect_store(store, deadline);
  }

  // All processes of a job are often started together: a store that is not there yet is given a
  // moment, one that refuses us is not.
  Status connect_store(const StoreOptions& store, Deadline deadline) {
    const Deadline started = deadline.capped(kStoreStarts);
    while (true) {
      auto client = StoreClient::connect(store, deadline);
      if (client.ok()) {
        store_ = std::move(client).value();
        return Status();
      }
      if (client.status().code() != Code::kUnavailable || started.expired()) return client.status();
      std::this_thread::sleep_until(started.capped(kTryAgain).when());
    }
  }

  // Peers of a loopback host are on it: what serves the network stays closed unless it is named.
  std::vector<TransportKind> default_kinds() const {
    if (loopback_host(options_.host)) return {TransportKind::kLocal};
    return {TransportKind::kLocal, TransportKind::kUcx};
  }

  Status open_transports() {
    // What the caller names must be there; of the default set, what the machine has.
    const bool named = !options_.transports.empty();
    const std::vector<TransportKind> kinds = named ? options_.transports : default_kinds();
    for (size_t i = 0; i < kinds.size(); ++i) {
      if (std::count(kinds.begin(), kinds.end(), kinds[i]) != 1) {
        return Status(Code::kInvalidArgument,
                      "transport '" + std::string(transport_name(kinds[i])) + "' is named twice");
      }
      auto domain = make_domain(kinds[i], domain_options());
      if (domain.ok()) {
        domains_.push_back(std::move(domain).value());
        continue;
      }
      if (named) {
        return domain.status().prefixed("transport '" + std::string(transport_name(kinds[i])) +
                                        "': ");
      }
      missing_.push_back({kinds[i], domain.status().to_string()});
      options_.log.write(LogLevel::kInfo, "session", "a transport of the default set is left out",
                         {{"transport", std::string(transport_name(kinds[i]))},
                          {"reason", missing_.back().reason}});
    }
    return Status();
  }

  void take_transports(std::vector<std::unique_ptr<Domain>> domains) {
    domains_ = std::move(domains);
    callers_domains_ = true;
  }

  const JobOptions& options() const override { return options_; }
  const std::shared_ptr<StoreClient>& store() const override { return store_; }
  std::string store_url() const override { return store_url_; }
  std::span<const std::unique_ptr<Domain>> domains() const override { return domains_; }
  std::span<const MissingTransport> missing() const override { return missing_; }

  Result<std::shared_ptr<Domain>> serving_domain(size_t index) override {
    Domain* const shared = domains_[index].get();
    if (callers_domains_ || !shared->needs_source_progress()) {
      return std::shared_ptr<Domain>(shared_from_this(), shared);
    }
    WB_ASSIGN_OR_RETURN(auto own, make_domain(shared->kind(), domain_options()));
    return std::shared_ptr<Domain>(std::move(own));
  }

  Status close(Deadline deadline) override {
    if (server_ == nullptr) return Status();
    return server_->close(deadline);
  }

 private:
  DomainOptions domain_options() const {
    DomainOptions out;
    out.host = options_.host;
    out.verbs = verbs_;
    out.log = options_.log;
    return out;
  }

  JobOptions options_;
  VerbsOptions verbs_;
  std::string store_url_;
  std::unique_ptr<StoreServer> server_;
  std::shared_ptr<StoreClient> store_;
  std::vector<std::unique_ptr<Domain>> domains_;
  bool callers_domains_ = false;  // made by the caller: no second one can be made
  std::vector<MissingTransport> missing_;
};

Result<std::shared_ptr<JobImpl>> new_job(JobOptions options, Deadline deadline) {
  WB_RETURN_IF_ERROR(check_job_name(options.name));
  if (options.token.empty()) {
    return Status(Code::kInvalidArgument,
                  "a job needs a token: it is what its workers know each other by");
  }
  if (options.store.empty()) {
    return Status(Code::kInvalidArgument,
                  "a job needs a store: embed:HOST:PORT in one process, its URL in the others");
  }
  auto job = std::make_shared<JobImpl>(std::move(options));
  WB_RETURN_IF_ERROR(job->open_store(deadline));
  return job;
}

}  // namespace

Result<std::shared_ptr<Job>> Job::open(JobOptions options, Deadline deadline) {
  WB_ASSIGN_OR_RETURN(auto job, new_job(std::move(options), deadline));
  WB_RETURN_IF_ERROR(job->open_transports());
  return std::shared_ptr<Job>(std::move(job));
}

Result<std::shared_ptr<Job>> open_job_over(JobOptions options,
                                           std::vector<std::unique_ptr<Domain>> domains,
                                           Deadline deadline) {
  WB_ASSIGN_OR_RETURN(auto job, new_job(std::move(options), deadline));
  job->take_transports(std::move(domains));
  return std::shared_ptr<Job>(std::move(job));
}

Result<std::shared_ptr<JobInternal>> internal(std::shared_ptr<Job> job) {
  auto out = std::dynamic_pointer_cast<JobInternal>(std::move(job));
  if (out == nullptr) return Status(Code::kInvalidArgument, "not a job made by Job::open");
  return out;
}

}  // namespace wb
