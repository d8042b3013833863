#include "capi/job.h"

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "capi/error.h"
#include "capi/sized.h"
#include "control/peer.h"

namespace wb::capi {

// Carries log records to the caller's function until the job is closed.
struct LogBridge {
  std::mutex mutex;
  wb_log_fn write = nullptr;
  void* user = nullptr;

  void forward(const LogRecord& record) {
    std::vector<wb_log_field> fields;
    fields.reserve(record.fields.size());
    for (const LogField& field : record.fields) {
      fields.push_back({field.key.c_str(), field.value.c_str()});
    }
    const std::string room(record.room);
    const std::lock_guard lock(mutex);
    if (write == nullptr) return;
    write(user, static_cast<int32_t>(record.level), room.c_str(), record.message.c_str(),
          fields.data(), fields.size());
  }

  void detach() {
    const std::lock_guard lock(mutex);
    write = nullptr;
  }
};

static_assert(WB_LOG_DEBUG == static_cast<int>(LogLevel::kDebug));
static_assert(WB_LOG_INFO == static_cast<int>(LogLevel::kInfo));
static_assert(WB_LOG_WARN == static_cast<int>(LogLevel::kWarn));
static_assert(WB_LOG_ERROR == static_cast<int>(LogLevel::kError));

void JobObject::Child::leave() {
  if (job_ == nullptr) return;
  {
    const std::lock_guard lock(job_->mutex_);
    --job_->children_;
  }
  job_ = nullptr;
}

Result<JobObject::Child> JobObject::enter(const std::shared_ptr<JobObject>& self) {
  const std::lock_guard lock(self->mutex_);
  if (self->closing_) return Status(Code::kCancelled, "the job is closed");
  ++self->children_;
  return Child(self);
}

Status JobObject::close(Deadline deadline) {
  {
    const std::lock_guard lock(mutex_);
    if (children_ != 0) {
      return Status(Code::kFailedPrecondition, "closing the job: " + std::to_string(children_) +
                                                   " of its publishers and receivers are open");
    }
    if (closing_) return Status(Code::kFailedPrecondition, "another thread is closing the job");
    closing_ = true;
  }
  Status status = job_->close(deadline);
  if (status.code() == Code::kDeadline) {
    const std::lock_guard lock(mutex_);
    closing_ = false;
    return status;
  }
  if (log_ != nullptr) log_->detach();
  return status;
}

namespace {

Result<std::vector<TransportKind>> parse_transports(std::string_view text) {
  std::vector<TransportKind> kinds;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view word = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    bool known = false;
    for (const auto kind : {TransportKind::kLocal, TransportKind::kUcx, TransportKind::kVerbs}) {
      if (word != transport_name(kind)) continue;
      kinds.push_back(kind);
      known = true;
    }
    if (!known) {
      return Status(Code::kInvalidArgument,
                    "transport \"" + std::string(word) + "\": known are local, ucx and verbs");
    }
  }
  return kinds;
}

Result<std::string> read_token(const wb_job_options& options) {
  const bool has_text = options.token != nullptr;
  if (has_text == (options.token_file != nullptr)) {
    return Status(Code::kInvalidArgument,
                  "job options: give one of token and token_file (the job's shared secret)");
  }
  std::string token;
  if (has_text) {
    token = options.token;
  } else {
    WB_ASSIGN_OR_RETURN(token, read_token_file(options.token_file));
  }
  if (token.empty()) return Status(Code::kInvalidArgument, "job options: the token is empty");
  return token;
}

Result<JobOptions> job_options(const wb_job_options& given, const std::shared_ptr<LogBridge>& log) {
  JobOptions options;
  if (given.name != nullptr) options.name = given.name;
  options.store = text_of(given.store);
  if (options.store.empty()) return Status(Code::kInvalidArgument, "job options: store is NULL");
  WB_ASSIGN_OR_RETURN(options.token, read_token(given));
  if (given.host != nullptr) options.host = given.host;
  WB_ASSIGN_OR_RETURN(options.transports, parse_transports(text_of(given.transports)));
  options.verbs = text_of(given.verbs);
  options.etcd_user = text_of(given.etcd_user);
  options.etcd_password = text_of(given.etcd_password);
  options.ca_file = text_of(given.ca_file);
  if (given.log_level < WB_LOG_DEBUG || given.log_level > WB_LOG_ERROR) {
    return Status(Code::kInvalidArgument,
                  "job options: log_level " + std::to_string(given.log_level) + " is none");
  }
  if (log != nullptr) {
    options.log = Log(static_cast<LogLevel>(given.log_level),
                      [log](const LogRecord& record) { log->forward(record); });
  }
  return options;
}

Status open_job(const wb_job_options* given, int64_t timeout_ms, wb_job** out) {
  WB_RETURN_IF_ERROR(not_null(given, "options"));
  WB_ASSIGN_OR_RETURN(const wb_job_options known, read_sized(given, "job options"));
  WB_ASSIGN_OR_RETURN(const Deadline deadline, deadline_in(timeout_ms));
  std::shared_ptr<LogBridge> log;
  if (known.log != nullptr) {
    log = std::make_shared<LogBridge>();
    log->write = known.log;
    log->user = known.log_user;
  }
  WB_ASSIGN_OR_RETURN(JobOptions options, job_options(known, log));
  auto job = Job::open(std::move(options), deadline);
  if (!job.ok()) {
    if (log != nullptr) log->detach();
    return job.status();
  }
  return publish_handle(std::make_shared<JobObject>(std::move(job).value(), std::move(log)), out);
}

}  // namespace
}  // namespace wb::capi

extern "C" {

using namespace wb::capi;  // NOLINT(google-build-using-namespace): the file is its C face

wb_code wb_job_open(const wb_job_options* options, int64_t timeout_ms, wb_job** job) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    WB_RETURN_IF_ERROR(not_null(job, "job"));
    *job = nullptr;
    return open_job(options, timeout_ms, job);
  });
}

const char* wb_job_store_url(const wb_job* job) WB_NOEXCEPT {
  thread_local std::string kept;
  return guarded_string(&kept, [&]() -> wb::Result<std::string> {
    WB_ASSIGN_OR_RETURN(const auto object, find<JobObject>(job));
    return object->job()->store_url();
  });
}

wb_code wb_job_close(wb_job* job, int64_t timeout_ms) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    WB_ASSIGN_OR_RETURN(const auto object, find<JobObject>(job));
    WB_ASSIGN_OR_RETURN(const wb::Deadline deadline, deadline_in(timeout_ms));
    wb::Status status = object->close(deadline);
    const bool stays =
        status.code() == wb::Code::kDeadline || status.code() == wb::Code::kFailedPrecondition;
    if (!stays) WB_RETURN_IF_ERROR(remove_handle(JobObject::kKind, job).status());
    return status;
  });
}

}  // extern "C"
