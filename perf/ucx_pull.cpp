// How fast the ucx transport reads, for a comparison with ucx_perftest in turn: see ucx_pull.sh.
// Prints one line: the median GB/s over the samples, and what UCX used.
//
//   ucx_pull [--tls=tcp] [--size=1048576] [--mib=64] [--samples=9]
#include <gflags/gflags.h>

#include <chrono>
#include <cstdio>
#include <vector>

#include "pull_source.h"
#include "transport/registry.h"

DEFINE_string(tls, "tcp", "UCX_TLS");
DEFINE_uint64(size, 1u << 20, "bytes of one read");
DEFINE_uint64(mib, 64, "bytes of one pull, in MiB");
DEFINE_uint64(samples, 9, "pulls; the median is shown");

int main(int argc, char** argv) {
  using namespace wb;
  using namespace wb::perf;
  gflags::SetUsageMessage("reads of one size through the ucx transport");
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  const uint64_t bytes = FLAGS_mib << 20;
  if (FLAGS_size == 0 || bytes % FLAGS_size != 0) {
    std::fprintf(stderr, "--size must divide the bytes of a pull\n");
    return 2;
  }
  DomainOptions options;
  options.ucx.tls = FLAGS_tls;
  Source source(TransportKind::kUcx, options, MemoryKind::kHost, bytes);
  auto domain = must(make_domain(TransportKind::kUcx, options));
  const Deadline deadline = Deadline::after(std::chrono::minutes(10));
  auto connection =
      must(domain->connect(source.address, std::make_unique<PipeExchange>(source), deadline));
  const RemoteRegion remote = must(connection->import_region(source.key, deadline));
  const auto local = must(Allocation::host(bytes, {}));
  const RegionId target = must(domain->register_region(local, Access::kLocalTarget));
  // Every read goes to the same place and each comes from its own: rows that cannot be merged.
  const auto size = static_cast<int64_t>(FLAGS_size);
  const ReadList list{.runs = {{.length = FLAGS_size,
                                .count = bytes / FLAGS_size,
                                .remote_pitch = size,
                                .local_pitch = size}}};
  auto job = must(connection->prepare(list, {{remote}}, {{target}}));
  const auto pull = [&] {
    if (const Status posted = connection->post(*job); !posted.ok()) give_up(posted);
    while (connection->poll(*job) == JobState::kActive) {
    }
    if (job->state() != JobState::kDone) give_up(job->status());
  };
  pull();
  std::vector<double> rates;
  for (uint64_t i = 0; i < FLAGS_samples; ++i) {
    rates.push_back(static_cast<double>(bytes) / seconds(pull) / 1e9);
  }
  std::printf("%.3f GB/s %s\n", median(rates), connection->mechanism().c_str());
  return 0;
}
