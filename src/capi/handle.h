// Handles that can be checked. What the caller holds is no pointer but a kind, a slot and the
// slot's generation, so a closed, foreign or wild handle is told from a live one without touching
// freed memory. A lookup takes one uncontended lock and allocates nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "base/status.h"

namespace wb::capi {

enum class Kind : uint8_t {
  kJob = 1,
  kTable = 2,
  kLayout = 3,
  kPublisher = 4,
  kReceiver = 5,
  kProbe = 6
};

// Never null. Throws std::bad_alloc; kNoMemory when a million handles are open.
Result<void*> insert_handle(Kind kind, std::shared_ptr<void> object);

// The object, which lives at least as long as the returned reference; kInvalidArgument otherwise.
Result<std::shared_ptr<void>> find_handle(Kind kind, const void* handle);

// Takes the object out: from now on the handle is invalid. Of several callers one succeeds.
Result<std::shared_ptr<void>> remove_handle(Kind kind, const void* handle);

// Typed faces. T::kKind says which kind of handle a T has.
template <typename T>
Result<std::shared_ptr<T>> find(const void* handle) {
  WB_ASSIGN_OR_RETURN(auto object, find_handle(T::kKind, handle));
  return std::static_pointer_cast<T>(std::move(object));
}

template <typename T, typename Handle>
Status publish_handle(std::shared_ptr<T> object, Handle** out) {
  WB_ASSIGN_OR_RETURN(void* const handle, insert_handle(T::kKind, std::move(object)));
  *out = static_cast<Handle*>(handle);
  return Status();
}

}  // namespace wb::capi
