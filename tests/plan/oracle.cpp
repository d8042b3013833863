#include "oracle.h"

#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "layout/dtype.h"

namespace wb::test {
namespace {

// (tensor, number of the element in its tensor, byte of the element).
using ByteId = std::tuple<uint32_t, int64_t, uint32_t>;
// (region, byte).
using Address = std::pair<uint32_t, uint64_t>;

template <typename Visit>
void for_each_byte(const TensorTable& table, const OwnedWorker& worker, const Piece& piece,
                   Visit visit) {
  const std::vector<int64_t> shape = table[piece.tensor].unit_shape();
  const uint32_t unit = dtype_info(table[piece.tensor].dtype).unit_bytes;
  std::vector<int64_t> index(shape.size(), 0);
  for (;;) {
    int64_t element = 0;
    int64_t at = piece.offset;
    for (size_t d = 0; d < shape.size(); ++d) {
      const Progression& p = piece.box.dim(static_cast<int>(d));
      element = element * shape[d] + p.start + index[d] * p.step;
      at += index[d] * piece.stride[d];
    }
    const Placement& place = worker.placement[piece.buffer];
    for (uint32_t b = 0; b < unit; ++b) {
      visit(ByteId(piece.tensor, element, b),
            Address(place.region, place.offset + static_cast<uint64_t>(at) + b));
    }
    size_t d = shape.size();
    while (d > 0 && ++index[d - 1] == piece.box.dim(static_cast<int>(d - 1)).count) {
      index[--d] = 0;
    }
    if (d == 0) return;
  }
}

using Held = std::map<ByteId, std::set<Address>>;

Held held_by(const World& world, const OwnedWorker& source) {
  Held held;
  for (const Piece& piece : source.layout.pieces) {
    for_each_byte(world.table, source, piece,
                  [&](const ByteId& id, const Address& at) { held[id].insert(at); });
  }
  return held;
}

using Written = std::map<Address, std::pair<uint32_t, Address>>;  // local -> (source, remote)

std::string execute(const World& world, const ReadList& list, Written* written) {
  uint64_t bytes = 0;
  uint64_t reads = 0;
  const OwnedWorker& source = world.sources[list.source];
  for (const Run& run : list.runs) {
    if (run.length == 0 || run.count == 0) return "a run without bytes";
    if (run.remote_region >= source.region_bytes.size()) return "no such remote region";
    if (run.local_region >= world.receiver.region_bytes.size()) return "no such local region";
    using Wide = __int128;
    for (uint64_t row = 0; row < run.count; ++row) {
      ++reads;
      const Wide remote = Wide{run.remote_offset} + Wide{row} * run.remote_pitch;
      const Wide local = Wide{run.local_offset} + Wide{row} * run.local_pitch;
      for (uint64_t b = 0; b < run.length; ++b) {
        ++bytes;
        if (remote + b < 0 || remote + b >= Wide{source.region_bytes[run.remote_region]}) {
          return "reads outside the region";
        }
        if (local + b < 0 || local + b >= Wide{world.receiver.region_bytes[run.local_region]}) {
          return "writes outside the region";
        }
        const Address from(run.remote_region, static_cast<uint64_t>(remote + b));
        const Address to(run.local_region, static_cast<uint64_t>(local + b));
        if (!written->emplace(to, std::pair(list.source, from)).second) return "written twice";
      }
    }
  }
  if (bytes != list.bytes) return "wrong bytes of a list";
  if (reads != list.reads) return "wrong reads of a list";
  return "";
}

}  // namespace

std::string fault_of(const World& world, const Plan& plan) {
  Written written;
  uint64_t bytes = 0;
  int64_t last = -1;
  for (const ReadList& list : plan.lists) {
    if (list.source >= world.sources.size()) return "no such source";
    if (int64_t{list.source} <= last) return "sources out of order";
    last = list.source;
    if (list.runs.empty()) return "a list without runs";
    if (std::string fault = execute(world, list, &written); !fault.empty()) return fault;
    bytes += list.bytes;
  }
  if (bytes != plan.bytes) return "wrong bytes of the plan";

  std::vector<Held> held;
  for (const OwnedWorker& source : world.sources) held.push_back(held_by(world, source));
  std::string fault;
  for (const Piece& piece : world.receiver.layout.pieces) {
    for_each_byte(world.table, world.receiver, piece, [&](const ByteId& id, const Address& at) {
      const auto it = written.find(at);
      if (it == written.end()) {
        fault = "a needed byte is not written";
        return;
      }
      const auto& [source, from] = it->second;
      const auto home = held[source].find(id);
      if (home == held[source].end() || !home->second.contains(from)) {
        fault = "a byte comes from the wrong place";
      }
      written.erase(it);
    });
    if (!fault.empty()) return fault;
  }
  return written.empty() ? "" : "a byte is written that nobody needs";
}

Uncovered uncovered(const World& world) {
  std::set<ByteId> held;
  for (const OwnedWorker& source : world.sources) {
    for (const Piece& piece : source.layout.pieces) {
      for_each_byte(world.table, source, piece,
                    [&](const ByteId& id, const Address&) { held.insert(id); });
    }
  }
  std::set<ByteId> missing;
  std::set<uint32_t> tensors;
  for (const Piece& piece : world.receiver.layout.pieces) {
    for_each_byte(world.table, world.receiver, piece, [&](const ByteId& id, const Address&) {
      if (held.contains(id)) return;
      missing.insert(id);
      tensors.insert(std::get<0>(id));
    });
  }
  Uncovered result;
  result.bytes = missing.size();
  result.tensors = static_cast<uint32_t>(tensors.size());
  if (!tensors.empty()) result.first = world.table[*tensors.begin()].name;
  return result;
}

}  // namespace wb::test
