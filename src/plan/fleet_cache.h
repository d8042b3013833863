// What plans of other membership revisions can re-use. A plan made with a cache is byte for byte
// the plan made without one: entries are found by their content, never by their place.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/hash.h"
#include "layout/box.h"
#include "plan/read_list.h"

namespace wb {

class FleetCache {
 public:
  struct Counts {
    uint64_t refinements = 0;         // made
    uint64_t refinements_reused = 0;  // found here
    uint64_t lowered = 0;             // runs made
    uint64_t lowered_reused = 0;      // runs found here
  };
  const Counts& counts() const { return counts_; }
  void reset_counts() { counts_ = {}; }

  // Forgets what was not used since the last call: once per revision, after its parts are made.
  void forget_unused();

  // A cell with the workers' numbers in this cache, which stay when others come and go.
  struct Cell {
    Box box;
    std::vector<uint32_t> holders;
    std::vector<uint32_t> needers;
  };
  using Cells = std::shared_ptr<const std::vector<Cell>>;
  using Runs = std::shared_ptr<const std::vector<Run>>;

  uint32_t number_of(bool source, const std::string& name);
  // Null when not there.
  Cells find_cells(const Digest& key);
  void keep_cells(const Digest& key, Cells cells);
  Runs find_runs(const Digest& key);
  void keep_runs(const Digest& key, Runs runs);

 private:
  template <typename T>
  struct Kept {
    T value;
    bool used = true;
  };
  std::map<std::pair<bool, std::string>, uint32_t> numbers_;
  std::map<Digest, Kept<Cells>> cells_;
  std::map<Digest, Kept<Runs>> runs_;
  Counts counts_;
};

}  // namespace wb
