#include "cli/cluster_file.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/checked.h"
#include "layout/input_file.h"
#include "layout/json_events.h"
#include "layout/quote.h"

namespace wb::cli {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxFileBytes = 16 << 20;
constexpr uint64_t kMaxHosts = 1 << 16;
constexpr uint64_t kMaxNics = 64;       // of one host
constexpr uint64_t kMaxWorkers = 1024;  // on one host
constexpr uint64_t kMaxNanoseconds = 1'000'000'000;
constexpr uint64_t kMaxSpeed = uint64_t{1} << 50;

Status fault(const std::string& where, const std::string& what) {
  return Status(Code::kBadData, where + ": " + what);
}

// Refuses what a tree would hide: members that are there twice, and deep nesting.
class Strict : public JsonListener {
 private:
  Status on_value(const Value&) override {
    if (names_.size() < depth() + 2) names_.resize(depth() + 2);
    names_[depth() + 1].clear();  // of the container that this value may be
    return Status();
  }
  Status on_key() override {
    if (names_[depth()].insert(key(depth())).second) return Status();
    return Status(Code::kBadData, quote(key(depth())) + " is there twice");
  }
  std::vector<std::set<std::string>> names_;
};

// An object whose members are all known.
class Object {
 public:
  static Result<Object> of(const json& value, std::string where,
                           std::initializer_list<std::string_view> known) {
    if (!value.is_object()) return fault(where, "not an object");
    for (const auto& [name, member] : value.items()) {
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      std::string names;
      for (const std::string_view each : known)
        names += (names.empty() ? "" : ", ") + std::string(each);
      return fault(where, "unknown member " + quote(name) + "; there are " + names);
    }
    return Object(value, std::move(where));
  }

  bool has(const char* name) const { return value_->contains(name); }
  std::string at(const char* name) const { return where_ + "." + name; }
  const std::string& where() const { return where_; }

  Result<std::string> text(const char* name) const {
    const auto found = value_->find(name);
    if (found == value_->end()) return fault(where_, std::string(name) + " is missing");
    if (!found->is_string() || found->get_ref<const std::string&>().empty()) {
      return fault(at(name), "not a name");
    }
    return found->get<std::string>();
  }

  Result<uint64_t> number(const char* name, uint64_t otherwise, uint64_t least,
                          uint64_t most) const {
    const auto found = value_->find(name);
    if (found == value_->end()) return otherwise;
    if (!found->is_number_unsigned() || found->get<uint64_t>() < least ||
        found->get<uint64_t>() > most) {
      return fault(at(name), fmt::format("not a whole number from {} to {}", least, most));
    }
    return found->get<uint64_t>();
  }

  // The elements of a list, which must be there and not be empty unless `optional`.
  Result<std::vector<const json*>> list(const char* name, bool optional = false) const {
    std::vector<const json*> out;
    const auto found = value_->find(name);
    if (found == value_->end()) {
      if (optional) return out;
      return fault(where_, std::string(name) + " is missing");
    }
    if (!found->is_array() || (found->empty() && !optional)) return fault(at(name), "not a list");
    for (const json& element : *found) out.push_back(&element);
    return out;
  }

 private:
  Object(const json& value, std::string where) : value_(&value), where_(std::move(where)) {}

  const json* value_;
  std::string where_;
};

struct Unit {
  std::string_view name;
  uint64_t milli;  // thousandths of it in bytes per second
};
// Bits and bytes are told apart by the letter, as on data sheets.
constexpr std::array<Unit, 7> kUnits = {{{"Mb/s", 125},
                                         {"Gb/s", 125'000},
                                         {"Tb/s", 125'000'000},
                                         {"KB/s", 1},
                                         {"MB/s", 1'000},
                                         {"GB/s", 1'000'000},
                                         {"TB/s", 1'000'000'000}}};

// "400Gb/s", "12.5 GB/s": at most three digits behind the point.
std::optional<uint64_t> speed_of(std::string_view text) {
  uint64_t thousandths = 0;
  size_t at = 0, behind = 0;
  bool point = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '.' && !point && at > 0) {
      point = true;
      continue;
    }
    if (c < '0' || c > '9') break;
    if (thousandths > kMaxSpeed || (point && ++behind > 3)) return std::nullopt;
    thousandths = thousandths * 10 + static_cast<uint64_t>(c - '0');
  }
  if (at == 0 || (point && behind == 0)) return std::nullopt;
  for (; behind < 3; ++behind) thousandths *= 10;
  std::string_view unit = text.substr(at);
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  for (const Unit& each : kUnits) {
    if (each.name != unit) continue;
    const auto speed = checked_mul(thousandths, each.milli);
    if (!speed || *speed > kMaxSpeed) return std::nullopt;
    return speed;
  }
  return std::nullopt;
}

Result<uint64_t> speed(const Object& object, const char* name) {
  WB_ASSIGN_OR_RETURN(const std::string text, object.text(name));
  const auto value = speed_of(text);
  if (!value) {
    return fault(object.at(name),
                 quote(text) + " is not a speed up to 1 PB/s such as \"400Gb/s\" or \"50GB/s\"");
  }
  if (*value == 0) return fault(object.at(name), "a speed of zero");
  return *value;
}

class Parser {
 public:
  Parser(uint32_t trainers, uint32_t receivers) : trainers_(trainers), receivers_(receivers) {}

  Result<ClusterFile> run(const json& tree) {
    WB_ASSIGN_OR_RETURN(const Object top, Object::of(tree, "cluster",
                                                     {"hosts", "switches", "trainer", "rollout",
                                                      "read_ns", "latency_ns"}));
    WB_RETURN_IF_ERROR(add_switches(top));
    WB_ASSIGN_OR_RETURN(const auto hosts, top.list("hosts"));
    for (size_t i = 0; i < hosts.size(); ++i) {
      WB_RETURN_IF_ERROR(add_hosts(*hosts[i], fmt::format("hosts[{}]", i)));
    }
    WB_RETURN_IF_ERROR(seat(top, "trainer", trainers_, &out_.cluster.sources));
    WB_RETURN_IF_ERROR(seat(top, "rollout", receivers_, &out_.cluster.receivers));
    WB_ASSIGN_OR_RETURN(out_.fabric.latency_ns, top.number("latency_ns", 0, 0, kMaxNanoseconds));
    if (top.has("read_ns")) {
      WB_ASSIGN_OR_RETURN(out_.read_ns, top.number("read_ns", 0, 0, kMaxNanoseconds));
    }
    return std::move(out_);
  }

 private:
  // Hosts [begin, end) carry this name.
  struct Group {
    uint32_t begin = 0;
    uint32_t end = 0;
  };

  Status add_switches(const Object& top) {
    WB_ASSIGN_OR_RETURN(const auto list, top.list("switches", /*optional=*/true));
    if (list.size() > kMaxHosts) return fault("switches", fmt::format("more than {}", kMaxHosts));
    std::vector<std::string> parents;
    for (size_t i = 0; i < list.size(); ++i) {
      const std::string where = fmt::format("switches[{}]", i);
      WB_ASSIGN_OR_RETURN(const Object object,
                          Object::of(*list[i], where, {"name", "uplink", "parent"}));
      Switch added;
      WB_ASSIGN_OR_RETURN(added.name, object.text("name"));
      if (object.has("uplink")) {
        WB_ASSIGN_OR_RETURN(added.uplink_bytes_per_second, speed(object, "uplink"));
      }
      parents.emplace_back();
      if (object.has("parent")) {
        WB_ASSIGN_OR_RETURN(parents.back(), object.text("parent"));
      }
      if (!switches_.emplace(added.name, static_cast<uint32_t>(i)).second) {
        return fault(object.at("name"), quote(added.name) + " is there twice");
      }
      out_.fabric.switches.push_back(std::move(added));
    }
    for (size_t i = 0; i < parents.size(); ++i) {
      if (parents[i].empty()) continue;
      const auto found = switches_.find(parents[i]);
      if (found == switches_.end()) {
        return fault(fmt::format("switches[{}].parent", i),
                     "there is no switch " + quote(parents[i]));
      }
      out_.fabric.switches[i].parent = found->second;
    }
    return find_cycle();
  }

  // Follows each switch upwards; one that is met again on the same way up is its own ancestor.
  Status find_cycle() const {
    const auto& switches = out_.fabric.switches;
    std::vector<uint32_t> seen(switches.size(), kNoSwitch);
    for (uint32_t start = 0; start < switches.size(); ++start) {
      for (uint32_t at = start; at != kNoSwitch && seen[at] != start; at = switches[at].parent) {
        const bool known = seen[at] != kNoSwitch;
        seen[at] = start;
        if (known) break;  // an earlier way up from here has ended at the core
        const uint32_t parent = switches[at].parent;
        if (parent != kNoSwitch && seen[parent] == start) {
          return fault(fmt::format("switches[{}].parent", at),
                       fmt::format("{} and {} are above each other", quote(switches[at].name),
                                   quote(switches[parent].name)));
        }
      }
    }
    return Status();
  }

  Status add_hosts(const json& value, const std::string& where) {
    WB_ASSIGN_OR_RETURN(
        const Object object,
        Object::of(value, where, {"name", "count", "nics", "inside", "domain", "switch"}));
    WB_ASSIGN_OR_RETURN(const std::string name, object.text("name"));
    WB_ASSIGN_OR_RETURN(const uint64_t count, object.number("count", 1, 1, kMaxHosts));
    if (out_.cluster.hosts.size() + count > kMaxHosts) {
      return fault(object.at("count"), fmt::format("more than {} hosts", kMaxHosts));
    }
    Host host;
    WB_ASSIGN_OR_RETURN(host.nics, nics(object));
    WB_ASSIGN_OR_RETURN(host.inside_bytes_per_second, speed(object, "inside"));
    if (object.has("domain")) {
      WB_ASSIGN_OR_RETURN(const std::string text, object.text("domain"));
      const auto next = static_cast<uint32_t>(domains_.size() + 1);  // 0: none
      host.domain = domains_.emplace(text, next).first->second;
    }
    uint32_t leaf = kNoSwitch;
    if (object.has("switch")) {
      WB_ASSIGN_OR_RETURN(const std::string text, object.text("switch"));
      const auto found = switches_.find(text);
      if (found == switches_.end()) {
        return fault(object.at("switch"), "there is no switch " + quote(text));
      }
      leaf = found->second;
    }
    const auto first = static_cast<uint32_t>(out_.cluster.hosts.size());
    const auto end = first + static_cast<uint32_t>(count);
    const bool numbered = object.has("count");
    for (uint32_t i = first; i < end; ++i) {
      host.name = numbered ? fmt::format("{}-{}", name, i - first) : name;
      if (!names_.insert(host.name).second) {
        return fault(object.at("name"), "a second host " + quote(host.name));
      }
      out_.cluster.hosts.push_back(host);
      out_.fabric.switch_of_host.push_back(leaf);
      if (numbered && !groups_.emplace(host.name, Group{i, i + 1}).second) {
        return fault(object.at("name"), quote(host.name) + " is there twice");
      }
    }
    if (!groups_.emplace(name, Group{first, end}).second) {
      return fault(object.at("name"), quote(name) + " is there twice");
    }
    return Status();
  }

  Result<std::vector<Nic>> nics(const Object& host) {
    WB_ASSIGN_OR_RETURN(const auto list, host.list("nics"));
    std::vector<Nic> out;
    for (size_t i = 0; i < list.size(); ++i) {
      const std::string where = fmt::format("{}[{}]", host.at("nics"), i);
      WB_ASSIGN_OR_RETURN(const Object object,
                          Object::of(*list[i], where, {"speed", "duplex", "count", "numa"}));
      Nic nic;
      WB_ASSIGN_OR_RETURN(nic.bytes_per_second, speed(object, "speed"));
      WB_ASSIGN_OR_RETURN(const uint64_t numa, object.number("numa", 0, 0, 1024));
      nic.numa = static_cast<uint32_t>(numa);
      if (object.has("duplex")) {
        WB_ASSIGN_OR_RETURN(const std::string duplex, object.text("duplex"));
        if (duplex != "full" && duplex != "half") {
          return fault(object.at("duplex"), quote(duplex) + " is neither full nor half");
        }
        nic.full_duplex = duplex == "full";
      }
      WB_ASSIGN_OR_RETURN(const uint64_t count, object.number("count", 1, 1, kMaxNics));
      out.insert(out.end(), static_cast<size_t>(count), nic);
      if (out.size() > kMaxNics) return fault(where, fmt::format("more than {} NICs", kMaxNics));
    }
    return out;
  }

  Status seat(const Object& top, const char* side, uint32_t workers, std::vector<Seat>* seats) {
    WB_ASSIGN_OR_RETURN(const auto list, top.list(side));
    for (size_t i = 0; i < list.size(); ++i) {
      const std::string where = fmt::format("{}[{}]", side, i);
      WB_ASSIGN_OR_RETURN(const Object object,
                          Object::of(*list[i], where, {"host", "per_host", "nic"}));
      WB_ASSIGN_OR_RETURN(const std::string name, object.text("host"));
      const auto found = groups_.find(name);
      if (found == groups_.end()) {
        return fault(object.at("host"), "there is no host " + quote(name));
      }
      WB_ASSIGN_OR_RETURN(const uint64_t per_host, object.number("per_host", 1, 1, kMaxWorkers));
      for (uint32_t host = found->second.begin; host < found->second.end; ++host) {
        const uint64_t nics = out_.cluster.hosts[host].nics.size();
        if (object.has("nic")) {
          WB_ASSIGN_OR_RETURN(const uint64_t nic, object.number("nic", 0, 0, nics - 1));
          seats->insert(seats->end(), static_cast<size_t>(per_host),
                        Seat{host, static_cast<uint32_t>(nic)});
        } else {
          // Spread evenly; with fewer workers than NICs each has the first of its share.
          for (uint64_t w = 0; w < per_host; ++w) {
            seats->push_back({host, static_cast<uint32_t>(w * nics / per_host)});
          }
        }
        if (seats->size() > workers) {
          return fault(where, fmt::format("more than {} seats for as many workers", workers));
        }
      }
    }
    if (seats->size() == workers) return Status();
    return fault(side, fmt::format("{} seats for {} workers", seats->size(), workers));
  }

  const uint32_t trainers_;
  const uint32_t receivers_;
  ClusterFile out_;
  std::map<std::string, uint32_t> switches_;
  std::map<std::string, uint32_t> domains_;
  std::set<std::string> names_;          // of hosts
  std::map<std::string, Group> groups_;  // by name of a host, or of several
};

}  // namespace

Result<ClusterFile> parse_cluster(std::string_view text, uint32_t trainers, uint32_t receivers) {
  Strict strict;
  WB_RETURN_IF_ERROR(strict.walk(text));
  const json tree = json::parse(text, nullptr, /*allow_exceptions=*/false);
  return Parser(trainers, receivers).run(tree);
}

Result<ClusterFile> read_cluster(const std::string& path, uint32_t trainers, uint32_t receivers) {
  WB_ASSIGN_OR_RETURN(const InputFile file, InputFile::open(path));
  WB_ASSIGN_OR_RETURN(const std::string text, file.read_all(kMaxFileBytes));
  auto parsed = parse_cluster(text, trainers, receivers);
  if (!parsed.ok()) return parsed.status().prefixed(path + ": ");
  return parsed;
}

}  // namespace wb::cli
