#include "cli/steps.h"

#include <charconv>

namespace wb::cli {
namespace {

// Zero for what is not a number: nobody has come that far yet.
uint64_t number_of(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : 0;
}

}  // namespace

Status Steps::say(std::string_view what, std::string_view who, uint64_t number, Deadline deadline) {
  const std::string key = prefix_ + std::string(what) + "/" + std::string(who);
  const auto put = store_->put(key, std::to_string(number), /*lease=*/0, deadline);
  return put.status();
}

Status Steps::wait(std::string_view what, uint32_t how_many, uint64_t number, Deadline deadline) {
  const std::string prefix = prefix_ + std::string(what) + "/";
  std::unique_ptr<Watch> watch;
  for (;;) {
    WB_ASSIGN_OR_RETURN(const RangeResult now, store_->range(prefix, deadline));
    uint32_t there = 0;
    std::string names;
    for (const KeyValue& item : now.items) {
      if (number_of(item.value) < number) continue;
      ++there;
      names += (names.empty() ? "" : ", ") + item.key.substr(prefix.size());
    }
    if (there >= how_many) return {};
    if (watch == nullptr) {
      WB_ASSIGN_OR_RETURN(watch, store_->watch(prefix, now.revision + 1, deadline));
    }
    const auto events = watch->next(deadline);
    if (events.ok()) continue;
    if (events.status().code() == Code::kMismatch) {  // compacted: look and watch anew
      watch.reset();
      continue;
    }
    if (events.status().code() != Code::kDeadline) return events.status();
    return Status(Code::kDeadline, "waited for " + std::to_string(how_many) + " ranks to reach \"" +
                                       std::string(what) + "\" of version " +
                                       std::to_string(number) + "; there were " +
                                       std::to_string(there) +
                                       (names.empty() ? "" : " (" + names + ")"));
  }
}

Status Steps::forget(Deadline deadline) {
  WB_ASSIGN_OR_RETURN(const RangeResult all, store_->range(prefix_, deadline));
  for (const KeyValue& item : all.items) {
    WB_RETURN_IF_ERROR(store_->remove(item.key, deadline).status());
  }
  return {};
}

}  // namespace wb::cli
