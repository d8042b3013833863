#include "session/receiver.h"

#include <memory>
#include <string>
#include <utility>

#include "capi/error.h"
#include "capi/handle.h"
#include "capi/job.h"
#include "capi/layout.h"
#include "capi/pull_report.h"
#include "capi/single.h"
#include "capi/sized.h"

namespace wb::capi {
namespace {

static_assert(WB_LATEST == static_cast<int>(Want::Kind::kLatest));
static_assert(WB_EXACTLY == static_cast<int>(Want::Kind::kExactly));
static_assert(WB_AT_LEAST == static_cast<int>(Want::Kind::kAtLeast));
static_assert(WB_EVENT_STEP_BEGIN == static_cast<int>(PullEvent::Kind::kStepBegin));
static_assert(WB_EVENT_STEP_END == static_cast<int>(PullEvent::Kind::kStepEnd));
static_assert(WB_EVENT_FIRST_BYTES == static_cast<int>(PullEvent::Kind::kFirstBytes));
static_assert(WB_EVENT_TORN == static_cast<int>(PullEvent::Kind::kTorn));
static_assert(WB_EVENT_SOURCE_LOST == static_cast<int>(PullEvent::Kind::kSourceLost));

struct ReceiverObject {
  static constexpr Kind kKind = Kind::kReceiver;

  ReceiverObject(JobObject::Child in, std::unique_ptr<Receiver> made)
      : child(std::move(in)), receiver(std::move(made)) {}

  JobObject::Child child;
  const std::unique_ptr<Receiver> receiver;
  PullReportView view;  // of the thread that has its turn
  Single single{"receiver"};
};

Result<ReceiverOptions> receiver_options(const wb_receiver_options* given) {
  WB_RETURN_IF_ERROR(not_null(given, "options"));
  WB_ASSIGN_OR_RETURN(const auto known, read_sized(given, "receiver options"));
  ReceiverOptions options;
  options.name = text_of(known.name);
  if (options.name.empty()) {
    return Status(Code::kInvalidArgument, "receiver options: a name is required");
  }
  options.index = known.index;
  options.staging = known.staging != 0;
  options.huge_pages = known.huge_pages != 0;
  if (known.on_event != nullptr) {
    options.on_event = [call = known.on_event, user = known.event_user](const PullEvent& event) {
      const wb_pull_event shown{sizeof(wb_pull_event),
                                static_cast<wb_event_kind>(event.kind),
                                static_cast<wb_pull_step>(event.step),
                                event.source.c_str(),
                                {event.version.generation, event.version.number}};
      call(user, &shown);
    };
  }
  return options;
}

Status create(wb_job* job, const wb_layout* layout, const wb_receiver_options* given,
              int64_t timeout_ms, wb_receiver** out) {
  WB_ASSIGN_OR_RETURN(const auto in, find<JobObject>(job));
  WB_ASSIGN_OR_RETURN(const auto of, find<LayoutObject>(layout));
  WB_ASSIGN_OR_RETURN(ReceiverOptions options, receiver_options(given));
  WB_ASSIGN_OR_RETURN(const Deadline deadline, deadline_in(timeout_ms));
  WB_ASSIGN_OR_RETURN(JobObject::Child child, JobObject::enter(in));
  WB_ASSIGN_OR_RETURN(BoundLayout bound, of->bound());
  WB_ASSIGN_OR_RETURN(auto receiver,
                      Receiver::create(child.job(), std::move(bound.table), std::move(bound.layout),
                                       std::move(bound.buffers), std::move(options), deadline));
  return publish_handle(std::make_shared<ReceiverObject>(std::move(child), std::move(receiver)),
                        out);
}

Result<Want> want_of(wb_want want, uint64_t number) {
  if (want < WB_LATEST || want > WB_AT_LEAST) {
    return Status(Code::kInvalidArgument, "want " + std::to_string(want) + " is none");
  }
  return Want{static_cast<Want::Kind>(want), number};
}

}  // namespace
}  // namespace wb::capi

extern "C" {

using namespace wb::capi;  // NOLINT(google-build-using-namespace): the file is its C face

wb_code wb_receiver_create(wb_job* job, const wb_layout* layout, const wb_receiver_options* options,
                           int64_t timeout_ms, wb_receiver** receiver) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    WB_RETURN_IF_ERROR(not_null(receiver, "receiver"));
    *receiver = nullptr;
    return create(job, layout, options, timeout_ms, receiver);
  });
}

wb_code wb_receiver_pull(wb_receiver* receiver, wb_want want, uint64_t number, int64_t timeout_ms,
                         const wb_pull_report** report) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    if (report != nullptr) *report = nullptr;
    WB_ASSIGN_OR_RETURN(const auto object, find<ReceiverObject>(receiver));
    WB_ASSIGN_OR_RETURN(const wb::Want wanted, want_of(want, number));
    WB_ASSIGN_OR_RETURN(const wb::Deadline deadline, deadline_in(timeout_ms));
    WB_ASSIGN_OR_RETURN(const auto turn, object->single.enter());
    wb::Status status = object->receiver->pull(wanted, deadline, object->view.report());
    if (report != nullptr) *report = object->view.show();
    return status;
  });
}

wb_code wb_receiver_install(wb_receiver* receiver, const wb_pull_report** report) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    if (report != nullptr) *report = nullptr;
    WB_ASSIGN_OR_RETURN(const auto object, find<ReceiverObject>(receiver));
    WB_ASSIGN_OR_RETURN(const auto turn, object->single.enter());
    wb::Status status = object->receiver->install(object->view.report());
    if (report != nullptr) *report = object->view.show();
    return status;
  });
}

const char* wb_receiver_report(const wb_receiver* receiver) WB_NOEXCEPT {
  thread_local std::string kept;
  return guarded_string(&kept, [&]() -> wb::Result<std::string> {
    WB_ASSIGN_OR_RETURN(const auto object, find<ReceiverObject>(receiver));
    return object->receiver->report();
  });
}

wb_code wb_receiver_close(wb_receiver* receiver, int64_t timeout_ms) WB_NOEXCEPT {
  return guarded([&] { return close_object(receiver, timeout_ms, &ReceiverObject::receiver); });
}

}  // extern "C"
