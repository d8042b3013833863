#include "world.h"

#include <algorithm>
#include <numeric>

#include "layout/dtype.h"
#include "plan/proof.h"

namespace wb::test {

uint32_t OwnedWorker::add_buffer(uint64_t bytes, uint32_t region, uint64_t gap) {
  if (region == region_bytes.size()) region_bytes.push_back(0);
  const auto index = static_cast<uint32_t>(layout.buffers.size());
  layout.buffers.push_back(BufferInfo{
      "buffer." + std::to_string(index), DType::kU8, {static_cast<int64_t>(bytes)}, bytes});
  placement.push_back(Placement{region, region_bytes[region] + gap});
  region_bytes[region] += gap + bytes;
  return index;
}

std::vector<PlanWorker> World::source_views() const {
  std::vector<PlanWorker> views;
  for (const OwnedWorker& source : sources) views.push_back(source.view());
  return views;
}

Result<Plan> World::plan() const {
  std::vector<PlanWorker> receivers{receiver.view()};
  for (const OwnedWorker& fellow : fellows) receivers.push_back(fellow.view());
  return make_plan(table, source_views(), receivers, 0);
}

Status World::prove(const Plan& plan) const {
  return prove_plan(table, receiver.view(), source_views(), plan);
}

Piece dense_box(const TensorTable& table, uint32_t tensor, const Box& box, uint32_t buffer,
                int64_t offset) {
  Piece piece;
  piece.tensor = tensor;
  piece.buffer = buffer;
  piece.box = box;
  piece.offset = offset;
  int64_t stride = dtype_info(table[tensor].dtype).unit_bytes;
  for (int d = box.rank() - 1; d >= 0; --d) {
    piece.stride[static_cast<size_t>(d)] = stride;
    stride *= box.dim(d).count;
  }
  return piece;
}

Piece dense_rows(const TensorTable& table, uint32_t tensor, int64_t begin, int64_t end,
                 uint32_t buffer, int64_t offset) {
  const Box whole = *Box::whole(table[tensor].unit_shape());
  return dense_box(table, tensor, whole.with_dim(0, Progression{begin, end - begin, 1}), buffer,
                   offset);
}

namespace {

class Builder {
 public:
  Builder(uint64_t seed, WorldOptions options) : rng_(seed), options_(options) {}

  World build() {
    make_table();
    world_.receiver.name = "receiver";
    const int64_t sources = pick(1, 4);
    for (int64_t s = 0; s < sources; ++s) {
      world_.sources.emplace_back().name = "source-" + std::to_string(s);
    }
    for (uint32_t t = 0; t < world_.table.size(); ++t) {
      if (is_empty(t)) continue;
      hold_whole(t);
      for (int64_t extra = pick(0, 2); extra > 0; --extra) hold(t, random_box(t));
      need(t, &world_.receiver);
    }
    return std::move(world_);
  }

  FleetWorld build_fleet() {
    make_table();
    FleetWorld fleet;
    const int64_t sources = pick(1, 6);
    for (int64_t s = 0; s < sources; ++s) {
      world_.sources.emplace_back().name = "source-" + std::to_string(s);
    }
    for (uint32_t t = 0; t < world_.table.size(); ++t) {
      if (is_empty(t)) continue;
      hold_whole(t);
      for (int64_t extra = pick(0, 2); extra > 0; --extra) hold(t, random_box(t));
    }
    const int64_t receivers = pick(1, 6);
    for (int64_t r = 0; r < receivers; ++r) {
      OwnedWorker receiver;
      // Often another engine's rank: the same layout.
      if (r > 0 && one_in(2)) {
        receiver = fleet.receivers[static_cast<size_t>(pick(0, r - 1))];
      } else {
        for (uint32_t t = 0; t < world_.table.size(); ++t) {
          if (!is_empty(t) && !one_in(6)) need(t, &receiver);
        }
      }
      receiver.name = "receiver-" + std::to_string(r);
      fleet.receivers.push_back(std::move(receiver));
    }
    if (one_in(4)) world_.sources.push_back(world_.sources.front());
    world_.sources.back().name = "source-" + std::to_string(world_.sources.size() - 1);
    fleet.table = world_.table;
    fleet.sources = world_.sources;
    make_cluster(&fleet);
    return fleet;
  }

 private:
  int64_t pick(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(rng_);
  }
  bool one_in(int64_t n) { return pick(1, n) == 1; }

  void make_cluster(FleetWorld* fleet) {
    const int64_t hosts = pick(1, 5);
    for (int64_t h = 0; h < hosts; ++h) {
      Host host;
      host.name = "host-" + std::to_string(h);
      host.inside_bytes_per_second = static_cast<uint64_t>(pick(1, 9)) * 1000;
      host.domain = one_in(4) ? 1 : 0;
      for (int64_t n = pick(1, 3); n > 0; --n) {
        host.nics.push_back({static_cast<uint64_t>(pick(1, 4)) * 100, !one_in(3), 0});
      }
      fleet->cluster.hosts.push_back(host);
    }
    // Mostly trainers and receivers on hosts of their own.
    const int64_t border = one_in(3) ? -1 : pick(0, hosts - 1);
    const auto seat = [&](int64_t low, int64_t high) {
      const auto host = static_cast<uint32_t>(pick(low, high));
      const auto nics = static_cast<int64_t>(fleet->cluster.hosts[host].nics.size());
      return Seat{host, static_cast<uint32_t>(pick(0, nics - 1))};
    };
    for (size_t s = 0; s < fleet->sources.size(); ++s) {
      fleet->cluster.sources.push_back(seat(0, border < 0 ? hosts - 1 : border));
    }
    for (size_t r = 0; r < fleet->receivers.size(); ++r) {
      const int64_t low = border < 0 ? 0 : std::min(border + 1, hosts - 1);
      fleet->cluster.receivers.push_back(seat(low, hosts - 1));
    }
  }

  void make_table() {
    constexpr DType kTypes[] = {DType::kU8,  DType::kBF16, DType::kF32,
                                DType::kC64, DType::kF4,   DType::kF6E2M3};
    std::vector<TensorInfo> tensors;
    const int64_t count = pick(1, 4);
    for (int64_t t = 0; t < count; ++t) {
      TensorInfo info;
      info.name = "tensor." + std::to_string(t);
      info.dtype = kTypes[pick(0, 5)];
      const int64_t rank = pick(0, 4);
      for (int64_t d = 0; d < rank; ++d) info.shape.push_back(pick(1, rank > 2 ? 4 : 9));
      if (rank > 0) {
        info.shape.back() *= dtype_info(info.dtype).unit_elements;
        if (one_in(12)) info.shape.front() = 0;
      } else if (dtype_info(info.dtype).unit_elements > 1) {
        info.dtype = DType::kF32;
      }
      tensors.push_back(info);
    }
    world_.table = *TensorTable::make(tensors);
  }

  bool is_empty(uint32_t tensor) const { return world_.table[tensor].bytes() == 0; }
  Box whole(uint32_t tensor) const { return *Box::whole(world_.table[tensor].unit_shape()); }

  Box random_box(uint32_t tensor) {
    Box box = whole(tensor);
    for (int d = 0; d < box.rank(); ++d) {
      const int64_t size = box.dim(d).count;
      if (one_in(2)) continue;
      const int64_t start = pick(0, size - 1);
      const int64_t step = pick(1, 3);
      const int64_t count = pick(1, (size - 1 - start) / step + 1);
      box = box.with_dim(d, Progression{start, count, count == 1 ? 1 : step});
    }
    return box;
  }

  // Disjoint boxes whose union is `box`: cut at a place, or dealt out like cards.
  void partition(const Box& box, int depth, std::vector<Box>* parts) {
    std::vector<int> wide;
    for (int d = 0; d < box.rank(); ++d) {
      if (box.dim(d).count > 1) wide.push_back(d);
    }
    if (depth == 0 || wide.empty() || one_in(4)) {
      parts->push_back(box);
      return;
    }
    const int d = wide[static_cast<size_t>(pick(0, static_cast<int64_t>(wide.size()) - 1))];
    const Progression p = box.dim(d);
    const auto part = [&](int64_t from, int64_t count, int64_t step) {
      const Progression q{p.start + from * p.step, count, count == 1 ? 1 : p.step * step};
      partition(box.with_dim(d, q), depth - 1, parts);
    };
    if (one_in(2)) {
      const int64_t cut = pick(1, p.count - 1);
      part(0, cut, 1);
      part(cut, p.count - cut, 1);
    } else {
      const int64_t hands = pick(2, std::min<int64_t>(p.count, 3));
      for (int64_t h = 0; h < hands; ++h) part(h, (p.count - 1 - h) / hands + 1, hands);
    }
  }

  // An array in memory that holds a box: any order of dimensions, directions and gaps.
  struct Frame {
    Box box;
    uint32_t buffer = 0;
    int64_t offset = 0;
    std::array<int64_t, kMaxRank> stride{};
  };

  Frame place_frame(uint32_t tensor, const Box& box, OwnedWorker* worker, bool may_fold) {
    const int64_t unit = dtype_info(world_.table[tensor].dtype).unit_bytes;
    Frame frame;
    frame.box = box;
    std::vector<int> order(static_cast<size_t>(box.rank()));
    std::iota(order.begin(), order.end(), 0);
    const bool plain = one_in(2);
    if (plain) {
      std::reverse(order.begin(), order.end());
    } else {
      std::shuffle(order.begin(), order.end(), rng_);
    }
    int64_t span = unit;
    int64_t first = 0;
    for (const int d : order) {
      if (may_fold && one_in(10)) continue;
      const int64_t gap = plain || one_in(2) ? 0 : pick(0, 2) * (one_in(3) ? 1 : unit);
      const int64_t stride = span + gap;
      const int64_t width = stride * (box.dim(d).count - 1);
      const bool down = !plain && one_in(3);
      frame.stride[static_cast<size_t>(d)] = down ? -stride : stride;
      if (down) first += width;
      span += width;
    }
    const int64_t head = one_in(2) ? 0 : pick(0, 5);
    const int64_t tail = one_in(2) ? 0 : pick(0, 5);
    const auto regions = static_cast<int64_t>(worker->region_bytes.size());
    const auto region =
        static_cast<uint32_t>(one_in(3) ? regions : std::max<int64_t>(regions - 1, 0));
    const uint64_t between = one_in(2) ? 0 : static_cast<uint64_t>(pick(0, 9));
    frame.buffer = worker->add_buffer(static_cast<uint64_t>(head + span + tail), region, between);
    frame.offset = head + first;
    return frame;
  }

  static Piece piece_in(const Frame& frame, uint32_t tensor, const Box& box) {
    Piece piece;
    piece.tensor = tensor;
    piece.buffer = frame.buffer;
    piece.box = box;
    piece.offset = frame.offset;
    for (int d = 0; d < box.rank(); ++d) {
      const auto i = static_cast<size_t>(d);
      const Progression& p = box.dim(d);
      piece.offset += frame.box.dim(d).index_of(p.start) * frame.stride[i];
      piece.stride[i] = p.step / frame.box.dim(d).step * frame.stride[i];
    }
    return piece;
  }

  OwnedWorker* any_source() {
    return &world_.sources[static_cast<size_t>(
        pick(0, static_cast<int64_t>(world_.sources.size()) - 1))];
  }

  void hold(uint32_t tensor, const Box& box) {
    OwnedWorker* source = any_source();
    const Frame frame = place_frame(tensor, box, source, true);
    std::vector<Box> parts;
    partition(box, static_cast<int>(pick(0, 2)), &parts);
    for (const Box& part : parts) source->layout.pieces.push_back(piece_in(frame, tensor, part));
  }

  void hold_whole(uint32_t tensor) {
    std::vector<Box> parts;
    partition(whole(tensor), static_cast<int>(pick(0, 3)), &parts);
    for (const Box& part : parts) {
      if (!options_.covered && one_in(3)) continue;
      for (int64_t copies = one_in(2) ? 1 : pick(1, 3); copies > 0; --copies) hold(tensor, part);
    }
  }

  // Pieces of one tensor in the receiver: parts of frames, some parts in two of them, some nowhere.
  void need(uint32_t tensor, OwnedWorker* receiver) {
    for (int64_t homes = one_in(5) ? 2 : 1; homes > 0; --homes) {
      const Box box = one_in(2) ? whole(tensor) : random_box(tensor);
      const Frame frame = place_frame(tensor, box, receiver, false);
      std::vector<Box> parts;
      partition(box, static_cast<int>(pick(0, 3)), &parts);
      for (const Box& part : parts) {
        if (one_in(8)) continue;
        receiver->layout.pieces.push_back(piece_in(frame, tensor, part));
      }
    }
  }

  std::mt19937_64 rng_;
  const WorldOptions options_;
  World world_;
};

}  // namespace

World random_world(uint64_t seed, WorldOptions options) { return Builder(seed, options).build(); }

FleetWorld random_fleet(uint64_t seed, WorldOptions options) {
  return Builder(seed, options).build_fleet();
}

FleetWorld shuffled(const FleetWorld& world, uint64_t seed) {
  std::mt19937_64 rng(seed);
  FleetWorld other;
  other.table = world.table;
  std::vector<uint32_t> hosts(world.cluster.hosts.size());
  std::iota(hosts.begin(), hosts.end(), 0u);
  std::shuffle(hosts.begin(), hosts.end(), rng);
  std::vector<uint32_t> place(hosts.size());
  for (uint32_t h = 0; h < hosts.size(); ++h) {
    other.cluster.hosts.push_back(world.cluster.hosts[hosts[h]]);
    place[hosts[h]] = h;
  }
  const auto shuffle_side = [&](const std::vector<OwnedWorker>& workers,
                                const std::vector<Seat>& seats, std::vector<OwnedWorker>* out,
                                std::vector<Seat>* out_seats) {
    std::vector<uint32_t> order(workers.size());
    std::iota(order.begin(), order.end(), 0u);
    std::shuffle(order.begin(), order.end(), rng);
    for (const uint32_t w : order) {
      OwnedWorker& worker = out->emplace_back(workers[w]);
      std::shuffle(worker.layout.pieces.begin(), worker.layout.pieces.end(), rng);
      out_seats->push_back({place[seats[w].host], seats[w].nic});
    }
  };
  shuffle_side(world.sources, world.cluster.sources, &other.sources, &other.cluster.sources);
  shuffle_side(world.receivers, world.cluster.receivers, &other.receivers,
               &other.cluster.receivers);
  return other;
}

World shuffled(const World& world, uint64_t seed) {
  World other = world;
  std::mt19937_64 rng(seed);
  auto& pieces = other.receiver.layout.pieces;
  std::shuffle(pieces.begin(), pieces.end(), rng);
  for (OwnedWorker& source : other.sources) {
    std::shuffle(source.layout.pieces.begin(), source.layout.pieces.end(), rng);
  }
  return other;
}

}  // namespace wb::test
