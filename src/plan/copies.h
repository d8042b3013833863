// A solved draft, written as copies.
#pragma once

#include <vector>

#include "plan/balance.h"
#include "plan/draft.h"

namespace wb {

std::vector<ClassDivision> write_copies(const Draft& draft);

}  // namespace wb
