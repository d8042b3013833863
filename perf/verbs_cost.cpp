// What one READ costs this process: posting and completing 10^6 of them on a fake NIC that
// completes at once and copies no data. Fails above 15 ns.
//
//   verbs_cost [--reads=1000000] [--samples=21] [--queue_pairs=2]
#include <gflags/gflags.h>

#include <time.h>

#include <chrono>
#include <cstdio>
#include <vector>

#include "pull_source.h"
#include "transport/fake/domain.h"
#include "transport/verbs/connection.h"

DEFINE_uint64(reads, 1000000, "READs of one pull");
DEFINE_uint64(samples, 21, "pulls; the median is shown");
DEFINE_uint32(queue_pairs, 2, "data queue pairs");
DEFINE_uint64(row, 64, "bytes of one READ");

namespace {

// The time of this thread's processor: the machine may have other work.
double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

class DirectExchange : public wb::Exchange {
 public:
  explicit DirectExchange(wb::Domain* source) : source_(source) {}
  wb::Result<std::string> call(std::string_view payload, wb::Deadline) override {
    return source_->handle_exchange(payload);
  }

 private:
  wb::Domain* source_;
};

}  // namespace

int main(int argc, char** argv) {
  using namespace wb;
  using namespace wb::perf;
  gflags::SetUsageMessage("software cost of one READ");
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  fake::Fabric fabric({.engine = fake::Engine::kInstant});
  fabric.add_host({fake::connectx(7, "source", "10.0.0.1")});
  fabric.add_host({fake::connectx(7, "reader", "10.0.0.2")});
  DomainOptions options;
  options.verbs.queue_pairs = FLAGS_queue_pairs;
  auto source = must(fake::make_domain(fabric, 0, options));
  auto reader = must(fake::make_domain(fabric, 1, options));
  const Deadline deadline = Deadline::after(std::chrono::minutes(1));
  // Rows of every second place: nothing can be merged.
  const uint64_t row = FLAGS_row;
  const auto from = must(Allocation::host(2 * row * FLAGS_reads, {}));
  const auto to = must(Allocation::host(row * FLAGS_reads, {}));
  const auto id = must(source->register_region(from, Access::kRemoteRead));
  const auto target = must(reader->register_region(to, Access::kLocalTarget));
  auto connection = must(
      reader->connect(source->address(), std::make_unique<DirectExchange>(source.get()), deadline));
  const auto remote = must(connection->import_region(must(source->export_key(id)), deadline));
  const ReadList list{.runs = {{.length = row,
                                .count = FLAGS_reads,
                                .remote_pitch = static_cast<int64_t>(2 * row),
                                .local_pitch = static_cast<int64_t>(row)}}};
  auto job = must(connection->prepare(list, {{remote}}, {{target}}));
  const auto& verbs_connection = dynamic_cast<verbs::VerbsConnection&>(*connection);
  const auto pull = [&] {
    if (const Status posted = connection->post(*job); !posted.ok()) give_up(posted);
    while (connection->poll(*job) == JobState::kActive) {
    }
    if (job->state() != JobState::kDone) give_up(job->status());
  };
  pull();
  const auto before = verbs_connection.counters();
  std::vector<double> costs;
  for (uint64_t i = 0; i < FLAGS_samples; ++i) {
    const double begin = processor_seconds();
    pull();
    costs.push_back((processor_seconds() - begin) * 1e9 / static_cast<double>(FLAGS_reads));
  }
  const auto after = verbs_connection.counters();
  const auto reads = static_cast<double>(after.reads - before.reads);
  std::printf(
      "%.1f ns per read (post and complete); reads per doorbell %.1f, per completion %.1f\n",
      median(costs), reads / static_cast<double>(after.doorbells - before.doorbells),
      reads / static_cast<double>(after.completions - before.completions));
  return median(costs) <= 15 ? 0 : 1;
}
