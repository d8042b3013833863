#include "plan/fleet_cache.h"

namespace wb {

uint32_t FleetCache::number_of(bool source, const std::string& name) {
  return numbers_.try_emplace({source, name}, static_cast<uint32_t>(numbers_.size())).first->second;
}

FleetCache::Cells FleetCache::find_cells(const Digest& key) {
  const auto it = cells_.find(key);
  if (it == cells_.end()) return nullptr;
  it->second.used = true;
  counts_.refinements_reused += 1;
  return it->second.value;
}

void FleetCache::keep_cells(const Digest& key, Cells cells) {
  counts_.refinements += 1;
  cells_[key] = {std::move(cells), true};
}

FleetCache::Runs FleetCache::find_runs(const Digest& key) {
  const auto it = runs_.find(key);
  if (it == runs_.end()) return nullptr;
  it->second.used = true;
  counts_.lowered_reused += it->second.value->size();
  return it->second.value;
}

void FleetCache::keep_runs(const Digest& key, Runs runs) {
  counts_.lowered += runs->size();
  runs_[key] = {std::move(runs), true};
}

void FleetCache::forget_unused() {
  const auto sweep = [](auto* kept) {
    std::erase_if(*kept, [](const auto& entry) { return !entry.second.used; });
    for (auto& [key, value] : *kept) value.used = false;
  };
  sweep(&cells_);
  sweep(&runs_);
}

}  // namespace wb
