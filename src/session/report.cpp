#include "session/report.h"

#include <string_view>

namespace wb {
namespace {

std::string_view kind_name(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kHost:
      return "host";
    case MemoryKind::kShared:
      return "shared";
    case MemoryKind::kCaller:
      return "caller";
  }
  return "unknown";
}

}  // namespace

nlohmann::json job_report(const JobInternal& job) {
  nlohmann::json out;
  out["job"] = job.options().name;
  out["store"] = job.store_url();
  out["host"] = job.options().host;
  nlohmann::json allowed = nlohmann::json::array();
  for (const auto& domain : job.domains()) allowed.push_back(transport_name(domain->kind()));
  out["transports_in_order"] = std::move(allowed);
  nlohmann::json missing = nlohmann::json::array();
  for (const MissingTransport& one : job.missing())
    missing.push_back({{"transport", transport_name(one.kind)}, {"reason", one.reason}});
  out["transports_missing"] = std::move(missing);
  return out;
}

nlohmann::json memory_report(const std::vector<std::shared_ptr<Allocation>>& memory) {
  nlohmann::json out = nlohmann::json::array();
  for (const auto& allocation : memory)
    out.push_back({{"kind", kind_name(allocation->kind())}, {"bytes", allocation->bytes()}});
  return out;
}

std::string dump_report(const nlohmann::json& report) {
  return report.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace wb
