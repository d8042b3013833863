#include "balance_world.h"

#include <set>
#include <string>

namespace wb::test {
namespace {

uint64_t between(std::mt19937_64& rng, uint64_t low, uint64_t high) {
  return std::uniform_int_distribution<uint64_t>(low, high)(rng);
}

bool coin(std::mt19937_64& rng) { return between(rng, 0, 1) == 1; }

std::vector<uint32_t> some_of(std::mt19937_64& rng, size_t count) {
  std::set<uint32_t> chosen;
  const uint64_t wanted = between(rng, 1, count);
  for (uint64_t i = 0; i < wanted; ++i) {
    chosen.insert(static_cast<uint32_t>(between(rng, 0, count - 1)));
  }
  return {chosen.begin(), chosen.end()};
}

}  // namespace

Host host_with(uint32_t nics, uint64_t speed, bool full_duplex) {
  Host host;
  host.nics.resize(nics, Nic{speed, full_duplex, 0});
  host.inside_bytes_per_second = 100 * speed;
  return host;
}

WorldKind random_kind(std::mt19937_64& rng) {
  WorldKind kind;
  kind.half_duplex = coin(rng);
  kind.equal_speeds = coin(rng);
  kind.shared_nics = coin(rng);
  kind.mixed_hosts = coin(rng);
  kind.domains = coin(rng);
  kind.most_bytes = coin(rng) ? 50 : 1'000'000;
  return kind;
}

BalanceWorld random_world(std::mt19937_64& rng, const WorldKind& kind) {
  BalanceWorld world;
  const auto add_host = [&] {
    Host host = host_with(static_cast<uint32_t>(between(rng, 1, 3)), 1);
    for (Nic& nic : host.nics) {
      nic.bytes_per_second = kind.equal_speeds ? 4 : between(rng, 1, 4);
      nic.full_duplex = !kind.half_duplex || coin(rng);
    }
    host.inside_bytes_per_second = between(rng, 1, 50);
    host.domain = kind.domains ? static_cast<uint32_t>(between(rng, 0, 2)) : 0;
    host.name = "host-" + std::to_string(world.cluster.hosts.size());
    world.cluster.hosts.push_back(host);
  };
  // Workers of one side on hosts [first, end); each NIC gets one, or any number.
  const auto fill = [&](size_t first, std::vector<Seat>* seats) {
    for (uint32_t h = static_cast<uint32_t>(first); h < world.cluster.hosts.size(); ++h) {
      for (uint32_t n = 0; n < world.cluster.hosts[h].nics.size(); ++n) {
        const uint64_t workers = kind.shared_nics ? between(rng, 0, 2) : 1;
        for (uint64_t i = 0; i < workers; ++i) seats->push_back({h, n});
      }
    }
    if (seats->empty()) seats->push_back({static_cast<uint32_t>(first), 0});
  };
  const uint64_t trainer_hosts = between(rng, 1, 3), receiver_hosts = between(rng, 1, 4);
  for (uint64_t h = 0; h < trainer_hosts; ++h) add_host();
  fill(0, &world.cluster.sources);
  for (uint64_t h = 0; h < receiver_hosts; ++h) add_host();
  fill(kind.mixed_hosts ? 0 : trainer_hosts, &world.cluster.receivers);
  std::set<std::pair<std::vector<uint32_t>, std::vector<uint32_t>>> known;
  const uint64_t classes = between(rng, 1, 8);
  for (uint64_t c = 0; c < classes; ++c) {
    ByteClass byte_class{between(rng, 1, kind.most_bytes),
                         some_of(rng, world.cluster.sources.size()),
                         some_of(rng, world.cluster.receivers.size())};
    if (!known.emplace(byte_class.holders, byte_class.needers).second) continue;
    world.classes.push_back(std::move(byte_class));
  }
  return world;
}

}  // namespace wb::test
