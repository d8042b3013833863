// Helps the expect_*.cpp files to write a framework's parameters down one after the other.
#pragma once

#include <string>
#include <utility>

#include "cli/expect.h"

namespace wb::cli {

class ExpectationBuilder {
 public:
  explicit ExpectationBuilder(const SourceModel& model) : model_(model) {}

  // The tensor, or an empty one and a remembered error.
  const SourceTensor& need(const std::string& name) {
    if (const SourceTensor* found = model_.find(name); found != nullptr) return *found;
    if (status_.ok()) {
      status_ = Status(Code::kNotFound, "the checkpoint lacks " + name).with_tensor(name);
    }
    static const SourceTensor kNone{
        .name = {}, .width = 1, .rows = 0, .columns = 1, .data = nullptr};
    return kNone;
  }
  bool has(const std::string& name) const { return model_.find(name) != nullptr; }

  // A new parameter. The reference ends with the next call.
  ExpectedParameter& parameter(std::string name) {
    parameters_.push_back({.name = std::move(name), .slices = {}});
    return parameters_.back();
  }
  // A parameter that is a whole tensor under the same name.
  void copy(const std::string& name) { copy(name, name); }
  void copy(std::string name, const std::string& tensor) {
    parameter(std::move(name)).all(need(tensor));
  }

  Result<Expectation> take() && {
    if (!status_.ok()) return status_;
    return std::move(parameters_);
  }

 private:
  const SourceModel& model_;
  Expectation parameters_;
  Status status_;
};

}  // namespace wb::cli
