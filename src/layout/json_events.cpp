#include "layout/json_events.h"

#include <nlohmann/json.hpp>

namespace wb {

// Each event returns whether the parser goes on; the reason why not is in status_.
class JsonListener::Sax final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Sax(JsonListener* listener) : listener_(listener) {}
  Status status() const { return status_; }

  bool null() override { return keep(listener_->on_value({Kind::kNull})); }
  bool boolean(bool truth) override {
    return keep(listener_->on_value({Kind::kBoolean, {}, truth ? uint64_t{1} : uint64_t{0}}));
  }
  bool number_integer(number_integer_t) override {
    return keep(listener_->on_value({Kind::kOther}));  // negative, or -0
  }
  bool number_unsigned(number_unsigned_t number) override {
    return keep(listener_->on_value({Kind::kUnsigned, {}, number}));
  }
  bool number_float(number_float_t, const string_t&) override {
    return keep(listener_->on_value({Kind::kOther}));
  }
  bool string(string_t& text) override { return keep(listener_->on_value({Kind::kString, text})); }
  bool binary(binary_t&) override { return keep(listener_->on_value({Kind::kOther})); }
  bool start_object(std::size_t) override { return open(Kind::kObject); }
  bool key(string_t& text) override {
    listener_->keys_.back() = std::move(text);
    return keep(listener_->on_key());
  }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(Kind::kArray); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception&) override {
    return keep(Status(Code::kBadData, "not valid JSON at byte " + std::to_string(position)));
  }

 private:
  bool keep(Status status) {
    status_ = std::move(status);
    return status_.ok();
  }
  bool open(Kind kind) {
    if (listener_->depth() == kMaxJsonDepth) {
      return keep(Status(Code::kBadData,
                         "JSON nested deeper than " + std::to_string(kMaxJsonDepth) + " levels"));
    }
    if (!keep(listener_->on_value({kind}))) return false;
    listener_->keys_.emplace_back();
    return true;
  }
  bool close() {
    listener_->keys_.pop_back();
    return keep(listener_->on_end());
  }

  JsonListener* listener_;
  Status status_;
};

Status JsonListener::walk(std::string_view text) {
  if (text.find('\0') != std::string_view::npos) {
    return Status(Code::kBadData, "not valid JSON: it holds a zero byte");
  }
  if (text.starts_with("\xEF\xBB\xBF")) {
    return Status(Code::kBadData, "not valid JSON: it starts with a byte order mark");
  }
  keys_.clear();
  Sax sax(this);
  const bool parsed = nlohmann::json::sax_parse(text.begin(), text.end(), &sax);
  if (parsed || !sax.status().ok()) return sax.status();
  return Status(Code::kBadData, "not valid JSON");
}

}  // namespace wb
