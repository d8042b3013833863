#include "cli/demo_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "cli/reporter.h"

namespace wb::cli {
namespace {

// The middle of the values, or the mean of the two in the middle. 0 without values.
double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace

using nlohmann::json;

struct DemoResults::State {
  DemoSettings settings;
  std::map<uint64_t, std::map<uint64_t, json>> pulls;      // version -> receiver -> event
  std::map<uint64_t, std::map<uint64_t, json>> publishes;  // version -> trainer -> event
  std::map<uint64_t, uint64_t> needs;                      // receiver -> bytes
  std::map<uint64_t, json> held;                           // trainer -> its own memory, verified
  json startup = json::array();
  size_t ready_trainers = 0, ready_receivers = 0;

  uint64_t slowest_publish_ns(uint64_t version) const {
    uint64_t slowest = 0;
    if (const auto found = publishes.find(version); found != publishes.end()) {
      for (const auto& [rank, event] : found->second) {
        slowest = std::max(slowest, event.value("publish_ns", uint64_t{0}));
      }
    }
    return slowest;
  }
  template <typename Visit>
  void each_pull(Visit visit) const {
    for (const auto& [version, receivers] : pulls) {
      for (const auto& [receiver, event] : receivers) visit(version, receiver, event);
    }
  }
  uint64_t sum(const char* key) const {
    uint64_t total = 0;
    each_pull([&](uint64_t, uint64_t, const json& e) { total += e.value(key, uint64_t{0}); });
    return total;
  }
  uint64_t held_bytes() const {
    uint64_t total = 0;
    for (const auto& [trainer, e] : held) total += e.value("verified", uint64_t{0});
    return total;
  }
  uint64_t torn_of(uint64_t receiver) const {
    uint64_t total = 0;
    each_pull([&](uint64_t, uint64_t r, const json& e) {
      if (r == receiver) total += e.value("torn", uint64_t{0});
    });
    return total;
  }
  // Discover, plan and connect of the receiver that took longest; each receiver does it once.
  uint64_t setup_ns() const {
    std::map<uint64_t, uint64_t> spent;
    each_pull([&](uint64_t, uint64_t receiver, const json& e) {
      for (const json& entry : e.value("timeline", json::array())) {
        const std::string step = entry.value("step", "");
        if (step == "discover" || step == "plan" || step == "connect") {
          spent[receiver] +=
              entry.value("end_ns", uint64_t{0}) - entry.value("begin_ns", uint64_t{0});
        }
      }
    });
    uint64_t longest = 0;
    for (const auto& [receiver, ns] : spent) longest = std::max(longest, ns);
    return longest;
  }
  // How bytes came: "local (mapped memfd)" -> between whom, how many, and the reason of one of
  // them.
  struct Way {
    std::set<std::string> edges;
    uint64_t bytes = 0;
    std::string reason;
  };
  std::map<std::string, Way> ways() const {
    std::map<std::string, Way> found;
    each_pull([&](uint64_t, uint64_t receiver, const json& e) {
      for (const json& source : e.value("sources", json::array())) {
        Way& way =
            found[source.value("transport", "") + " (" + source.value("mechanism", "") + ")"];
        way.edges.insert(fmt::format("{}<-{}", receiver, source.value("worker", "")));
        way.bytes += source.value("bytes", uint64_t{0});
        way.reason = source.value("reason", "");
      }
    });
    return found;
  }
  // One line of the table.
  struct Row {
    uint64_t version = 0, receiver = 0, bytes = 0, read_ns = 0, publish_ns = 0;
    uint64_t verified = 0, needed = 0;
    double rate = 0;       // GB/s, which is bytes per nanosecond
    double of_memcpy = 0;  // memcpy's time divided by the pull's
  };
  std::vector<Row> rows() const {
    std::vector<Row> all;
    each_pull([&](uint64_t version, uint64_t receiver, const json& e) {
      Row row{.version = version, .receiver = receiver};
      row.bytes = e.value("bytes", uint64_t{0});
      row.read_ns = e.value("read_ns", uint64_t{0});
      row.publish_ns = slowest_publish_ns(version);
      row.verified = e.value("verified", uint64_t{0});
      row.needed = e.value("needed", uint64_t{0});
      if (row.read_ns != 0) {
        const auto ns = static_cast<double>(row.read_ns);
        row.rate = static_cast<double>(row.bytes) / ns;
        row.of_memcpy = static_cast<double>(e.value("memcpy_ns", uint64_t{0})) / ns;
      }
      all.push_back(row);
    });
    return all;
  }
  // Of all rows; the rates only of rows that moved bytes.
  struct Medians {
    double rate = 0, of_memcpy = 0, publish_ns = 0;
  };
  static Medians medians(const std::vector<Row>& rows) {
    std::vector<double> rate, of_memcpy, publish_ns;
    for (const Row& row : rows) {
      publish_ns.push_back(static_cast<double>(row.publish_ns));
      if (row.bytes == 0 || row.read_ns == 0) continue;
      rate.push_back(row.rate);
      of_memcpy.push_back(row.of_memcpy);
    }
    return {median(rate), median(of_memcpy), median(publish_ns)};
  }
  std::string table() const;
  std::string summary() const;
};

DemoResults::DemoResults(const DemoSettings& settings) : state_(new State) {
  state_->settings = settings;
}
DemoResults::~DemoResults() = default;

std::string DemoResults::add(const std::string& line) {
  const json event = json::parse(line, nullptr, false);
  if (!event.is_object()) return {};
  State& s = *state_;
  const std::string kind = event.value("event", "");
  const uint64_t rank = event.value("rank", uint64_t{0});
  const uint64_t version = event.value("version", uint64_t{0});
  if (kind == "ready" && event.contains("needs")) {
    s.needs[rank] = event.value("needs", uint64_t{0});
    if (++s.ready_receivers == s.settings.receivers) {
      return fmt::format("{} receivers have their memory", s.settings.receivers);
    }
  } else if (kind == "ready") {
    s.startup.push_back(event);
    if (++s.ready_trainers == s.settings.trainers) {
      return fmt::format("{} trainers have joined", s.settings.trainers);
    }
  } else if (kind == "verified") {
    s.held[rank] = event;
  } else if (kind == "startup") {
    s.startup.push_back(event);
  } else if (kind == "published") {
    s.publishes[version][rank] = event;
    if (s.publishes[version].size() == s.settings.trainers && version == s.settings.overlap()) {
      return fmt::format(
          "version {}: published; its weights will be changed in the middle of every read",
          version);
    }
  } else if (kind == "pulled") {
    s.pulls[version][rank] = event;
    if (s.pulls[version].size() == s.settings.receivers) {
      uint64_t wrong = 0, torn = 0;
      for (const auto& [receiver, e] : s.pulls[version]) {
        wrong += e.value("wrong", uint64_t{0});
        torn += e.value("torn", uint64_t{0});
      }
      std::string text =
          fmt::format("version {}: published in {}, pulled by {} receivers, {} wrong bytes",
                      version, human_time(static_cast<double>(s.slowest_publish_ns(version))),
                      s.settings.receivers, wrong);
      if (torn != 0) text += fmt::format("; {} torn reads detected before it", torn);
      return text;
    }
  }
  return {};
}

std::string DemoResults::fault() const {
  const State& s = *state_;
  std::map<uint64_t, uint64_t> pulls_of;
  std::string fault;
  s.each_pull([&](uint64_t version, uint64_t receiver, const json& e) {
    ++pulls_of[receiver];
    if (!fault.empty()) return;
    const uint64_t needed = e.value("needed", uint64_t{0});
    const std::string where = fmt::format("rollout-{} at version {}: ", receiver, version);
    if (const std::string found = e.value("fault", "not verified"); !found.empty()) {
      fault = where + found;
    } else if (e.value("wrong", uint64_t{1}) != 0) {
      fault = where + "wrong bytes";
    } else if (e.value("verified", uint64_t{0}) != needed ||
               e.value("expected", uint64_t{0}) != needed ||
               e.value("bytes", uint64_t{0}) != needed) {
      fault = where + fmt::format("{} bytes needed, {} pulled, {} expected, {} verified", needed,
                                  e.value("bytes", uint64_t{0}), e.value("expected", uint64_t{0}),
                                  e.value("verified", uint64_t{0}));
    }
  });
  if (!fault.empty()) return fault;
  for (uint64_t receiver = 0; receiver < s.settings.receivers; ++receiver) {
    // A rank without bytes has nothing to be torn, so it may also hold the disturbed version.
    const bool empty = s.needs.count(receiver) != 0 && s.needs.at(receiver) == 0;
    if (pulls_of[receiver] < s.settings.versions ||
        (!empty && pulls_of[receiver] != s.settings.versions)) {
      return fmt::format("rollout-{} pulled {} versions instead of {}", receiver,
                         pulls_of[receiver], s.settings.versions);
    }
    if (s.settings.in_place() && !empty && s.torn_of(receiver) == 0) {
      return fmt::format(
          "rollout-{} detected no torn read although the weights changed in the middle of one",
          receiver);
    }
  }
  for (uint64_t trainer = 0; trainer < s.settings.trainers; ++trainer) {
    const auto held = s.held.find(trainer);
    if (held == s.held.end() || held->second.value("verified", uint64_t{0}) !=
                                    held->second.value("expected", uint64_t{1})) {
      return fmt::format("the memory of trainer-{} was not verified", trainer);
    }
  }
  return {};
}

std::string DemoResults::State::table() const {
  std::string out =
      fmt::format("\n{:>7}  {:<11} {:>10} {:>10} {:>7} {:>9} {:>10}  {}\n", "version", "receiver",
                  "bytes", "time", "GB/s", "of memcpy", "publish", "verified of needed");
  const std::vector<Row> all = rows();
  for (const Row& row : all) {
    out += fmt::format("{:>7}  {:<11} {:>10} {:>10} {:>7.2f} {:>9.2f} {:>10}  {} of {}\n",
                       row.version, fmt::format("rollout-{}", row.receiver),
                       human_bytes(static_cast<double>(row.bytes)),
                       human_time(static_cast<double>(row.read_ns)), row.rate, row.of_memcpy,
                       human_time(static_cast<double>(row.publish_ns)), row.verified, row.needed);
  }
  const Medians middle = medians(all);
  out +=
      fmt::format("{:>7}  {:<11} {:>10} {:>10} {:>7.2f} {:>9.2f} {:>10}\n", "median", "of all rows",
                  "", "", middle.rate, middle.of_memcpy, human_time(middle.publish_ns));
  out +=
      "time: from the first posted read to the last byte. of memcpy: the time in which each\n"
      "receiver, all at once as in the pull, copies as many bytes with memcpy right after it,\n"
      "divided by the time of the pull; a single row is one short measurement on a shared "
      "machine,\n"
      "so look at the median. publish: the slowest trainer's call.\n";
  return out;
}

std::string DemoResults::State::summary() const {
  std::string out = "\nhow the bytes came:\n";
  for (const auto& [way, use] : ways()) {
    out += fmt::format("  {} pairs of processes, {} by {}\n    why: {}\n", use.edges.size(),
                       human_bytes(static_cast<double>(use.bytes)), way, use.reason);
  }
  out += fmt::format("set-up (discover, plan and prove, connect): {} for the slowest receiver\n",
                     human_time(static_cast<double>(setup_ns())));
  const uint64_t torn = sum("torn");
  out += fmt::format("torn reads detected: {}{}; versions skipped by receivers: {}\n", torn,
                     torn == 0 ? "" : ", each discarded and retried", sum("skipped"));
  out += fmt::format("bytes verified: {} of {} needed; padding bytes found zero: {}\n",
                     sum("verified"), sum("needed"), sum("padding"));
  out += fmt::format("bytes of the trainers' own memory verified: {}\n", held_bytes());
  return out;
}

std::string DemoResults::text(const std::string& failure) const {
  const State& s = *state_;
  std::string out;
  if (!s.pulls.empty()) out = s.table() + s.summary();
  const std::string why = failure.empty() ? fault() : failure;
  if (!why.empty()) return out + "\nFAIL\n";
  size_t pulls = 0;
  s.each_pull([&](uint64_t, uint64_t, const json&) { ++pulls; });
  out += fmt::format(
      "\nPASS: {} pulls by {} receivers, every byte of every version verified, 0 wrong\n", pulls,
      s.settings.receivers);
  return out;
}

json DemoResults::to_json(const std::string& failure, double seconds) const {
  const State& s = *state_;
  json pulls = json::array(), publishes = json::array(), ways = json::array();
  s.each_pull([&](uint64_t, uint64_t, const json& e) { pulls.push_back(e); });
  for (const auto& [version, ranks] : s.publishes) {
    for (const auto& [rank, event] : ranks) publishes.push_back(event);
  }
  for (const auto& [way, use] : s.ways()) {
    ways.push_back(
        {{"how", way}, {"why", use.reason}, {"pairs", use.edges.size()}, {"bytes", use.bytes}});
  }
  const std::string why = failure.empty() ? fault() : failure;
  const State::Medians middle = State::medians(s.rows());
  return {{"model", s.settings.model},
          {"trainer", s.settings.trainer},
          {"rollout", s.settings.rollout},
          {"mode", s.settings.mode},
          {"transport", s.settings.transport},
          {"memory", s.settings.memory},
          {"versions", s.settings.versions},
          {"verdict", why.empty() ? "pass" : "fail"},
          {"failure", why},
          {"seconds", seconds},
          {"setup_ns", s.setup_ns()},
          {"median",
           {{"gb_per_s", middle.rate},
            {"of_memcpy", middle.of_memcpy},
            {"publish_ns", middle.publish_ns}}},
          {"torn", s.sum("torn")},
          {"skipped", s.sum("skipped")},
          {"wrong_bytes", s.sum("wrong")},
          {"verified_bytes", s.sum("verified")},
          {"needed_bytes", s.sum("needed")},
          {"padding_bytes", s.sum("padding")},
          {"trainer_bytes", s.held_bytes()},
          {"ways", std::move(ways)},
          {"publishes", std::move(publishes)},
          {"pulls", std::move(pulls)},
          {"startup", s.startup}};
}

}  // namespace wb::cli
