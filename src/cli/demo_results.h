// Collects what the ranks of a demo report, judges it and shows it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace wb::cli {

struct DemoSettings {
  std::string model;
  std::string trainer;
  std::string rollout;
  std::string mode = "inplace";
  std::string transport = "auto";
  std::string verbs;  // KEY=VALUE,...: how NICs are used
  std::string memory = "shared";
  uint64_t versions = 5;  // that each receiver must pull and verify
  uint32_t trainers = 1;
  uint32_t receivers = 1;
  double timeout = 120;

  bool in_place() const { return mode == "inplace"; }
  // In place, one more version is published: the one whose reads are disturbed on purpose.
  uint64_t published() const { return in_place() ? versions + 1 : versions; }
  // The version whose weights change in the middle of each receiver's pull; 0: none.
  uint64_t overlap() const { return !in_place() ? 0 : versions < 2 ? versions : 2; }
};

class DemoResults {
 public:
  explicit DemoResults(const DemoSettings& settings);
  ~DemoResults();
  DemoResults(const DemoResults&) = delete;
  DemoResults& operator=(const DemoResults&) = delete;

  // One line of a rank's stdout. Returns a line of progress to show, or nothing.
  std::string add(const std::string& line);

  // Why the run is not a success, as one sentence; empty for a success.
  std::string fault() const;
  // The table, the summary and the verdict without its reason, which goes to stderr. `failure`: why
  // the run ended early, or empty.
  std::string text(const std::string& failure) const;
  nlohmann::json to_json(const std::string& failure, double seconds) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace wb::cli
