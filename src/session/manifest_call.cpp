#include "session/manifest_call.h"

#include <span>

#include "session/exchange.h"

namespace wb {

Result<Manifest> fetch_manifest(const WorkerRecord& record, const std::string& token,
                                const TensorTable& table, Deadline deadline) {
  WB_ASSIGN_OR_RETURN(const std::string bytes,
                      peer_call(record.endpoint, token, kManifestTopic, "", deadline));
  const auto view = std::as_bytes(std::span(bytes));
  if (digest_of(view) != record.manifest) {
    return Status(Code::kUnavailable,
                  "it serves another manifest than its record in the store names: it is starting, "
                  "or its address belongs to another process now");
  }
  return decode_manifest(view, table);
}

}  // namespace wb
