// Walks untrusted JSON as events, with what the parser below leaves open closed: nesting is
// bounded, a zero byte does not end the text, and the first fault is kept as a Status. No tree is
// built, so memory stays proportional to what the listener keeps.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace wb {

// As deep as serde_json, and so the reference reader of safetensors, goes.
inline constexpr size_t kMaxJsonDepth = 127;

class JsonListener {
 public:
  virtual ~JsonListener() = default;

  // kBadData when `text` is not one JSON value; else the first error of the listener, if any.
  Status walk(std::string_view text);

 protected:
  enum class Kind { kObject, kArray, kString, kUnsigned, kBoolean, kOther, kNull };
  struct Value {
    Kind kind;
    std::string_view text = {};  // of a string
    uint64_t number = 0;         // of an integer >= 0, or 0 or 1 of a boolean
  };

  // A value inside depth() containers. For a container, before what is inside it.
  virtual Status on_value(const Value& value) = 0;
  // key(depth()) is a new key of the object at that depth.
  virtual Status on_key() { return Status(); }
  // The container at depth() + 1 has ended.
  virtual Status on_end() { return Status(); }

  size_t depth() const { return keys_.size(); }
  // The present key of the object at a depth from 1 (outermost) to depth(); empty in an array.
  const std::string& key(size_t depth) const { return keys_[depth - 1]; }

 private:
  class Sax;
  std::vector<std::string> keys_;
};

}  // namespace wb
