// Classes of deepseek-v3 from 256 trainers to 128 receivers, on hosts of eight: what balancing is
// measured and tested with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/classes.h"
#include "plan/cluster.h"

namespace wb::deepseek {

inline constexpr uint32_t kTrainers = 256;
inline constexpr uint32_t kReceivers = 128;
inline constexpr uint32_t kEngines = 4;
inline constexpr uint32_t kExpertRanks = 32;  // of one engine
inline constexpr uint32_t kOnHost = 8;

inline Cluster cluster_of(uint32_t sources, uint32_t receivers) {
  Cluster cluster;
  const auto seat = [&](uint32_t workers, std::vector<Seat>* seats) {
    for (uint32_t w = 0; w < workers; ++w) {
      if (w % kOnHost == 0) {
        Host host;
        host.name = std::to_string(cluster.hosts.size());
        host.nics.resize(kOnHost, Nic{50'000'000'000, true, 0});
        host.inside_bytes_per_second = 450'000'000'000;
        cluster.hosts.push_back(host);
      }
      seats->push_back({static_cast<uint32_t>(cluster.hosts.size() - 1), w % kOnHost});
    }
  };
  seat(sources, &cluster.sources);
  seat(receivers, &cluster.receivers);
  return cluster;
}

inline std::vector<uint32_t> every(uint32_t first, uint32_t step, uint32_t count) {
  std::vector<uint32_t> list;
  for (uint32_t i = 0; i < count; ++i) list.push_back(first + i * step);
  return list;
}

// tp=8,pp=4,dp=8,ep=8: 164 classes. Experts are most of the bytes.
inline std::vector<ByteClass> megatron() {
  constexpr uint32_t kStages = 4, kTensor = 8, kExpert = 8, kPerStage = kTrainers / kStages;
  std::vector<ByteClass> classes;
  for (uint32_t stage = 0; stage < kStages; ++stage) {
    const uint32_t first = stage * kPerStage;
    classes.push_back({40'003'584, every(first, 1, kPerStage), every(0, 1, kReceivers)});
    for (uint32_t t = 0; t < kTensor; ++t) {
      classes.push_back(
          {1'071'644'672, every(first + t, kTensor, kPerStage / kTensor), every(0, 1, kReceivers)});
    }
    for (uint32_t r = 0; r < kExpertRanks; ++r) {
      const uint32_t expert = r / (kExpertRanks / kExpert);
      classes.push_back({10'217'324'544, every(first + expert, kExpert, kPerStage / kExpert),
                         every(r, kExpertRanks, kEngines)});
    }
  }
  return classes;
}

// Every trainer holds its part of everything: 8448 classes.
inline std::vector<ByteClass> fsdp() {
  std::vector<ByteClass> classes;
  for (uint32_t s = 0; s < kTrainers; ++s) {
    classes.push_back({134'000'000 + s, {s}, every(0, 1, kReceivers)});
    for (uint32_t r = 0; r < kExpertRanks; ++r) {
      classes.push_back({159'645'696 + r, {s}, every(r, kExpertRanks, kEngines)});
    }
  }
  return classes;
}

}  // namespace wb::deepseek
