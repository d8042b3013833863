// A program outside the tree, in C++20: a snapshot publisher and a staging receiver, through the
// transports of argv[1] (default: the library's own choice). Exit code 0: every byte verified.
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <vector>
#include <weightbridge/weightbridge.hpp>

namespace wb = weightbridge;
using namespace std::chrono_literals;

int main(int argc, char** argv) try {
  auto job = wb::Job::open({.store = "embed:127.0.0.1:0",
                            .token = "shared-secret",
                            .transports = argc > 1 ? argv[1] : ""},
                           20s)
                 .value();
  const auto table =
      wb::Table::create({{"a", wb::DType::kI32, {1000}}, {"b", wb::DType::kF64, {}}}).value();
  std::vector<std::int32_t> a(1000), served_a(1000, -1);
  double b = 0, served_b = -1;
  auto have = wb::Layout::create(table).value();
  auto need = wb::Layout::create(table).value();
  have.add_tensor("a", a).value();
  have.add_tensor("b", &b, sizeof b).value();
  need.add_tensor("a", served_a).value();
  need.add_tensor("b", &served_b, sizeof served_b).value();

  auto publisher =
      wb::Publisher::create(job, have, {.mode = wb::PublishMode::kSnapshot, .slots = 2}, 20s)
          .value();
  auto receiver =
      wb::Receiver::create(job, need, {.name = "rollout-0", .staging = true}, 20s).value();
  for (int version = 1; version <= 5; ++version) {
    std::iota(a.begin(), a.end(), version * 5000);
    b = version / 2.0;
    publisher.publish(static_cast<std::uint64_t>(version)).or_throw();
    std::fill(a.begin(), a.end(), 0);  // the live buffers are free at once
    const auto pulled = receiver.pull(wb::latest, 20s).value();
    if (served_a[0] == version * 5000) return std::puts("installed before install()"), 1;
    const auto installed = receiver.install().value();
    std::iota(a.begin(), a.end(), version * 5000);
    if (a != served_a || b != served_b) return std::puts("wrong weights"), 1;
    if (pulled.version.number != static_cast<std::uint64_t>(version)) return 1;
    if (installed.memory != wb::MemoryState::kComplete) return 1;
  }
  const auto stats = publisher.stats().value();
  std::printf("%d versions, %zu bytes of start-up report\n", static_cast<int>(stats.published),
              publisher.report().value().size());
  return stats.published == 5 ? 0 : 1;
} catch (const wb::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
