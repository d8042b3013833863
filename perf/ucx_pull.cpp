// How fast the ucx transport reads, for a comparison with ucx_perftest in turn: see ucx_pull.sh.
// Prints one line: the median GB/s over the samples, and what UCX used.
//
//   ucx_pull [--tls=tcp] [--size=1048576] [--mib=64] [--samples=9]
#include <gflags/gflags.h>

#include <cstdio>

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
  Reader reader(TransportKind::kUcx, options, source, bytes);
  // Every read goes to the same place and each comes from its own: rows that cannot be merged.
  const auto size = static_cast<int64_t>(FLAGS_size);
  const ReadList list{.runs = {{.length = FLAGS_size,
                                .count = bytes / FLAGS_size,
                                .remote_pitch = size,
                                .local_pitch = size}}};
  const double rate = reader.median_rate(list, FLAGS_samples);
  std::printf("%.3f GB/s %s\n", rate, reader.mechanism().c_str());
  return 0;
}
