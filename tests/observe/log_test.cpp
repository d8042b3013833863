#include "observe/log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

namespace wb {
namespace {

TEST(Log, OffCostsNothingAndSaysSo) {
  const Log off;
  EXPECT_FALSE(off.enabled(LogLevel::kError));
  off.write(LogLevel::kError, "session", "nobody hears this");
  EXPECT_FALSE(Log(LogLevel::kDebug, LogSink()).enabled(LogLevel::kError));
}

TEST(Log, LevelsFilterAndRecordsArriveWhole) {
  std::vector<LogRecord> seen;
  std::vector<std::string> rooms;
  const Log log(LogLevel::kWarn, [&](const LogRecord& record) {
    seen.push_back(record);
    rooms.emplace_back(record.room);
  });
  EXPECT_FALSE(log.enabled(LogLevel::kInfo));
  EXPECT_TRUE(log.enabled(LogLevel::kWarn));
  log.write(LogLevel::kInfo, "plan", "dropped");
  log.write(LogLevel::kError, "transport", "kept", {{"peer", "trainer-1"}});
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].level, LogLevel::kError);
  EXPECT_EQ(rooms[0], "transport");
  EXPECT_EQ(seen[0].message, "kept");
  ASSERT_EQ(seen[0].fields.size(), 1u);
  EXPECT_EQ(seen[0].fields[0].key, "peer");
  EXPECT_EQ(seen[0].fields[0].value, "trainer-1");
}

TEST(Log, TheSinkIsNeverCalledConcurrently) {
  int inside = 0;
  int records = 0;
  bool overlapped = false;
  const Log log(LogLevel::kDebug, [&](const LogRecord&) {
    if (++inside != 1) overlapped = true;
    std::this_thread::yield();
    --inside;
    ++records;
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([log] {
      for (int n = 0; n < 200; ++n) log.write(LogLevel::kInfo, "session", "x");
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(overlapped);
  EXPECT_EQ(records, 800);
}

TEST(Log, StderrLinesStayOneLinePerRecord) {
  testing::internal::CaptureStderr();
  Log::to_stderr(LogLevel::kInfo)
      .write(LogLevel::kWarn, "session", "two\nlines {} %s", {{"name", "a\"b\nc\x01"}});
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_NE(text.find("warning session: two lines {} %s name=\"a\\\"b\\nc\\x01\""),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace wb
