#include "control/wire.h"

#include <array>
#include <charconv>

namespace wb::wire {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<int8_t, 256> make_values() {
  std::array<int8_t, 256> values{};
  for (auto& value : values) value = -1;
  for (size_t i = 0; i < kAlphabet.size(); ++i) {
    values[static_cast<unsigned char>(kAlphabet[i])] = static_cast<int8_t>(i);
  }
  return values;
}
constexpr auto kValues = make_values();

int8_t value_of(char c) { return kValues[static_cast<unsigned char>(c)]; }

Status wrong(const char* field, const char* wanted) {
  return Status(Code::kBadData, std::string("field \"") + field + "\" is not " + wanted);
}

// The field, or null when it is absent or JSON's null.
const Json* find(const Json& object, const char* field) {
  const auto at = object.find(field);
  return at == object.end() || at->is_null() ? nullptr : &*at;
}

// Whether arrays and objects lie in each other deeper than kMaxDepth. Exact up to the first error
// of a text that is not JSON, which is as far as the parser builds values.
bool too_deep(std::string_view text) {
  size_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;  // the next character does not end the string
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) return true;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return false;
}

}  // namespace

std::string base64_encode(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t word = 0;
    for (size_t k = 0; k < 3; ++k) {
      word = (word << 8) | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    }
    for (size_t k = 0; k < 4; ++k) {
      out.push_back(k <= count ? kAlphabet[(word >> (18 - 6 * k)) & 63] : '=');
    }
  }
  return out;
}

std::optional<std::string> base64_decode(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::string out;
  out.reserve(text.size() / 4 * 3);
  for (size_t i = 0; i < text.size(); i += 4) {
    const bool last = i + 4 == text.size();
    const size_t padding = !last ? 0 : text[i + 3] != '=' ? 0 : text[i + 2] != '=' ? 1 : 2;
    uint32_t word = 0;
    for (size_t k = 0; k < 4; ++k) {
      const int8_t value = k < 4 - padding ? value_of(text[i + k]) : int8_t{0};
      if (value < 0) return std::nullopt;
      word = (word << 6) | static_cast<uint32_t>(value);
    }
    // Bits that no byte takes must be zero, so that each string has one spelling.
    if ((padding == 1 && (word & 0xFF) != 0) || (padding == 2 && (word & 0xFFFF) != 0)) {
      return std::nullopt;
    }
    for (size_t k = 0; k < 3 - padding; ++k) {
      out.push_back(static_cast<char>((word >> (16 - 8 * k)) & 0xFF));
    }
  }
  return out;
}

Result<Json> parse_object(std::string_view text) {
  if (too_deep(text)) return Status(Code::kBadData, "JSON that is nested too deeply");
  Json value = Json::parse(text, nullptr, false);
  if (value.is_discarded()) return Status(Code::kBadData, "not JSON");
  if (!value.is_object()) return Status(Code::kBadData, "not a JSON object");
  return value;
}

Result<int64_t> get_int(const Json& object, const char* field) {
  const Json* value = find(object, field);
  if (value == nullptr) return int64_t{0};
  if (value->is_number_unsigned()) {
    const auto number = value->get<uint64_t>();
    if (number > static_cast<uint64_t>(INT64_MAX)) return wrong(field, "a 64-bit number");
    return static_cast<int64_t>(number);
  }
  if (value->is_number_integer()) return value->get<int64_t>();
  if (!value->is_string()) return wrong(field, "a number");
  const auto& text = value->get_ref<const std::string&>();
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
    return wrong(field, "a 64-bit number");
  }
  return number;
}

Result<bool> get_bool(const Json& object, const char* field) {
  const Json* value = find(object, field);
  if (value == nullptr) return false;
  if (!value->is_boolean()) return wrong(field, "true or false");
  return value->get<bool>();
}

Result<std::string> get_text(const Json& object, const char* field) {
  const Json* value = find(object, field);
  if (value == nullptr) return std::string();
  if (!value->is_string()) return wrong(field, "a string");
  return value->get<std::string>();
}

Result<std::string> get_bytes(const Json& object, const char* field) {
  const Json* value = find(object, field);
  if (value == nullptr) return std::string();
  if (!value->is_string()) return wrong(field, "a string");
  auto bytes = base64_decode(value->get_ref<const std::string&>());
  if (!bytes) return wrong(field, "base64");
  return std::move(*bytes);
}

Result<const Json*> get_object(const Json& object, const char* field) {
  const Json* value = find(object, field);
  if (value != nullptr && !value->is_object()) return wrong(field, "an object");
  return value;
}

Result<const Json*> get_array(const Json& object, const char* field) {
  const Json* value = find(object, field);
  if (value != nullptr && !value->is_array()) return wrong(field, "an array");
  return value;
}

void put_int(Json* object, const char* field, int64_t value) {
  if (value != 0) (*object)[field] = std::to_string(value);
}
void put_bool(Json* object, const char* field, bool value) {
  if (value) (*object)[field] = true;
}
void put_bytes(Json* object, const char* field, std::string_view bytes) {
  if (!bytes.empty()) (*object)[field] = base64_encode(bytes);
}

KeyRange prefix_range(std::string_view prefix) {
  std::string end(prefix);
  while (!end.empty() && static_cast<unsigned char>(end.back()) == 0xFF) end.pop_back();
  if (prefix.empty()) return {std::string(1, '\0'), std::string(1, '\0')};
  // "\xff\xff": every key from the prefix on.
  if (end.empty()) return {std::string(prefix), std::string(1, '\0')};
  end.back() = static_cast<char>(static_cast<unsigned char>(end.back()) + 1);
  return {std::string(prefix), std::move(end)};
}

}  // namespace wb::wire
