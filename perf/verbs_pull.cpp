// How fast the verbs transport reads, for a comparison with ib_read_bw in turn: see verbs_pull.sh.
// Prints one line: the median GB/s over the samples, and what was used.
//
//   verbs_pull --source=devices=rxa0 --reader=devices=rxb0 [--size=1048576] [--mib=64]
#include <gflags/gflags.h>

#include <cstdio>

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
  Reader reader(TransportKind::kVerbs, options, source, bytes);
  const ReadList list{.runs = {{.length = bytes}}};
  const double rate = reader.median_rate(list, FLAGS_samples);
  std::printf("%.4f GB/s %s\n", rate, reader.mechanism().c_str());
  return 0;
}
