// What connections need of their domain; they may outlive it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "observe/log.h"
#include "transport/region_table.h"
#include "transport/stamp_table.h"
#include "transport/transport.h"
#include "transport/verbs/options.h"
#include "transport/verbs/rail.h"
#include "transport/verbs/registration.h"

namespace wb::verbs {

struct VerbsRegion {
  std::shared_ptr<const Registration> registration;
  Access access = Access::kLocalTarget;
  StampTable::Entry entry;  // of a kRemoteRead region
};

struct DomainState {
  std::vector<std::shared_ptr<Rail>> rails;
  Digest incarnation;
  Digest network;
  VerbsOptions options;
  Log log;

  mutable std::mutex mutex;  // guards what follows
  RegionTable<const VerbsRegion> regions;
  // Connections to a source that are closed, but that it has not been told of: the next request to
  // it names them. A source that is never asked again finds out by itself (responders.h).
  std::map<Digest, std::vector<Digest>> ended;

  // kNotFound for an unknown region.
  Result<std::shared_ptr<const VerbsRegion>> find(RegionId region) const;
  void add_ended(const Digest& source, const Digest& connection);
  std::vector<Digest> take_ended(const Digest& source);
};

}  // namespace wb::verbs
