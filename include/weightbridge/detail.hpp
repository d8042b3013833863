// Handles that close themselves. Part of weightbridge.hpp.
#ifndef WEIGHTBRIDGE_DETAIL_HPP
#define WEIGHTBRIDGE_DETAIL_HPP

#include <weightbridge/types.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace weightbridge {

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

}  // namespace weightbridge

#endif
