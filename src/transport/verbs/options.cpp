#include "transport/verbs/options.h"

#include <charconv>
#include <limits>

namespace wb {
namespace {

Status wrong(std::string_view key, std::string_view value, const std::string& right) {
  return Status(Code::kInvalidArgument,
                "verbs option " + std::string(key) + "=" + std::string(value) + ": " + right);
}

template <typename T>
Status number(std::string_view key, std::string_view value, uint64_t low, uint64_t high, T* out) {
  uint64_t parsed = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
  if (value.empty() || error != std::errc() || end != value.data() + value.size() || parsed < low ||
      parsed > high) {
    return wrong(key, value,
                 "a number from " + std::to_string(low) + " to " + std::to_string(high));
  }
  *out = static_cast<T>(parsed);
  return Status();
}

Status device_list(std::string_view key, std::string_view value, std::vector<std::string>* out) {
  out->clear();
  std::string_view rest = value;
  while (true) {
    const size_t plus = rest.find('+');
    const std::string_view name = rest.substr(0, plus);
    if (name.empty()) return wrong(key, value, "device names joined by '+'");
    out->emplace_back(name);
    if (plus == std::string_view::npos) return Status();
    rest.remove_prefix(plus + 1);
  }
}

Status flag(std::string_view key, std::string_view value, bool* out) {
  if (value != "0" && value != "1") return wrong(key, value, "0 or 1");
  *out = value == "1";
  return Status();
}

constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();

Status apply(std::string_view key, std::string_view value, VerbsOptions* o) {
  if (key == "library") {
    o->library = value;
    return value.empty() ? wrong(key, value, "the name of a library") : Status();
  }
  if (key == "devices") return device_list(key, value, &o->devices);
  if (key == "gid_index") return number(key, value, 0, 255, &o->gid_index);
  if (key == "pkey") return number(key, value, 1, 0xffff, &o->pkey);
  if (key == "mtu") return number(key, value, 256, 4096, &o->mtu);
  if (key == "sl") return number(key, value, 0, 15, &o->sl);
  if (key == "traffic_class") return number(key, value, 0, 255, &o->traffic_class);
  if (key == "timeout") return number(key, value, 1, 31, &o->timeout);
  if (key == "retry_count") return number(key, value, 0, 7, &o->retry_count);
  if (key == "read_depth") return number(key, value, 1, 255, &o->read_depth);
  if (key == "queue_pairs") return number(key, value, 1, 16, &o->queue_pairs);
  if (key == "max_read") return number(key, value, 4096, uint64_t{1} << 30, &o->max_read);
  if (key == "nic_budget") return number(key, value, 4096, kMost, &o->nic_budget);
  if (key == "max_slice") return number(key, value, 1u << 20, uint64_t{4} << 30, &o->max_slice);
  if (key == "max_sge") return number(key, value, 1, 64, &o->max_sge);
  if (key == "probe_ms") return number(key, value, 10, 3600000, &o->probe_ms);
  if (key == "relaxed_ordering") return flag(key, value, &o->relaxed_ordering);
  return Status(Code::kInvalidArgument, "there is no verbs option \"" + std::string(key) + "\"");
}

}  // namespace

Result<VerbsOptions> parse_verbs_options(std::string_view text) {
  VerbsOptions options;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view word = text.substr(0, comma);
    const size_t equals = word.find('=');
    if (equals == std::string_view::npos) {
      return Status(Code::kInvalidArgument,
                    "verbs options are KEY=VALUE,..., not \"" + std::string(word) + "\"");
    }
    WB_RETURN_IF_ERROR(apply(word.substr(0, equals), word.substr(equals + 1), &options));
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  WB_RETURN_IF_ERROR(check_verbs_options(options));
  return options;
}

Status check_verbs_options(const VerbsOptions& o) {
  const auto refuse = [](const std::string& why) {
    return Status(Code::kInvalidArgument, "verbs options: " + why);
  };
  if (o.mtu < 256 || o.mtu > 4096 || (o.mtu & (o.mtu - 1)) != 0) {
    return refuse("mtu is 256, 512, 1024, 2048 or 4096");
  }
  if (o.retry_count > 7) return refuse("retry_count is at most 7");
  if (o.timeout == 0 || o.timeout > 31) {
    return refuse("timeout is 1 to 31 (0 would wait for ever for a dead peer)");
  }
  if (o.read_depth == 0) return refuse("read_depth is at least 1");
  if (o.sl > 15) return refuse("sl is at most 15");
  if (o.queue_pairs > 16) return refuse("queue_pairs is at most 16");
  if (o.max_read < 4096) return refuse("max_read is at least 4096");
  if (o.max_sge == 0) return refuse("max_sge is at least 1");
  if (o.max_slice < (1u << 20)) return refuse("max_slice is at least 1 MiB");
  if (o.probe_ms == 0) return refuse("probe_ms is at least 1");
  if (o.nic_budget == 0) return refuse("nic_budget is at least 1");
  return Status();
}

}  // namespace wb
