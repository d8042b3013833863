// How the ranks of a demo keep in step: numbers under the job's prefix in the store.
//
//   /weightbridge/JOB/steps/WHAT/WHO = NUMBER      "WHO has come as far as NUMBER in WHAT"
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/status.h"
#include "control/store_client.h"

namespace wb::cli {

class Steps {
 public:
  Steps(std::shared_ptr<StoreClient> store, const std::string& job)
      : store_(std::move(store)), prefix_("/weightbridge/" + job + "/steps/") {}

  Status say(std::string_view what, std::string_view who, uint64_t number, Deadline deadline);
  // Until `how_many` have come as far as `number`. kDeadline says who has not.
  Status wait(std::string_view what, uint32_t how_many, uint64_t number, Deadline deadline);
  Status forget(Deadline deadline);  // deletes all keys of the job's steps

 private:
  std::shared_ptr<StoreClient> store_;
  std::string prefix_;
};

}  // namespace wb::cli
