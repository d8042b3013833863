#include "session/publisher.h"

#include <memory>
#include <string>
#include <utility>

#include "capi/error.h"
#include "capi/handle.h"
#include "capi/job.h"
#include "capi/layout.h"
#include "capi/single.h"
#include "capi/sized.h"

namespace wb::capi {
namespace {

static_assert(WB_IN_PLACE == static_cast<int>(PublishMode::kInPlace));
static_assert(WB_SNAPSHOT == static_cast<int>(PublishMode::kSnapshot));

struct PublisherObject {
  static constexpr Kind kKind = Kind::kPublisher;

  PublisherObject(JobObject::Child in, std::unique_ptr<Publisher> made)
      : child(std::move(in)), publisher(std::move(made)) {}

  JobObject::Child child;
  const std::unique_ptr<Publisher> publisher;
  Single single{"publisher"};
};

Result<PublisherOptions> publisher_options(const wb_publisher_options* given) {
  WB_ASSIGN_OR_RETURN(const auto known, read_sized(given, "publisher options"));
  PublisherOptions options;
  options.rank = known.rank;
  if (known.world != 0) options.world = known.world;
  if (options.rank >= options.world) {
    return Status(Code::kInvalidArgument, "publisher options: rank " +
                                              std::to_string(options.rank) + " of a world of " +
                                              std::to_string(options.world));
  }
  if (known.mode != 0) {
    if (known.mode != WB_IN_PLACE && known.mode != WB_SNAPSHOT) {
      return Status(Code::kInvalidArgument,
                    "publisher options: mode " + std::to_string(known.mode) + " is none");
    }
    options.mode = static_cast<PublishMode>(known.mode);
  }
  if (known.slots != 0) {
    if (options.mode == PublishMode::kSnapshot && known.slots < 2) {
      return Status(Code::kInvalidArgument, "publisher options: a snapshot needs at least 2 slots");
    }
    options.slots = known.slots;
  }
  options.huge_pages = known.huge_pages != 0;
  return options;
}

Status create(wb_job* job, const wb_layout* layout, const wb_publisher_options* given,
              int64_t timeout_ms, wb_publisher** out) {
  WB_ASSIGN_OR_RETURN(const auto in, find<JobObject>(job));
  WB_ASSIGN_OR_RETURN(const auto of, find<LayoutObject>(layout));
  WB_ASSIGN_OR_RETURN(const PublisherOptions options, publisher_options(given));
  WB_ASSIGN_OR_RETURN(const Deadline deadline, deadline_in(timeout_ms));
  WB_ASSIGN_OR_RETURN(JobObject::Child child, JobObject::enter(in));
  WB_ASSIGN_OR_RETURN(BoundLayout bound, of->bound());
  WB_ASSIGN_OR_RETURN(
      auto publisher,
      Publisher::create(child.job(), std::move(bound.table), std::move(bound.layout),
                        std::move(bound.buffers), options, deadline));
  return publish_handle(std::make_shared<PublisherObject>(std::move(child), std::move(publisher)),
                        out);
}

}  // namespace
}  // namespace wb::capi

extern "C" {

using namespace wb::capi;  // NOLINT(google-build-using-namespace): the file is its C face

wb_code wb_publisher_create(wb_job* job, const wb_layout* layout,
                            const wb_publisher_options* options, int64_t timeout_ms,
                            wb_publisher** publisher) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    WB_RETURN_IF_ERROR(not_null(publisher, "publisher"));
    *publisher = nullptr;
    return create(job, layout, options, timeout_ms, publisher);
  });
}

wb_code wb_publisher_begin_update(wb_publisher* publisher, void* stream) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    WB_ASSIGN_OR_RETURN(const auto object, find<PublisherObject>(publisher));
    WB_ASSIGN_OR_RETURN(const auto turn, object->single.enter());
    return object->publisher->begin_update(stream);
  });
}

wb_code wb_publisher_publish(wb_publisher* publisher, uint64_t number, void* stream) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    WB_ASSIGN_OR_RETURN(const auto object, find<PublisherObject>(publisher));
    WB_ASSIGN_OR_RETURN(const auto turn, object->single.enter());
    return object->publisher->publish(number, stream);
  });
}

wb_code wb_publisher_rejoin(wb_publisher* publisher, int64_t timeout_ms) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    WB_ASSIGN_OR_RETURN(const auto object, find<PublisherObject>(publisher));
    WB_ASSIGN_OR_RETURN(const wb::Deadline deadline, deadline_in(timeout_ms));
    WB_ASSIGN_OR_RETURN(const auto turn, object->single.enter());
    return object->publisher->rejoin(deadline);
  });
}

wb_code wb_publisher_stats(const wb_publisher* publisher, wb_publisher_stats_t* stats) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    WB_ASSIGN_OR_RETURN(const auto object, find<PublisherObject>(publisher));
    const wb::PublisherStats now = object->publisher->stats();
    const wb_publisher_stats_t filled{
        sizeof(wb_publisher_stats_t), now.published,
        now.last_publish_ns,          now.last_begin_ns,
        now.max_publish_ns,           {now.version.generation, now.version.number}};
    return write_sized(filled, stats, "stats");
  });
}

const char* wb_publisher_report(const wb_publisher* publisher) WB_NOEXCEPT {
  thread_local std::string kept;
  return guarded_string(&kept, [&]() -> wb::Result<std::string> {
    WB_ASSIGN_OR_RETURN(const auto object, find<PublisherObject>(publisher));
    return object->publisher->report();
  });
}

wb_code wb_publisher_close(wb_publisher* publisher, int64_t timeout_ms) WB_NOEXCEPT {
  return guarded([&] { return close_object(publisher, timeout_ms, &PublisherObject::publisher); });
}

}  // extern "C"
