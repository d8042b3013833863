// A trainer rank. Part of weightbridge.hpp.
#ifndef WEIGHTBRIDGE_PUBLISHER_HPP
#define WEIGHTBRIDGE_PUBLISHER_HPP

#include <weightbridge/job.hpp>
#include <weightbridge/layout.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace weightbridge {

struct PublisherOptions {
  std::uint32_t rank = 0;
  std::uint32_t world = 1;
  PublishMode mode = PublishMode::kInPlace;
  std::uint32_t slots = 2;  // snapshot only
  bool huge_pages = false;  // of the slots
};

struct PublisherStats {
  std::uint64_t published = 0;
  std::chrono::nanoseconds last_publish{};
  std::chrono::nanoseconds last_begin{};
  std::chrono::nanoseconds max_publish{};
  Version version;
};

class Publisher {
 public:
  static Result<Publisher> create(const Job& job, const Layout& layout,
                                  const PublisherOptions& options, Timeout timeout) {
    const wb_publisher_options raw{sizeof(wb_publisher_options),
                                   options.rank,
                                   options.world,
                                   static_cast<wb_publish_mode>(options.mode),
                                   options.slots,
                                   options.huge_pages ? 1 : 0,
                                   0};
    wb_publisher* handle = nullptr;
    const wb_code code =
        wb_publisher_create(job.get(), layout.get(), &raw, detail::milliseconds(timeout), &handle);
    if (code != WB_OK) return Status::of(code);
    return Publisher(handle, job.state_);
  }

  Status begin_update(void* stream = nullptr) {
    return Status::of(wb_publisher_begin_update(get(), stream));
  }
  Status publish(std::uint64_t number, void* stream = nullptr) {
    return Status::of(wb_publisher_publish(get(), number, stream));
  }
  Status rejoin(Timeout timeout) {
    return Status::of(wb_publisher_rejoin(get(), detail::milliseconds(timeout)));
  }
  Result<PublisherStats> stats() const {
    wb_publisher_stats_t raw{};
    raw.struct_size = sizeof raw;
    if (const wb_code code = wb_publisher_stats(get(), &raw); code != WB_OK) {
      return Status::of(code);
    }
    using std::chrono::nanoseconds;
    return PublisherStats{raw.published,
                          nanoseconds(raw.last_publish_ns),
                          nanoseconds(raw.last_begin_ns),
                          nanoseconds(raw.max_publish_ns),
                          {raw.version.generation, raw.version.number}};
  }
  Result<std::string> report() const {
    const char* const text = wb_publisher_report(get());
    if (text == nullptr) return Status::of(wb_last_error()->code);
    return std::string(text);
  }
  Status close(Timeout timeout = kCloseTimeout) { return closing_.close(timeout); }
  wb_publisher* get() const { return closing_.get(); }

 private:
  using Owned = std::shared_ptr<Job::State>;
  Publisher(wb_publisher* handle, Owned job)
      : closing_(handle, std::make_unique<Owned>(std::move(job))) {}
  detail::Closing<wb_publisher, wb_publisher_close, Owned> closing_;
};

}  // namespace weightbridge

#endif
