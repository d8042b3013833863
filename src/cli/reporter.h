// What a command says on stdout: for people, or as one JSON object a line for programs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace wb::cli {

class Reporter {
 public:
  explicit Reporter(bool json) : json_(json) {}
  // Prints the event as JSON, or the text (nothing when it is empty). One whole line, at once.
  void say(const nlohmann::json& event, const std::string& text) const;

 private:
  bool json_;
};

// "1.50 GB", "12.3 MB", "512 B"; powers of ten.
std::string human_bytes(double bytes);
// "2.3 us", "14.0 ms", "1.20 s".
std::string human_time(double nanoseconds);

}  // namespace wb::cli
