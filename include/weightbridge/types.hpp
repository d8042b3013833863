// Enumerations and small values that several handles share. Part of weightbridge.hpp.
#ifndef WEIGHTBRIDGE_TYPES_HPP
#define WEIGHTBRIDGE_TYPES_HPP

#include <weightbridge/errors.hpp>

#include <chrono>
#include <cstdint>

namespace weightbridge {

using Timeout = std::chrono::nanoseconds;
inline constexpr Timeout kCloseTimeout = std::chrono::seconds(10);

enum class DType : wb_dtype {
  kBool = WB_BOOL,
  kU8 = WB_U8,
  kI8 = WB_I8,
  kF8E5M2 = WB_F8_E5M2,
  kF8E4M3 = WB_F8_E4M3,
  kF8E8M0 = WB_F8_E8M0,
  kI16 = WB_I16,
  kU16 = WB_U16,
  kF16 = WB_F16,
  kBF16 = WB_BF16,
  kI32 = WB_I32,
  kU32 = WB_U32,
  kF32 = WB_F32,
  kI64 = WB_I64,
  kU64 = WB_U64,
  kF64 = WB_F64,
  kC64 = WB_C64,
  kF4 = WB_F4,
  kF6E2M3 = WB_F6_E2M3,
  kF6E3M2 = WB_F6_E3M2,
  kF8E4M3Fnuz = WB_F8_E4M3_FNUZ,
  kF8E5M2Fnuz = WB_F8_E5M2_FNUZ,
};

struct Version {
  std::uint64_t generation = 0;
  std::uint64_t number = 0;
  auto operator<=>(const Version&) const = default;
};

enum class Role : wb_role { kSource = WB_SOURCE, kReceiver = WB_RECEIVER };
enum class ExtraKind : wb_extra_kind {
  kUnmapped = WB_UNMAPPED,
  kZeroFill = WB_ZERO_FILL,
  kComputed = WB_COMPUTED,
};
enum class MemoryKind : wb_memory_kind { kHost = WB_MEMORY_HOST, kShared = WB_MEMORY_SHARED };
enum class PublishMode : wb_publish_mode { kInPlace = WB_IN_PLACE, kSnapshot = WB_SNAPSHOT };
enum class MemoryState : wb_memory_state {
  kUntouched = WB_MEMORY_UNTOUCHED,
  kComplete = WB_MEMORY_COMPLETE,
  kTorn = WB_MEMORY_TORN,
};
enum class PullStep : wb_pull_step {
  kDiscover = WB_STEP_DISCOVER,
  kPlan = WB_STEP_PLAN,
  kConnect = WB_STEP_CONNECT,
  kWait = WB_STEP_WAIT,
  kRead = WB_STEP_READ,
  kCheck = WB_STEP_CHECK,
  kInstall = WB_STEP_INSTALL,
};
enum class EventKind : wb_event_kind {
  kStepBegin = WB_EVENT_STEP_BEGIN,
  kStepEnd = WB_EVENT_STEP_END,
  kFirstBytes = WB_EVENT_FIRST_BYTES,
  kTorn = WB_EVENT_TORN,
  kSourceLost = WB_EVENT_SOURCE_LOST,
};
enum class RestoreMode : wb_probe_restore {
  kBackup = WB_RESTORE_BACKUP,
  kReload = WB_RESTORE_RELOAD,
};
enum class PassKind : wb_pass_kind {
  kLoad = WB_PASS_LOAD,
  kReload = WB_PASS_RELOAD,
  kDone = WB_PASS_DONE,
};
enum class ByteKind : wb_byte_kind {
  kCopied = WB_BYTES_COPIED,
  kCast = WB_BYTES_CAST,
  kUntouched = WB_BYTES_UNTOUCHED,
  kConstant = WB_BYTES_CONSTANT,
  kComputed = WB_BYTES_COMPUTED,
};
enum class LogLevel : std::int32_t {
  kDebug = WB_LOG_DEBUG,
  kInfo = WB_LOG_INFO,
  kWarn = WB_LOG_WARN,
  kError = WB_LOG_ERROR,
};

// Which version a pull asks for.
struct Want {
  wb_want kind = WB_LATEST;
  std::uint64_t number = 0;
};
inline constexpr Want latest{};
constexpr Want exactly(std::uint64_t number) { return {WB_EXACTLY, number}; }
constexpr Want at_least(std::uint64_t number) { return {WB_AT_LEAST, number}; }

}  // namespace weightbridge

#endif
