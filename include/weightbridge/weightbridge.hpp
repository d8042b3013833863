// The C++20 face of WeightBridge: header-only, over the C ABI of weightbridge.h, so it works with
// any compiler and standard library. What a call does, its units, threads and errors: see the C
// call of the same name there.
//
// Errors. Calls return Status or Result<T>, which cannot be ignored. Two styles, one interface:
//   auto job = weightbridge::Job::open(options, 10s).value();   // throws weightbridge::Error
//   if (auto status = publisher.publish(7); !status.ok()) ...   // no exceptions
// With -fno-exceptions value() and or_throw() print the error and abort.
//
// Ownership. Handles are movable and close themselves: bounded by kCloseTimeout, in the right
// order whatever order they are destroyed in. Call close() to hear of errors.
#ifndef WEIGHTBRIDGE_WEIGHTBRIDGE_HPP
#define WEIGHTBRIDGE_WEIGHTBRIDGE_HPP

#include <weightbridge/weightbridge.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace weightbridge {

// ---- Errors ------------------------------------------------------------------------------------

enum class Code : wb_code {
  kOk = WB_OK,
  kInvalidArgument = WB_INVALID_ARGUMENT,
  kBadData = WB_BAD_DATA,
  kNotFound = WB_NOT_FOUND,
  kDeadline = WB_DEADLINE,
  kUnavailable = WB_UNAVAILABLE,
  kUnauthenticated = WB_UNAUTHENTICATED,
  kPermission = WB_PERMISSION,
  kNoMemory = WB_NO_MEMORY,
  kMismatch = WB_MISMATCH,
  kNotCovered = WB_NOT_COVERED,
  kUnproven = WB_UNPROVEN,
  kTorn = WB_TORN,
  kStarved = WB_STARVED,
  kPeerLost = WB_PEER_LOST,
  kGenerationChanged = WB_GENERATION_CHANGED,
  kFailedPrecondition = WB_FAILED_PRECONDITION,
  kUnsupported = WB_UNSUPPORTED,
  kBusy = WB_BUSY,
  kCancelled = WB_CANCELLED,
  kIo = WB_IO,
  kInternal = WB_INTERNAL,
};

// "no_memory"
inline std::string_view name(Code code) { return wb_code_name(static_cast<wb_code>(code)); }

class [[nodiscard]] Status {
 public:
  Status() = default;  // ok
  // An error of this header's own: nothing was asked of the library.
  static Status make(Code code, std::string message) {
    Status status;
    status.code_ = code;
    status.message_ = std::move(message);
    return status;
  }
  // The calling thread's last error, if `code` is one.
  static Status of(wb_code code) {
    Status status;
    if (code == WB_OK) return status;
    const wb_error& error = *wb_last_error();
    status.code_ = static_cast<Code>(code);
    status.retryable_ = error.retryable != 0;
    status.message_ = error.sentence;
    status.peer_ = error.peer;
    status.tensor_ = error.tensor;
    status.sys_errno_ = error.sys_errno;
    status.vendor_ = error.vendor;
    return status;
  }

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  bool retryable() const { return retryable_; }
  const std::string& message() const { return message_; }  // one sentence
  const std::string& peer() const { return peer_; }
  const std::string& tensor() const { return tensor_; }
  int sys_errno() const { return sys_errno_; }
  std::int64_t vendor() const { return vendor_; }
  std::string to_string() const {
    return ok() ? std::string("ok") : std::string(name(code_)) + ": " + message_;
  }

  void or_throw() const;

 private:
  Code code_ = Code::kOk;
  bool retryable_ = false;
  int sys_errno_ = 0;
  std::int64_t vendor_ = 0;
  std::string message_;
  std::string peer_;
  std::string tensor_;
};

class Error : public std::runtime_error {
 public:
  explicit Error(Status status)
      : std::runtime_error(status.to_string()), status_(std::move(status)) {}
  const Status& status() const { return status_; }
  Code code() const { return status_.code(); }

 private:
  Status status_;
};

inline void Status::or_throw() const {
  if (ok()) return;
#if defined(__cpp_exceptions)
  throw Error(*this);
#else
  std::fprintf(stderr, "weightbridge: %s\n", to_string().c_str());
  std::abort();
#endif
}

// A value, or the error that explains why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Status error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  Status status() const { return ok() ? Status() : *std::get_if<1>(&state_); }
  void or_throw() const {
    if (!ok()) std::get_if<1>(&state_)->or_throw();
  }

  T& value() & {
    or_throw();
    return *std::get_if<0>(&state_);
  }
  const T& value() const& {
    or_throw();
    return *std::get_if<0>(&state_);
  }
  T value() && {
    or_throw();
    return std::move(*std::get_if<0>(&state_));
  }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }

 private:
  std::variant<T, Status> state_;
};

// ---- Small types -------------------------------------------------------------------------------

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

namespace detail {

// Rounded up, so that a short timeout is not none; what is too long is for the library to refuse.
inline std::int64_t milliseconds(Timeout timeout) {
  return std::chrono::ceil<std::chrono::milliseconds>(timeout).count();
}

inline const char* text_or_null(const std::string& text) {
  return text.empty() ? nullptr : text.c_str();
}

// A handle that closes itself. `Owned` is what must outlive it: callbacks, the job.
template <typename T, wb_code (*Close)(T*, std::int64_t), typename Owned>
class Closing {
 public:
  Closing(T* handle, std::unique_ptr<Owned> owned) : handle_(handle), owned_(std::move(owned)) {}
  Closing(Closing&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), owned_(std::move(other.owned_)) {}
  Closing& operator=(Closing&& other) noexcept {
    if (this != &other) {
      abandon();
      handle_ = std::exchange(other.handle_, nullptr);
      owned_ = std::move(other.owned_);
    }
    return *this;
  }
  ~Closing() { abandon(); }

  T* get() const { return handle_; }

  Status close(Timeout timeout) {
    const wb_code code = Close(handle_, milliseconds(timeout));
    const Status status = Status::of(code);
    if (code == WB_DEADLINE || code == WB_FAILED_PRECONDITION) return status;
    handle_ = nullptr;
    owned_.reset();
    return status;
  }

 private:
  void abandon() {
    if (handle_ == nullptr) return;
    (void)close(kCloseTimeout);
    // Still open: the library may call back or read for as long as it takes to end.
    if (handle_ != nullptr) (void)owned_.release();
    handle_ = nullptr;
  }
  T* handle_;
  std::unique_ptr<Owned> owned_;
};

template <typename T, wb_code (*Free)(T*)>
struct Freer {
  void operator()(T* handle) const { (void)Free(handle); }
};

}  // namespace detail

// ---- Memory ------------------------------------------------------------------------------------

struct MemoryOptions {
  MemoryKind kind = MemoryKind::kShared;
  bool huge_pages = false;
  std::string name = {};

  wb_memory_options raw() const {
    return {sizeof(wb_memory_options), static_cast<wb_memory_kind>(kind), huge_pages ? 1 : 0,
            detail::text_or_null(name)};
  }
};

// Zeroed memory of the library. Layouts, publishers and receivers that use it keep it mapped.
class Memory {
 public:
  static Result<Memory> alloc(std::uint64_t bytes, const MemoryOptions& options = {}) {
    const wb_memory_options raw = options.raw();
    void* data = nullptr;
    const wb_code code = wb_memory_alloc(&raw, bytes, &data);
    if (code != WB_OK) return Status::of(code);
    return Memory(data, bytes);
  }
  void* data() const { return data_.get(); }
  std::uint64_t bytes() const { return bytes_; }

 private:
  Memory(void* data, std::uint64_t bytes) : data_(data), bytes_(bytes) {}
  std::unique_ptr<void, detail::Freer<void, wb_memory_free>> data_;
  std::uint64_t bytes_;
};

// ---- Tensor table ------------------------------------------------------------------------------

struct TensorInfo {
  std::string name;
  DType dtype = DType::kU8;
  std::vector<std::int64_t> shape = {};  // in elements
};

class Table {
 public:
  static Result<Table> open(const std::string& path) {
    wb_table* handle = nullptr;
    const wb_code code = wb_table_open(path.c_str(), &handle);
    if (code != WB_OK) return Status::of(code);
    return Table(handle);
  }
  static Result<Table> create(const std::vector<TensorInfo>& tensors) {
    std::vector<wb_tensor> raw;
    for (const TensorInfo& tensor : tensors) {
      raw.push_back({tensor.name.c_str(), static_cast<wb_dtype>(tensor.dtype),
                     static_cast<std::uint32_t>(tensor.shape.size()), tensor.shape.data()});
    }
    wb_table* handle = nullptr;
    const wb_code code = wb_table_create(raw.data(), raw.size(), &handle);
    if (code != WB_OK) return Status::of(code);
    return Table(handle);
  }

  // In order of names.
  Result<std::vector<TensorInfo>> tensors() const {
    std::size_t count = 0;
    if (const wb_code code = wb_table_count(get(), &count); code != WB_OK) return Status::of(code);
    std::vector<TensorInfo> all;
    for (std::size_t i = 0; i < count; ++i) {
      wb_tensor raw{};
      if (const wb_code code = wb_table_tensor(get(), i, &raw); code != WB_OK) {
        return Status::of(code);
      }
      all.push_back({raw.name, static_cast<DType>(raw.dtype), {raw.shape, raw.shape + raw.rank}});
    }
    return all;
  }
  wb_table* get() const { return handle_.get(); }

 private:
  friend class Layout;
  explicit Table(wb_table* handle) : handle_(handle) {}
  std::unique_ptr<wb_table, detail::Freer<wb_table, wb_table_free>> handle_;
};

// ---- Worker layout -----------------------------------------------------------------------------

struct Buffer {
  std::string name;
  DType dtype = DType::kU8;
  std::vector<std::int64_t> shape = {};  // in elements
  void* data = nullptr;                  // null: no memory yet
  std::uint64_t bytes = 0;               // 0: what dtype and shape need
};

// Empty start and count: the whole tensor (or a scalar). Empty step: 1 each. Empty stride: dense,
// row-major.
struct Piece {
  std::string tensor;
  std::uint32_t buffer = 0;
  std::vector<std::int64_t> start = {};
  std::vector<std::int64_t> count = {};
  std::vector<std::int64_t> step = {};
  std::int64_t offset = 0;                // bytes
  std::vector<std::int64_t> stride = {};  // bytes
};

// Bytes of a buffer that no piece covers.
struct Extra {
  std::string name;
  std::uint32_t buffer = 0;
  ExtraKind kind = ExtraKind::kUnmapped;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

class Layout {
 public:
  // A layout file, and its table.
  static Result<std::pair<Table, Layout>> load(const std::string& path) {
    wb_table* table = nullptr;
    wb_layout* handle = nullptr;
    const wb_code code = wb_layout_load(path.c_str(), &table, &handle);
    if (code != WB_OK) return Status::of(code);
    return std::pair(Table(table), Layout(handle));
  }
  static Result<Layout> create(const Table& table) {
    wb_layout* handle = nullptr;
    const wb_code code = wb_layout_create(table.get(), &handle);
    if (code != WB_OK) return Status::of(code);
    return Layout(handle);
  }
  static Result<Layout> from_rules(const Table& table, const std::string& model_dir,
                                   const std::string& spec, std::uint32_t rank) {
    wb_layout* handle = nullptr;
    const wb_code code =
        wb_layout_from_rules(table.get(), model_dir.c_str(), spec.c_str(), rank, &handle);
    if (code != WB_OK) return Status::of(code);
    return Layout(handle);
  }

  // Returns the buffer's index.
  Result<std::uint32_t> add_buffer(const Buffer& buffer) {
    const wb_buffer raw{sizeof(wb_buffer),
                        buffer.name.c_str(),
                        static_cast<wb_dtype>(buffer.dtype),
                        static_cast<std::uint32_t>(buffer.shape.size()),
                        buffer.shape.data(),
                        buffer.data,
                        buffer.bytes};
    std::uint32_t index = 0;
    const wb_code code = wb_layout_add_buffer(get(), &raw, &index);
    if (code != WB_OK) return Status::of(code);
    return index;
  }

  Status add_piece(const Piece& piece) {
    std::size_t rank = 0;
    for (const auto* array : {&piece.start, &piece.count, &piece.step, &piece.stride}) {
      if (array->empty()) continue;
      if (rank != 0 && rank != array->size()) {
        return Status::make(Code::kInvalidArgument, "piece of " + piece.tensor +
                                                        ": start, count, step and stride differ "
                                                        "in length");
      }
      rank = array->size();
    }
    const wb_piece raw{sizeof(wb_piece),
                       piece.tensor.c_str(),
                       piece.buffer,
                       static_cast<std::uint32_t>(rank),
                       data_or_null(piece.start),
                       data_or_null(piece.count),
                       data_or_null(piece.step),
                       piece.offset,
                       data_or_null(piece.stride)};
    return Status::of(wb_layout_add_piece(get(), &raw));
  }

  // A buffer that holds a whole tensor under the tensor's own name, dense and row-major. Returns
  // its index. `data` null: no memory yet; `bytes` 0: what the tensor needs.
  Result<std::uint32_t> add_tensor(const std::string& tensor, void* data = nullptr,
                                   std::uint64_t bytes = 0) {
    std::uint32_t index = 0;
    const wb_code code = wb_layout_add_tensor(get(), tensor.c_str(), data, bytes, &index);
    if (code != WB_OK) return Status::of(code);
    return index;
  }
  // The same over an array, vector or span; its size is checked.
  template <typename Range>
  requires requires(Range& range) { std::span(range); }
  Result<std::uint32_t> add_tensor(const std::string& tensor, Range& range) {
    const auto bytes = std::as_writable_bytes(std::span(range));
    return add_tensor(tensor, bytes.data(), bytes.size());
  }

  Status add_extra(std::uint32_t buffer, std::uint64_t offset, std::uint64_t bytes, ExtraKind kind,
                   const std::string& name) {
    return Status::of(wb_layout_add_extra(get(), buffer, offset, bytes,
                                          static_cast<wb_extra_kind>(kind), name.c_str()));
  }
  Status bind(std::uint32_t buffer, void* data, std::uint64_t bytes) {
    return Status::of(wb_layout_bind(get(), buffer, data, bytes));
  }
  Status allocate(const MemoryOptions& options = {}) {
    const wb_memory_options raw = options.raw();
    return Status::of(wb_layout_allocate(get(), &raw));
  }
  Status check(Role role) const {
    return Status::of(wb_layout_check(get(), static_cast<wb_role>(role)));
  }

  Result<std::vector<Buffer>> buffers() const {
    std::size_t count = 0;
    if (const wb_code code = wb_layout_count(get(), &count); code != WB_OK) return Status::of(code);
    std::vector<Buffer> all;
    for (std::size_t i = 0; i < count; ++i) {
      wb_buffer raw{};
      raw.struct_size = sizeof raw;
      const wb_code code = wb_layout_buffer(get(), static_cast<std::uint32_t>(i), &raw);
      if (code != WB_OK) return Status::of(code);
      all.push_back({raw.name,
                     static_cast<DType>(raw.dtype),
                     {raw.shape, raw.shape + raw.rank},
                     raw.data,
                     raw.bytes});
    }
    return all;
  }
  Result<std::vector<Piece>> pieces() const {
    std::size_t count = 0;
    const wb_code code = wb_layout_piece_count(get(), &count);
    if (code != WB_OK) return Status::of(code);
    std::vector<Piece> all;
    for (std::size_t i = 0; i < count; ++i) {
      wb_piece raw{};
      raw.struct_size = sizeof raw;
      if (const wb_code got = wb_layout_piece(get(), i, &raw); got != WB_OK) {
        return Status::of(got);
      }
      all.push_back({raw.tensor,
                     raw.buffer,
                     {raw.start, raw.start + raw.rank},
                     {raw.count, raw.count + raw.rank},
                     {raw.step, raw.step + raw.rank},
                     raw.offset,
                     {raw.stride, raw.stride + raw.rank}});
    }
    return all;
  }
  Result<std::vector<Extra>> extras() const {
    std::size_t count = 0;
    const wb_code code = wb_layout_extra_count(get(), &count);
    if (code != WB_OK) return Status::of(code);
    std::vector<Extra> all;
    for (std::size_t i = 0; i < count; ++i) {
      wb_extra raw{};
      raw.struct_size = sizeof raw;
      if (const wb_code got = wb_layout_extra(get(), i, &raw); got != WB_OK) {
        return Status::of(got);
      }
      all.push_back(
          {raw.name, raw.buffer, static_cast<ExtraKind>(raw.kind), raw.offset, raw.bytes});
    }
    return all;
  }
  Result<std::string> digest() const { return text(wb_layout_digest(get())); }
  Status save(const std::string& path) const {
    return Status::of(wb_layout_save(get(), path.c_str()));
  }
  // JSON: see wb_layout_diff().
  static Result<std::string> diff(const Layout& a, const Layout& b) {
    return text(wb_layout_diff(a.get(), b.get()));
  }
  wb_layout* get() const { return handle_.get(); }

 private:
  friend class Probe;
  static Result<std::string> text(const char* of_library) {
    if (of_library == nullptr) return Status::of(wb_last_error()->code);
    return std::string(of_library);
  }
  static const std::int64_t* data_or_null(const std::vector<std::int64_t>& values) {
    return values.empty() ? nullptr : values.data();
  }
  explicit Layout(wb_layout* handle) : handle_(handle) {}
  std::unique_ptr<wb_layout, detail::Freer<wb_layout, wb_layout_free>> handle_;
};

// ---- Probing -----------------------------------------------------------------------------------

struct ProbeOptions {
  RestoreMode restore = RestoreMode::kBackup;
  std::uint32_t threads = 0;    // 0: one per core, at most 8
  std::string backup_dir = {};  // "": in memory
  std::uint64_t max_bytes = 0;  // 0: a tenth of the buffers and 64 MiB
  std::uint64_t seed = 0;
};

struct ProbePass {
  PassKind kind = PassKind::kDone;
  std::uint32_t index = 0;
  std::uint32_t count = 0;
  std::string_view what;  // lives as long as the probe
};

// The live tensors as they are after a load.
struct ProbePlace {
  std::string name;
  const void* data = nullptr;
  std::uint64_t bytes = 0;
};

// The values of one checkpoint tensor in one pass; everything it points to lives as long as the
// probe. Strides are bytes and may be 0.
struct ProbeView {
  std::string_view name;
  DType dtype = DType::kU8;
  std::span<const std::int64_t> shape;
  std::span<const std::int64_t> stride;
  const std::byte* data = nullptr;

  // Calls visit(pointer to element) in row-major order: a dense copy, for example.
  template <typename Visit>
  void for_each(Visit visit) const {
    std::vector<std::int64_t> index(shape.size(), 0);
    for (const std::int64_t extent : shape) {
      if (extent == 0) return;
    }
    const std::byte* at = data;
    for (;;) {
      visit(at);
      std::size_t d = shape.size();
      while (d > 0) {
        at += stride[d - 1];
        if (++index[d - 1] < shape[d - 1]) break;
        at -= stride[d - 1] * shape[d - 1];
        index[--d] = 0;
      }
      if (d == 0) return;
    }
  }
};

struct ProbeHomes {
  std::string name;
  std::uint64_t elements = 0;
  std::uint64_t no_home = 0;
  std::uint64_t one_home = 0;
  std::uint64_t more_homes = 0;
  std::uint64_t cast = 0;
};

// Learns a layout from a loader; run() does it all:
//   auto probe = Probe::create(table, {}).value();
//   for (const Buffer& buffer : live_tensors) probe.add_buffer(buffer).value();
//   probe.run(load, list).or_throw();
//   Layout layout = probe.layout().value();
class Probe {
 public:
  static Result<Probe> create(const Table& table, const ProbeOptions& options) {
    const wb_probe_options raw{
        sizeof(wb_probe_options), static_cast<wb_probe_restore>(options.restore),
        options.threads,          detail::text_or_null(options.backup_dir),
        options.max_bytes,        options.seed};
    wb_probe* handle = nullptr;
    const wb_code code = wb_probe_create(table.get(), &raw, &handle);
    if (code != WB_OK) return Status::of(code);
    std::size_t tensors = 0;
    if (const wb_code got = wb_table_count(table.get(), &tensors); got != WB_OK) {
      (void)wb_probe_free(handle);
      return Status::of(got);
    }
    return Probe(handle, tensors);
  }

  Result<std::uint32_t> add_buffer(const Buffer& buffer) {
    const wb_buffer raw{sizeof(wb_buffer),
                        buffer.name.c_str(),
                        static_cast<wb_dtype>(buffer.dtype),
                        static_cast<std::uint32_t>(buffer.shape.size()),
                        buffer.shape.data(),
                        buffer.data,
                        buffer.bytes};
    std::uint32_t index = 0;
    const wb_code code = wb_probe_add_buffer(get(), &raw, &index);
    if (code != WB_OK) return Status::of(code);
    return index;
  }
  Result<ProbePass> begin_pass() {
    wb_probe_pass raw{};
    raw.struct_size = sizeof raw;
    const wb_code code = wb_probe_begin_pass(get(), &raw);
    if (code != WB_OK) return Status::of(code);
    return ProbePass{static_cast<PassKind>(raw.kind), raw.index, raw.count, raw.what};
  }
  std::size_t tensor_count() const { return tensors_; }
  Result<ProbeView> view(std::size_t tensor) const {
    wb_probe_view raw{};
    const wb_code code = wb_probe_view_of(get(), tensor, &raw);
    if (code != WB_OK) return Status::of(code);
    return ProbeView{raw.name, static_cast<DType>(raw.dtype), std::span(raw.shape, raw.rank),
                     std::span(raw.stride, raw.rank), static_cast<const std::byte*>(raw.data)};
  }
  // Without places the caller vouches that nothing moved.
  Status end_pass(const std::optional<std::vector<ProbePlace>>& places = std::nullopt) {
    std::vector<wb_probe_place> raw;
    if (!places) return Status::of(wb_probe_end_pass(get(), nullptr, 0));
    for (const ProbePlace& place : *places) {
      raw.push_back({place.name.c_str(), place.data, place.bytes});
    }
    if (raw.empty()) raw.reserve(1);  // not NULL: nothing is live any more
    return Status::of(wb_probe_end_pass(get(), raw.data(), raw.size()));
  }
  // Whether the real weights must be loaded now.
  Result<bool> abort() {
    std::int32_t reload = 0;
    const wb_code code = wb_probe_abort(get(), &reload);
    if (code != WB_OK) return Status::of(code);
    return reload != 0;
  }

  // All passes. `load(probe, pass)` runs the loader and returns a Status; `list()` gives the live
  // tensors as std::vector<ProbePlace>. After an error, also one of `load`, the probing is aborted;
  // with RestoreMode::kReload the real weights are then to be loaded.
  template <typename Load, typename List>
  Status run(Load load, List list) {
    for (;;) {
      const Result<ProbePass> pass = begin_pass();
      Status status = pass.status();
      if (status.ok() && pass->kind == PassKind::kDone) return status;
      if (status.ok()) status = load(*this, *pass);
      if (status.ok()) status = end_pass(list());
      if (status.ok()) continue;
      (void)abort();
      return status;
    }
  }

  Result<wb_probe_summary> summary() const {
    wb_probe_summary raw{};
    raw.struct_size = sizeof raw;
    const wb_code code = wb_probe_summary_of(get(), &raw);
    if (code != WB_OK) return Status::of(code);
    return raw;
  }
  Result<wb_probe_range> range(std::size_t index) const {
    wb_probe_range raw{};
    const wb_code code = wb_probe_range_at(get(), index, &raw);
    if (code != WB_OK) return Status::of(code);
    return raw;
  }
  Result<ProbeHomes> homes(std::size_t tensor) const {
    wb_probe_homes raw{};
    const wb_code code = wb_probe_homes_of(get(), tensor, &raw);
    if (code != WB_OK) return Status::of(code);
    return ProbeHomes{raw.name, raw.elements, raw.no_home, raw.one_home, raw.more_homes, raw.cast};
  }
  Result<Layout> layout() const {
    wb_layout* handle = nullptr;
    const wb_code code = wb_probe_layout(get(), &handle);
    if (code != WB_OK) return Status::of(code);
    return Layout(handle);
  }
  // JSON.
  Result<std::string> report() const { return Layout::text(wb_probe_report(get())); }
  wb_probe* get() const { return handle_.get(); }

 private:
  Probe(wb_probe* handle, std::size_t tensors) : handle_(handle), tensors_(tensors) {}
  std::unique_ptr<wb_probe, detail::Freer<wb_probe, wb_probe_free>> handle_;
  std::size_t tensors_;
};

// ---- Job ---------------------------------------------------------------------------------------

struct LogRecord {
  LogLevel level = LogLevel::kInfo;
  std::string_view room;
  std::string_view message;
  std::span<const wb_log_field> fields;
};

struct JobOptions {
  std::string store = {};       // "embed:HOST:PORT" or "http(s)://HOST:PORT[,...]"
  std::string token = {};       // or:
  std::string token_file = {};  // a file that only its owner may read
  std::string name = {};        // "": "default"
  std::string host = {};        // "": "127.0.0.1"
  std::string transports = {};  // "local,ucx"; "": see weightbridge.h
  std::string etcd_user = {};
  std::string etcd_password = {};
  std::string ca_file = {};
  LogLevel log_level = LogLevel::kInfo;
  // From any thread, never concurrently with itself; must not throw or call the library.
  std::function<void(const LogRecord&)> log = {};
};

// Copies share one job; it closes when the last copy, publisher and receiver of it is gone.
class Job {
 public:
  static Result<Job> open(const JobOptions& options, Timeout timeout) {
    auto log = std::make_unique<Log>(options.log);
    wb_job_options raw{};
    raw.struct_size = sizeof raw;
    raw.name = detail::text_or_null(options.name);
    raw.store = detail::text_or_null(options.store);
    raw.token = detail::text_or_null(options.token);
    raw.token_file = detail::text_or_null(options.token_file);
    raw.host = detail::text_or_null(options.host);
    raw.transports = detail::text_or_null(options.transports);
    raw.etcd_user = detail::text_or_null(options.etcd_user);
    raw.etcd_password = detail::text_or_null(options.etcd_password);
    raw.ca_file = detail::text_or_null(options.ca_file);
    raw.log_level = static_cast<std::int32_t>(options.log_level);
    if (*log) {
      raw.log = &write_log;
      raw.log_user = log.get();
    }
    wb_job* handle = nullptr;
    const wb_code code = wb_job_open(&raw, detail::milliseconds(timeout), &handle);
    if (code != WB_OK) return Status::of(code);
    return Job(std::make_shared<State>(handle, std::move(log)));
  }

  // The URL under which other processes reach the store.
  Result<std::string> store_url() const {
    const char* const url = wb_job_store_url(get());
    if (url == nullptr) return Status::of(wb_last_error()->code);
    return std::string(url);
  }
  Status close(Timeout timeout = kCloseTimeout) { return state_->close(timeout); }
  wb_job* get() const { return state_->get(); }

 private:
  friend class Publisher;
  friend class Receiver;
  using Log = std::function<void(const LogRecord&)>;
  using State = detail::Closing<wb_job, wb_job_close, Log>;

  static void write_log(void* user, std::int32_t level, const char* room, const char* message,
                        const wb_log_field* fields, std::size_t field_count) noexcept {
    (*static_cast<Log*>(user))(
        {static_cast<LogLevel>(level), room, message, std::span(fields, field_count)});
  }
  explicit Job(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

// ---- Publisher ---------------------------------------------------------------------------------

struct PublisherOptions {
  std::uint32_t rank = 0;
  std::uint32_t world = 1;
  PublishMode mode = PublishMode::kInPlace;
  std::uint32_t slots = 2;  // snapshot only
  bool huge_pages = false;  // of the slots
};

struct PublisherStats {
  std::uint64_t published = 0;
  std::chrono::nanoseconds last_publish{};
  std::chrono::nanoseconds last_begin{};
  std::chrono::nanoseconds max_publish{};
  Version version;
};

class Publisher {
 public:
  static Result<Publisher> create(const Job& job, const Layout& layout,
                                  const PublisherOptions& options, Timeout timeout) {
    const wb_publisher_options raw{sizeof(wb_publisher_options),
                                   options.rank,
                                   options.world,
                                   static_cast<wb_publish_mode>(options.mode),
                                   options.slots,
                                   options.huge_pages ? 1 : 0,
                                   0};
    wb_publisher* handle = nullptr;
    const wb_code code =
        wb_publisher_create(job.get(), layout.get(), &raw, detail::milliseconds(timeout), &handle);
    if (code != WB_OK) return Status::of(code);
    return Publisher(handle, job.state_);
  }

  Status begin_update(void* stream = nullptr) {
    return Status::of(wb_publisher_begin_update(get(), stream));
  }
  Status publish(std::uint64_t number, void* stream = nullptr) {
    return Status::of(wb_publisher_publish(get(), number, stream));
  }
  Status rejoin(Timeout timeout) {
    return Status::of(wb_publisher_rejoin(get(), detail::milliseconds(timeout)));
  }
  Result<PublisherStats> stats() const {
    wb_publisher_stats_t raw{};
    raw.struct_size = sizeof raw;
    if (const wb_code code = wb_publisher_stats(get(), &raw); code != WB_OK) {
      return Status::of(code);
    }
    using std::chrono::nanoseconds;
    return PublisherStats{raw.published,
                          nanoseconds(raw.last_publish_ns),
                          nanoseconds(raw.last_begin_ns),
                          nanoseconds(raw.max_publish_ns),
                          {raw.version.generation, raw.version.number}};
  }
  Result<std::string> report() const {
    const char* const text = wb_publisher_report(get());
    if (text == nullptr) return Status::of(wb_last_error()->code);
    return std::string(text);
  }
  Status close(Timeout timeout = kCloseTimeout) { return closing_.close(timeout); }
  wb_publisher* get() const { return closing_.get(); }

 private:
  using Owned = std::shared_ptr<Job::State>;
  Publisher(wb_publisher* handle, Owned job)
      : closing_(handle, std::make_unique<Owned>(std::move(job))) {}
  detail::Closing<wb_publisher, wb_publisher_close, Owned> closing_;
};

// ---- Receiver ----------------------------------------------------------------------------------

struct PullEvent {
  EventKind kind = EventKind::kStepBegin;
  PullStep step = PullStep::kDiscover;
  std::string_view source;
  Version version;
};

struct ReceiverOptions {
  std::string name = {};
  std::uint32_t index = 0;
  bool staging = false;
  bool huge_pages = false;  // of the staging set
  // On the pulling thread; may block, must not throw.
  std::function<void(const PullEvent&)> on_event = {};
};

struct SourceReport {
  std::string worker;
  std::string transport;
  std::string mechanism;
  std::string reason;
  std::uint64_t bytes = 0;
  std::uint64_t reads = 0;
};

struct TimelineEntry {
  PullStep step = PullStep::kDiscover;
  std::chrono::nanoseconds begin{};  // since the call of pull()
  std::chrono::nanoseconds end{};
};

struct PullReport {
  Version version;  // accepted, or last tried
  MemoryState memory = MemoryState::kUntouched;
  std::uint32_t attempts = 0;
  std::uint32_t torn = 0;
  std::uint64_t bytes = 0;
  std::uint64_t reads = 0;
  std::uint64_t versions_skipped = 0;
  std::chrono::nanoseconds read_time{};
  std::chrono::nanoseconds total_time{};
  std::vector<SourceReport> sources;
  std::vector<TimelineEntry> timeline;
  std::vector<std::string> finalisers;
};

class Receiver {
 public:
  static Result<Receiver> create(const Job& job, const Layout& layout,
                                 const ReceiverOptions& options, Timeout timeout) {
    auto owned = std::make_unique<Owned>(Owned{job.state_, options.on_event});
    wb_receiver_options raw{};
    raw.struct_size = sizeof raw;
    raw.name = detail::text_or_null(options.name);
    raw.index = options.index;
    raw.staging = options.staging ? 1 : 0;
    raw.huge_pages = options.huge_pages ? 1 : 0;
    if (owned->on_event) {
      raw.on_event = &forward_event;
      raw.event_user = owned.get();
    }
    wb_receiver* handle = nullptr;
    const wb_code code =
        wb_receiver_create(job.get(), layout.get(), &raw, detail::milliseconds(timeout), &handle);
    if (code != WB_OK) return Status::of(code);
    return Receiver(handle, std::move(owned));
  }

  // After an error, last_report().memory says what the buffers hold.
  Result<PullReport> pull(Want want, Timeout timeout) {
    const wb_pull_report* raw = nullptr;
    const wb_code code =
        wb_receiver_pull(get(), want.kind, want.number, detail::milliseconds(timeout), &raw);
    return finish(code, raw);
  }
  Result<PullReport> install() {
    const wb_pull_report* raw = nullptr;
    const wb_code code = wb_receiver_install(get(), &raw);
    return finish(code, raw);
  }
  // Of the last pull or install that reached the library's work, failed or not.
  const PullReport& last_report() const { return last_; }

  Result<std::string> report() const {
    const char* const text = wb_receiver_report(get());
    if (text == nullptr) return Status::of(wb_last_error()->code);
    return std::string(text);
  }
  Status close(Timeout timeout = kCloseTimeout) { return closing_.close(timeout); }
  wb_receiver* get() const { return closing_.get(); }

 private:
  struct Owned {
    std::shared_ptr<Job::State> job;
    std::function<void(const PullEvent&)> on_event;
  };

  static void forward_event(void* user, const wb_pull_event* raw) noexcept {
    static_cast<Owned*>(user)->on_event({static_cast<EventKind>(raw->kind),
                                         static_cast<PullStep>(raw->step),
                                         raw->source,
                                         {raw->version.generation, raw->version.number}});
  }

  static PullReport copy(const wb_pull_report& raw) {
    using std::chrono::nanoseconds;
    PullReport report;
    report.version = {raw.version.generation, raw.version.number};
    report.memory = static_cast<MemoryState>(raw.memory);
    report.attempts = raw.attempts;
    report.torn = raw.torn;
    report.bytes = raw.bytes;
    report.reads = raw.reads;
    report.versions_skipped = raw.versions_skipped;
    report.read_time = nanoseconds(raw.read_ns);
    report.total_time = nanoseconds(raw.total_ns);
    for (const auto& source : std::span(raw.sources, raw.source_count)) {
      report.sources.push_back({source.worker, source.transport, source.mechanism, source.reason,
                                source.bytes, source.reads});
    }
    for (const auto& entry : std::span(raw.timeline, raw.timeline_count)) {
      report.timeline.push_back({static_cast<PullStep>(entry.step), nanoseconds(entry.begin_ns),
                                 nanoseconds(entry.end_ns)});
    }
    for (const char* name : std::span(raw.finalisers, raw.finaliser_count)) {
      report.finalisers.emplace_back(name);
    }
    return report;
  }

  Result<PullReport> finish(wb_code code, const wb_pull_report* raw) {
    const Status status = Status::of(code);
    if (raw != nullptr) last_ = copy(*raw);
    if (!status.ok()) return status;
    return last_;
  }

  Receiver(wb_receiver* handle, std::unique_ptr<Owned> owned)
      : closing_(handle, std::move(owned)) {}
  detail::Closing<wb_receiver, wb_receiver_close, Owned> closing_;
  PullReport last_;
};

}  // namespace weightbridge

#endif
