// Prints problems and what balance() makes of them, one JSON object a line, for balance_lp.py:
//   balance_cases SEED COUNT
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>

#include "balance_world.h"
#include "deepseek_classes.h"
#include "plan/balance.h"

namespace wb::test {
namespace {

using Json = nlohmann::json;

Json seats_json(const std::vector<Seat>& seats) {
  Json out = Json::array();
  for (const Seat& seat : seats) out.push_back({seat.host, seat.nic});
  return out;
}

Json world_json(const BalanceWorld& world) {
  Json hosts = Json::array();
  for (const Host& host : world.cluster.hosts) {
    Json nics = Json::array();
    for (const Nic& nic : host.nics) nics.push_back({nic.bytes_per_second, nic.full_duplex});
    hosts.push_back({{"nics", nics}, {"domain", host.domain}});
  }
  Json classes = Json::array();
  for (const ByteClass& c : world.classes) classes.push_back({c.bytes, c.holders, c.needers});
  return {{"hosts", hosts},
          {"sources", seats_json(world.cluster.sources)},
          {"receivers", seats_json(world.cluster.receivers)},
          {"classes", classes}};
}

Json balance_json(const Balance& balance) {
  Json loads = Json::array();
  for (const LoadReport& load : balance.loads) {
    loads.push_back({{"kind", static_cast<int>(load.kind)},
                     {"bytes", load.nic_bytes},
                     {"largest", load.largest},
                     {"bound", load.bound},
                     {"place", load.nic}});
  }
  return loads;
}

void print(const std::string& name, const BalanceWorld& world) {
  Json out = world_json(world);
  out["name"] = name;
  for (const Policy policy : {Policy::kDirect, Policy::kHost, Policy::kFanout}) {
    const Result<Balance> result = balance(world.classes, world.cluster, policy);
    if (!result.ok()) {
      std::cerr << name << ": " << result.status().to_string() << "\n";
      std::exit(1);
    }
    out["loads"][std::string(policy_name(policy))] = balance_json(*result);
  }
  std::cout << out << "\n";
}

void print_all(uint64_t seed, int count) {
  std::mt19937_64 rng(seed);
  for (int i = 0; i < count; ++i) {
    print("random " + std::to_string(seed) + "/" + std::to_string(i),
          random_world(rng, random_kind(rng)));
  }
  const Cluster cluster = deepseek::cluster_of(deepseek::kTrainers, deepseek::kReceivers);
  print("deepseek-v3, Megatron", {cluster, deepseek::megatron()});
}

}  // namespace
}  // namespace wb::test

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: balance_cases SEED COUNT\n";
    return 2;
  }
  wb::test::print_all(std::strtoull(argv[1], nullptr, 10), std::atoi(argv[2]));
  return 0;
}
