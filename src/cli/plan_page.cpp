#include "cli/plan_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "cli/reporter.h"
#include "plan/side_index.h"

namespace wb::cli {
namespace {

using nlohmann::json;

constexpr size_t kMostCells = 512;     // of the matrix, in each direction
constexpr size_t kMostTensors = 400;   // shown without being asked for
constexpr size_t kMostBoxes = 40'000;  // of all tensors shown
constexpr std::string_view kFooter =
    "Made by weightbridge. Bytes in powers of ten. Times are estimates from the speeds given, not "
    "measurements.";

// ---- the matrix of bytes

json host_lines(const std::vector<Seat>& seats, size_t step) {
  json lines = json::array();
  for (size_t i = 1; i < seats.size(); ++i) {
    if (seats[i].host != seats[i - 1].host) {
      lines.push_back(static_cast<double>(i) / static_cast<double>(step));
    }
  }
  return lines.size() > 128 ? json::array() : lines;
}

template <typename Workers>
json names_of(const Workers& workers) {
  json names = json::array();
  for (const auto& worker : workers) names.push_back(worker.name);
  return names;
}

json matrix_view(const PlanJob& job, const std::vector<FleetEdge>& edges, bool peers) {
  const Fleet& fleet = job.fleet();
  const auto& from_seats = peers ? job.cluster().receivers : job.cluster().sources;
  const auto& to_seats = job.cluster().receivers;
  const auto step_of = [](size_t n) { return (n + kMostCells - 1) / kMostCells; };
  const size_t column_step = step_of(from_seats.size()), row_step = step_of(to_seats.size());
  const size_t columns = (from_seats.size() + column_step - 1) / column_step;
  const size_t rows = (to_seats.size() + row_step - 1) / row_step;
  std::vector<uint64_t> cells(rows * columns);
  for (const FleetEdge& edge : edges) {
    if (edge.from_peer != peers) continue;
    cells[edge.receiver / row_step * columns + edge.from / column_step] += edge.bytes;
  }
  const auto label = [](const char* what, size_t step) {
    return step == 1 ? std::string(what) : fmt::format("{} ({} a cell)", what, step);
  };
  return {{"title", peers ? "From receivers" : "From trainers"},
          {"rows", rows},
          {"columns", columns},
          {"row_step", row_step},
          {"column_step", column_step},
          {"row_label", label("receivers", row_step)},
          {"column_label", label(peers ? "receivers that pass on" : "trainers", column_step)},
          {"row_names", names_of(fleet.receivers())},
          {"column_names", peers ? names_of(fleet.receivers()) : names_of(fleet.sources())},
          {"row_hosts", host_lines(to_seats, row_step)},
          {"column_hosts", host_lines(from_seats, column_step)},
          {"cells", cells}};
}

json matrix(const PlanJob& job) {
  const std::vector<FleetEdge> edges = fleet_edges(job.plan());
  json views = json::array();
  views.push_back(matrix_view(job, edges, false));
  const bool peers =
      std::any_of(edges.begin(), edges.end(), [](const FleetEdge& edge) { return edge.from_peer; });
  if (peers) views.push_back(matrix_view(job, edges, true));
  return views;
}

// ---- tensors

// "model.layers.3.mlp.w" -> "model.layers.{}.mlp.w" with {3}.
std::pair<std::string, std::vector<uint64_t>> kind_of(const std::string& name) {
  std::string kind;
  std::vector<uint64_t> numbers;
  size_t at = 0;
  while (at <= name.size()) {
    const size_t dot = std::min(name.find('.', at), name.size());
    const std::string word = name.substr(at, dot - at);
    const bool number = !word.empty() && word.size() < 10 &&
                        word.find_first_not_of("0123456789") == std::string::npos;
    if (number) numbers.push_back(std::stoull(word));
    kind += (at == 0 ? "" : ".") + (number ? std::string("{}") : word);
    at = dot + 1;
  }
  return {std::move(kind), std::move(numbers)};
}

// All tensors of a small table; of a large one the first, a middle and the last of each kind.
std::vector<uint32_t> chosen_tensors(const TensorTable& table) {
  std::vector<uint32_t> chosen;
  if (table.size() <= kMostTensors) {
    for (uint32_t t = 0; t < table.size(); ++t) chosen.push_back(t);
    return chosen;
  }
  std::map<std::string, std::vector<std::pair<std::vector<uint64_t>, uint32_t>>> kinds;
  for (uint32_t t = 0; t < table.size(); ++t) {
    auto [kind, numbers] = kind_of(table[t].name);
    kinds[kind].emplace_back(std::move(numbers), t);
  }
  for (auto& [kind, tensors] : kinds) {
    std::sort(tensors.begin(), tensors.end());
    const size_t n = tensors.size();
    for (const size_t i : {size_t{0}, n / 2, n - 1}) chosen.push_back(tensors[i].second);
  }
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  if (chosen.size() > kMostTensors) chosen.resize(kMostTensors);
  return chosen;
}

using BoxKey = std::vector<int64_t>;

// The boxes in which one side holds the chosen tensors, and who holds each.
class Cuts {
 public:
  Cuts(const TensorTable& table, const SideIndex& side, const std::vector<uint32_t>& chosen)
      : table_(table) {
    for (const uint32_t tensor : chosen) {
      auto& boxes = boxes_[tensor];
      side.for_each_group(tensor, [&](const SideIndex::Group& group) {
        for (const uint32_t p : group.pieces) {
          for (const SideIndex::Worker& worker : side.workers_of(group.family)) {
            const Piece piece = side.family(group.family).piece(p, worker.index);
            BoxKey key;
            for (int d = 0; d < piece.box.rank(); ++d) {
              const Progression& dim = piece.box.dim(d);
              key.insert(key.end(), {dim.start, dim.count, dim.step});
            }
            boxes[key].push_back(worker.worker);
          }
        }
      });
      for (auto& [key, holders] : boxes) {
        std::sort(holders.begin(), holders.end());
        holders.erase(std::unique(holders.begin(), holders.end()), holders.end());
      }
    }
  }

  size_t count(uint32_t tensor) const { return boxes_.at(tensor).size(); }

  json boxes(uint32_t tensor) const {
    const uint64_t unit = dtype_info(table_[tensor].dtype).unit_bytes;
    json out = json::array();
    for (const auto& [key, holders] : boxes_.at(tensor)) {
      json box = json::array();
      uint64_t elements = 1;
      for (size_t d = 0; d < key.size(); d += 3) {
        box.push_back({key[d], key[d + 1], key[d + 2]});
        elements *= static_cast<uint64_t>(key[d + 1]);
      }
      out.push_back(
          {{"box", std::move(box)}, {"bytes", elements * unit}, {"who", ranks_text(holders)}});
    }
    return out;
  }

 private:
  const TensorTable& table_;
  std::map<uint32_t, std::map<BoxKey, std::vector<uint32_t>>> boxes_;
};

Result<json> tensor_cuts(const PlanJob& job, const std::vector<std::string>& wanted) {
  const TensorTable& table = job.fleet().table();
  std::vector<uint32_t> chosen = chosen_tensors(table);
  uint32_t first = UINT32_MAX;
  for (const std::string& name : wanted) {
    WB_ASSIGN_OR_RETURN(const uint32_t tensor, table.find(name));
    if (std::find(chosen.begin(), chosen.end(), tensor) == chosen.end()) chosen.push_back(tensor);
    if (first == UINT32_MAX) first = tensor;
  }
  Cuts from(table, job.fleet().source_index(), chosen),
      to(table, job.fleet().receiver_index(), chosen);
  // At first the one that is cut on both sides into the most, but not too many, boxes.
  const auto score = [&](uint32_t tensor) {
    const size_t both = std::min(from.count(tensor), to.count(tensor));
    return std::tuple(std::min<size_t>(both, 4), from.count(tensor) + to.count(tensor) <= 64,
                      table[tensor].bytes());
  };
  if (first == UINT32_MAX && !chosen.empty()) {
    first = *std::max_element(chosen.begin(), chosen.end(),
                              [&](uint32_t a, uint32_t b) { return score(a) < score(b); });
  }
  json list = json::array();
  size_t boxes = 0, shown = 0, at = 0;
  for (const uint32_t tensor : chosen) {
    boxes += from.count(tensor) + to.count(tensor);
    if (boxes > kMostBoxes && tensor != first) continue;
    if (tensor == first) at = shown;
    ++shown;
    const TensorInfo& info = table[tensor];
    list.push_back({{"name", info.name},
                    {"dtype", dtype_info(info.dtype).name},
                    {"shape", info.unit_shape()},
                    {"from", from.boxes(tensor)},
                    {"to", to.boxes(tensor)}});
  }
  const std::string note =
      shown == table.size()
          ? "Both sides in coordinates of the checkpoint. One colour is one set of workers."
          : fmt::format(
                "Both sides in coordinates of the checkpoint. One colour is one set of "
                "workers. Here are {} of {} tensors: of each kind the first, a middle and "
                "the last one (--tensor NAME adds more).",
                shown, table.size());
  return json{{"note", note}, {"list", std::move(list)}, {"first", at}};
}

// ---- loads, reads, time

json load_views(const PlanJob& job, const PlanFigures& measured) {
  json views = json::array();
  for (const LinkFigures& link : measured.links) {
    json values = link.bytes, names = link.names;
    size_t step = 1;
    if (link.bytes.size() > 2 * kMostCells) {
      // The largest of each few, so that what matters stays.
      step = link.bytes.size() / kMostCells;
      values = json::array();
      names = json::array();
      for (size_t i = 0; i < link.bytes.size(); i += step) {
        const auto end =
            link.bytes.begin() + static_cast<ptrdiff_t>(std::min(i + step, link.bytes.size()));
        const auto most = std::max_element(link.bytes.begin() + static_cast<ptrdiff_t>(i), end);
        values.push_back(*most);
        names.push_back(link.names[static_cast<size_t>(most - link.bytes.begin())]);
      }
    }
    std::string title(bottleneck_name(link.kind));
    title[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(title[0])));
    views.push_back({{"kind", static_cast<int>(link.kind)},
                     {"title", title},
                     {"binds", link.kind == job.plan().balance.binds},
                     {"largest", link.largest},
                     {"bound", link.bound},
                     {"mean", link.spread.mean},
                     {"smallest", link.spread.least},
                     {"unit", link.kind == Bottleneck::kInsideHost ? "workers"
                              : step == 1                          ? "NICs"
                                          : "bars, the busiest NIC of each few"},
                     {"values", std::move(values)},
                     {"names", std::move(names)}});
  }
  return views;
}

json read_view(const PlanFigures& measured, uint64_t row_bytes) {
  size_t first = 64, last = 0;
  for (size_t i = 0; i < 64; ++i) {
    if (measured.reads_of_size[i] == 0) continue;
    first = std::min(first, i);
    last = i;
  }
  json bins = json::array();
  for (size_t i = first; i <= last && first < 64; ++i) {
    bins.push_back({{"from", uint64_t{1} << i},
                    {"label", human_bytes(static_cast<double>(uint64_t{1} << i))},
                    {"reads", measured.reads_of_size[i]},
                    {"bytes", measured.bytes_of_size[i]}});
  }
  return {{"note", fmt::format("Bytes that arrive in reads of each size (from the size below a bar "
                               "to twice that); above a bar the number of reads. {} rows of bytes "
                               "became these reads.",
                               row_bytes)},
          {"bins", std::move(bins)}};
}

json usage_view(const Simulation& simulation) {
  json usage = json::array();
  for (const Usage& each : simulation.usage) {
    const double most = *std::max_element(each.part.begin(), each.part.end());
    if (most < 0.001) continue;
    json part = json::array();
    for (const double p : each.part) part.push_back(std::round(p * 1e4) / 1e4);
    usage.push_back({{"title", link_name(each.link)},
                     {"index", static_cast<int>(each.link)},
                     {"part", std::move(part)}});
  }
  return usage;
}

std::string subtitle(const PlanJob& job) {
  return fmt::format("{} ({} trainers) to {} ({} receivers), policy {}", job.options().trainer,
                     job.fleet().sources().size(), job.options().rollout,
                     job.fleet().receivers().size(), policy_name(job.plan().balance.policy));
}

json tile(const char* key, const std::string& label, const char* unit, json value,
          const std::string& note = {}) {
  return {
      {"key", key}, {"label", label}, {"unit", unit}, {"value", std::move(value)}, {"note", note}};
}

std::string bytes_text(uint64_t bytes) { return human_bytes(static_cast<double>(bytes)); }

json plan_tiles(const PlanJob& job, const PlanFigures& measured, const Simulation& simulated) {
  const FleetReport& report = job.plan().report;
  const uint64_t receivers = job.fleet().receivers().size();
  uint64_t reads = 0, waste = 0, staged = 0, memory = 0;
  for (const ReceiverFigures& each : measured.receivers) {
    reads += each.shape.reads;
    waste += each.shape.waste;
    staged += each.shape.staged;
    memory = std::max(memory, each.memory);
  }
  json tiles = json::array();
  const double bound = static_cast<double>(job.plan().balance.nanoseconds) * 1e-9;
  tiles.push_back(tile("time", "Estimated time of an update", "seconds", simulated.seconds,
                       fmt::format("{} binds: {}", bottleneck_name(job.plan().balance.binds),
                                   human_time(bound * 1e9))));
  tiles.push_back(tile("needed", "Needed by all receivers", "bytes", report.needed_bytes,
                       fmt::format("{} distinct bytes", bytes_text(report.distinct_bytes))));
  tiles.push_back(tile("read", "Leaves the trainers", "bytes", measured.from_sources,
                       measured.from_peers == 0
                           ? std::string("nothing is passed on")
                           : bytes_text(measured.from_peers) + " passed on by receivers"));
  const double everything =
      static_cast<double>(report.distinct_bytes) * static_cast<double>(receivers);
  tiles.push_back(tile("saved", "Saved", "bytes",
                       everything - static_cast<double>(report.needed_bytes),
                       "against the whole model to every receiver"));
  for (const LinkFigures& link : measured.links) {
    if (link.kind != Bottleneck::kSourceEgress || link.bound == 0) continue;
    tiles.push_back(
        tile("balance", "Busiest trainer NIC", "bytes", link.largest,
             fmt::format("bound {}, ratio {:.5f}", bytes_text(link.bound),
                         static_cast<double>(link.largest) / static_cast<double>(link.bound))));
  }
  tiles.push_back(
      tile("reads", "Reads per receiver", "count",
           measured.receivers.empty() ? 0 : reads / measured.receivers.size(),
           fmt::format("covering waste {}, staged {}", bytes_text(waste), bytes_text(staged))));
  tiles.push_back(tile("memory", "Peak memory of a receiver", "bytes", memory,
                       fmt::format("its weights included; padding {}, unmapped {} in all",
                                   bytes_text(measured.padding), bytes_text(measured.unmapped))));
  tiles.push_back(tile("proof", "Proof", "text", "ok",
                       measured.together ? "each byte once, from the right place, no cycles"
                                         : "each part by itself"));
  return tiles;
}

}  // namespace

std::string ranks_text(const std::vector<uint32_t>& ranks) {
  std::vector<std::string> parts;
  size_t wide = 0;  // parts that are runs of several
  for (size_t i = 0; i < ranks.size();) {
    size_t j = i;
    while (j + 1 < ranks.size() && ranks[j + 1] == ranks[j] + 1) ++j;
    parts.push_back(i == j ? std::to_string(ranks[i]) : fmt::format("{}-{}", ranks[i], ranks[j]));
    if (i != j) ++wide;
    i = j + 1;
  }
  if (parts.size() > 4 && wide == 0) {
    const uint32_t step = ranks[1] - ranks[0];
    bool even = true;
    for (size_t i = 1; i < ranks.size(); ++i) even = even && ranks[i] - ranks[i - 1] == step;
    if (even) return fmt::format("{}-{} in steps of {}", ranks.front(), ranks.back(), step);
  }
  constexpr size_t kMost = 8;
  std::string text;
  for (size_t i = 0; i < std::min(parts.size(), kMost); ++i) {
    text += (i == 0 ? "" : ", ") + parts[i];
  }
  if (parts.size() > kMost) text += fmt::format(", ... ({} in all)", ranks.size());
  return text;
}

std::string spark_line(const std::vector<double>& parts, size_t width) {
  static constexpr std::string_view kBlocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string line;
  for (size_t i = 0; i < width && !parts.empty(); ++i) {
    const size_t begin = i * parts.size() / width;
    const size_t end = std::max(begin + 1, (i + 1) * parts.size() / width);
    double sum = 0;
    for (size_t s = begin; s < end; ++s) sum += parts[s];
    const double mean = std::clamp(sum / static_cast<double>(end - begin), 0.0, 1.0);
    line += kBlocks[static_cast<size_t>(std::lround(mean * 8))];
  }
  return line;
}

Result<json> plan_page(const PlanJob& job, const PlanFigures& measured, const Simulation& simulated,
                       const std::vector<std::string>& tensors) {
  WB_ASSIGN_OR_RETURN(json cuts, tensor_cuts(job, tensors));
  uint64_t rows = 0;
  for (const ReceiverFigures& each : measured.receivers) rows += each.shape.rows;
  json receivers = json::array();
  for (size_t r = 0; r < simulated.receivers.size(); ++r) {
    receivers.push_back({{"name", job.fleet().receivers()[r].name},
                         {"sources", simulated.from_sources[r]},
                         {"end", simulated.receivers[r]}});
  }
  return json{{"title", "Plan of " + job.options().model},
              {"subtitle", subtitle(job)},
              {"footer", kFooter},
              {"tiles", plan_tiles(job, measured, simulated)},
              {"matrix", matrix(job)},
              {"loads", load_views(job, measured)},
              {"tensors", std::move(cuts)},
              {"time",
               {{"seconds", simulated.seconds},
                {"bound", static_cast<double>(job.plan().balance.nanoseconds) * 1e-9},
                {"usage", usage_view(simulated)},
                {"receivers", std::move(receivers)}}},
              {"reads", read_view(measured, rows)}};
}

json simulation_page(const PlanJob& job, const std::vector<Way>& ways) {
  json list = json::array();
  for (const Way& way : ways) {
    json entry{{"key", way.key},
               {"title", way.title},
               {"text", way.text},
               {"seconds", way.simulation.seconds},
               {"bound", way.bound},
               {"trainer_stall", way.trainer_stall},
               {"gpu_seconds", way.trainer_gpu_seconds + way.rollout_gpu_seconds},
               {"rollout_mean", way.rollout_gpu_seconds / static_cast<double>(std::max<size_t>(
                                                              1, way.simulation.receivers.size()))},
               {"usage", usage_view(way.simulation)}};
    list.push_back(std::move(entry));
  }
  return {{"title", "Simulated update of " + job.options().model},
          {"subtitle", subtitle(job)},
          {"footer", kFooter},
          {"ways", std::move(list)}};
}

}  // namespace wb::cli
