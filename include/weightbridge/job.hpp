// One run of trainers and receivers, over one store. Part of weightbridge.hpp.
#ifndef WEIGHTBRIDGE_JOB_HPP
#define WEIGHTBRIDGE_JOB_HPP

#include <weightbridge/detail.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace weightbridge {

struct LogRecord {
  LogLevel level = LogLevel::kInfo;
  std::string_view room;
  std::string_view message;
  std::span<const wb_log_field> fields;
};

struct JobOptions {
  std::string store = {};       // "embed:HOST:PORT" or "http(s)://HOST:PORT[,...]"
  std::string token = {};       // or:
  std::string token_file = {};  // a file that only its owner may read
  std::string name = {};        // "": "default"
  std::string host = {};        // "": "127.0.0.1"
  std::string transports = {};  // "local,ucx"; "": see weightbridge.h
  std::string verbs = {};       // "devices=mlx5_0"; "": it chooses by itself
  std::string etcd_user = {};
  std::string etcd_password = {};
  std::string ca_file = {};
  LogLevel log_level = LogLevel::kInfo;
  // From any thread, never concurrently with itself; must not throw or call the library.
  std::function<void(const LogRecord&)> log = {};
};

// Copies share one job; it closes when the last copy, publisher and receiver of it is gone.
class Job {
 public:
  static Result<Job> open(const JobOptions& options, Timeout timeout) {
    auto log = std::make_unique<Log>(options.log);
    wb_job_options raw{};
    raw.struct_size = sizeof raw;
    raw.name = detail::text_or_null(options.name);
    raw.store = detail::text_or_null(options.store);
    raw.token = detail::text_or_null(options.token);
    raw.token_file = detail::text_or_null(options.token_file);
    raw.host = detail::text_or_null(options.host);
    raw.transports = detail::text_or_null(options.transports);
    raw.verbs = detail::text_or_null(options.verbs);
    raw.etcd_user = detail::text_or_null(options.etcd_user);
    raw.etcd_password = detail::text_or_null(options.etcd_password);
    raw.ca_file = detail::text_or_null(options.ca_file);
    raw.log_level = static_cast<std::int32_t>(options.log_level);
    if (*log) {
      raw.log = &write_log;
      raw.log_user = log.get();
    }
    wb_job* handle = nullptr;
    const wb_code code = wb_job_open(&raw, detail::milliseconds(timeout), &handle);
    if (code != WB_OK) return Status::of(code);
    return Job(std::make_shared<State>(handle, std::move(log)));
  }

  // The URL under which other processes reach the store.
  Result<std::string> store_url() const {
    const char* const url = wb_job_store_url(get());
    if (url == nullptr) return Status::of(wb_last_error()->code);
    return std::string(url);
  }
  Status close(Timeout timeout = kCloseTimeout) { return state_->close(timeout); }
  wb_job* get() const { return state_->get(); }

 private:
  friend class Publisher;
  friend class Receiver;
  using Log = std::function<void(const LogRecord&)>;
  using State = detail::Closing<wb_job, wb_job_close, Log>;

  static void write_log(void* user, std::int32_t level, const char* room, const char* message,
                        const wb_log_field* fields, std::size_t field_count) noexcept {
    (*static_cast<Log*>(user))(
        {static_cast<LogLevel>(level), room, message, std::span(fields, field_count)});
  }
  explicit Job(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace weightbridge

#endif
