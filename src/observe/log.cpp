#include "observe/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <mutex>

namespace wb {

struct Log::State {
  LogLevel level;
  LogSink sink;
  std::mutex mutex;  // one record at a time reaches the sink
};

Log::Log() = default;

Log::Log(LogLevel level, LogSink sink) {
  if (!sink) return;
  state_ = std::make_shared<State>();
  state_->level = level;
  state_->sink = std::move(sink);
}

namespace {

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

// Values reach terminals and line-based collectors: what would break a line or its quotes is
// escaped.
std::string quoted(std::string_view value) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  return out += '"';
}

std::string one_line(const LogRecord& record) {
  std::string line(record.room);
  line += ": ";
  for (const char c : record.message) line += c == '\n' ? ' ' : c;
  for (const LogField& field : record.fields) {
    line += ' ';
    line += field.key;
    line += '=';
    line += quoted(field.value);
  }
  return line;
}

}  // namespace

Log Log::to_stderr(LogLevel level) {
  // A logger of its own: spdlog's global registry belongs to the program that embeds the library.
  auto logger = std::make_shared<spdlog::logger>("weightbridge",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_level(spdlog::level::trace);
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %n[%P] %l %v", spdlog::pattern_time_type::utc);
  logger->flush_on(spdlog::level::trace);
  return Log(level, [logger](const LogRecord& record) {
    logger->log(spdlog_level(record.level), spdlog::string_view_t(one_line(record)));
  });
}

bool Log::enabled(LogLevel level) const { return state_ != nullptr && level >= state_->level; }

void Log::write(LogLevel level, std::string_view room, std::string message,
                std::vector<LogField> fields) const {
  if (!enabled(level)) return;
  const LogRecord record{level, room, std::move(message), std::move(fields)};
  const std::lock_guard lock(state_->mutex);
  state_->sink(record);
}

}  // namespace wb
