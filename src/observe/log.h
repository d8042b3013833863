// Structured log records with a sink that the embedding program chooses.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace wb {

enum class LogLevel : uint8_t { kDebug = 0, kInfo = 1, kWarn = 2, kError = 3 };

struct LogField {
  std::string key;
  std::string value;
};

struct LogRecord {
  LogLevel level = LogLevel::kInfo;
  std::string_view room;  // "transport", "session"
  std::string message;    // one sentence
  std::vector<LogField> fields;
};

// Called from any thread of the library, never concurrently with itself.
using LogSink = std::function<void(const LogRecord&)>;

// A handle that is cheap to copy. Building a record costs nothing when its level is off.
class Log {
 public:
  Log();  // off: no sink
  Log(LogLevel level, LogSink sink);
  // Lines on stderr through spdlog.
  static Log to_stderr(LogLevel level);

  bool enabled(LogLevel level) const;
  void write(LogLevel level, std::string_view room, std::string message,
             std::vector<LogField> fields = {}) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace wb
