// The fake transport: the verbs transport over NICs in memory. Source and reader must be in one
// process, and of one fabric.
#pragma once

#include <cstddef>
#include <memory>

#include "base/status.h"
#include "transport/fake/fabric.h"
#include "transport/registry.h"

namespace wb::fake {

Result<std::unique_ptr<Domain>> make_domain(const Fabric& fabric, size_t host,
                                            const DomainOptions& options);

// Over a fabric that this process has for it: one host with two NICs and a thread.
Result<std::unique_ptr<Domain>> make_domain(const DomainOptions& options);

}  // namespace wb::fake
