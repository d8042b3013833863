// Discovery: from a formation to the manifests of its members.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/hash.h"
#include "base/status.h"
#include "control/manifest.h"
#include "control/membership.h"
#include "control/store_client.h"
#include "layout/tensor_table.h"

namespace wb {

// A member of the formation that answered for itself.
struct SourcePeer {
  WorkerRecord record;
  std::shared_ptr<const Manifest> manifest;
};

// A member that did not, and why.
struct MissingPeer {
  uint32_t rank = 0;
  Digest incarnation;
  Status reason;
};

struct RosterResult {
  std::vector<SourcePeer> peers;  // ascending rank
  std::vector<MissingPeer> missing;
};

class Roster {
 public:
  Roster(std::shared_ptr<StoreClient> store, std::string job, std::string token)
      : store_(std::move(store)), job_(std::move(job)), token_(std::move(token)) {}

  // Asks the store for the members' records and the members for their manifests (cached by digest).
  // A member that cannot be asked is reported as missing; an answer that no repetition can mend
  // (another tensor table, a refused token) ends it with that error.
  Result<RosterResult> look_up(const Formation& formation, const TensorTable& table,
                               Deadline deadline);

 private:
  Result<std::shared_ptr<const Manifest>> manifest_of(const WorkerRecord& record,
                                                      const TensorTable& table, Deadline deadline);

  const std::shared_ptr<StoreClient> store_;
  const std::string job_;
  const std::string token_;
  std::map<Digest, std::shared_ptr<const Manifest>> cache_;  // of the last formation's members
};

}  // namespace wb
