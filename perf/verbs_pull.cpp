// How fast the verbs transport reads, for a comparison with ib_read_bw in turn: see verbs_pull.sh.
// Prints one line: the median GB/s over the samples, and what was used.
//
//   verbs_pull --source=devices=rxa0 --reader=devices=rxb0 [--size=1048576] [--mib=64]
#include <gflags/gflags.h>

#include <chrono>
#include <cstdio>
#include <vector>

#include "pull_source.h"
#include "transport/registry.h"

DEFINE_string(source, "", "verbs options of the source");
DEFINE_string(reader, "", "verbs options of the reader");
DEFINE_uint64(size, 1u << 20, "bytes of one read");
DEFINE_uint64(mib, 64, "bytes of one pull, in MiB");
DEFINE_uint64(samples, 9, "pulls; the median is shown");

int main(int argc, char** argv) {
  using namespace wb;
  using namespace wb::perf;
  gflags::SetUsageMessage("reads of one size through the verbs transport");
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  const uint64_t bytes = FLAGS_mib << 20;
  if (FLAGS_size == 0 || bytes % FLAGS_size != 0) {
    std::fprintf(stderr, "--size must divide the bytes of a pull\n");
    return 2;
  }
  DomainOptions options;
  options.verbs = must(parse_verbs_options(FLAGS_source));
  Source source(TransportKind::kVerbs, options, MemoryKind::kHost, bytes);
  options.verbs = must(parse_verbs_options(FLAGS_reader));
  // One READ of the wire per row, whatever its size.
  options.verbs.max_read = static_cast<uint32_t>(FLAGS_size);
  auto domain = must(make_domain(TransportKind::kVerbs, options));
  const Deadline deadline = Deadline::after(std::chrono::minutes(10));
  auto connection =
      must(domain->connect(source.address, std::make_unique<PipeExchange>(source), deadline));
  const RemoteRegion remote = must(connection->import_region(source.key, deadline));
  const auto local = must(Allocation::host(bytes, {}));
  const RegionId target = must(domain->register_region(local, Access::kLocalTarget));
  const ReadList list{.runs = {{.length = bytes}}};
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
  std::printf("%.4f GB/s %s\n", median(rates), connection->mechanism().c_str());
  return 0;
}
