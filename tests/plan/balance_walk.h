// Follows every byte of a balance as balance.h says that it goes, and counts what that costs.
// Shares nothing with the code under test but the contract.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "balance_world.h"
#include "plan/balance.h"

namespace wb::test {

struct Walk {
  std::string wrong;  // the first thing that breaks the contract; empty if nothing does
  std::vector<uint64_t> source_nic, source_inside;
  std::vector<uint64_t> receiver_nic_in, receiver_nic_out;
  std::vector<uint64_t> receiver_inside_in, receiver_inside_out;
  uint64_t cuts = 0;  // ranges beyond the first in lists of copies
};

Walk walk(const BalanceWorld& world, const Balance& balance);

}  // namespace wb::test
