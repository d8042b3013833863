// How fast the local transport copies, beside memcpy and raw process_vm_readv of the same bytes in
// the same run: each sample times both in turn, so that a loaded machine slows both; the table
// shows medians of the per-sample ratios.
//
//   local_pull [--mib=256] [--samples=9]
#include <gflags/gflags.h>
#include <sys/uio.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "pull_source.h"
#include "transport/registry.h"

DEFINE_uint64(mib, 256, "bytes of each buffer, in MiB");
DEFINE_uint64(samples, 9, "samples of each row; medians are shown");

namespace {

using wb::Deadline;
using wb::perf::give_up;
using wb::perf::median;
using wb::perf::must;
using wb::perf::PipeExchange;
using wb::perf::seconds;
using wb::perf::Source;

struct Shape {
  const char* name;
  uint64_t piece;
  bool shuffled;
  uint64_t pitch;  // of the local rows, in bytes; 0: none
  double target;
};

// `bytes` in pieces; a pitched shape puts its rows into twice the room.
wb::ReadList list_of(const Shape& shape, uint64_t bytes) {
  wb::ReadList list;
  if (shape.pitch != 0) {
    list.runs.push_back({.length = shape.piece,
                         .count = bytes / shape.pitch,
                         .remote_pitch = static_cast<int64_t>(shape.piece),
                         .local_pitch = static_cast<int64_t>(shape.pitch)});
    return list;
  }
  for (uint64_t at = 0; at < bytes; at += shape.piece) {
    list.runs.push_back({.remote_offset = at, .local_offset = at, .length = shape.piece});
  }
  if (shape.shuffled) {
    std::mt19937_64 random(1);
    std::vector<uint64_t> places(list.runs.size());
    for (size_t i = 0; i < places.size(); ++i) places[i] = list.runs[i].remote_offset;
    std::shuffle(places.begin(), places.end(), random);
    for (size_t i = 0; i < places.size(); ++i) list.runs[i].remote_offset = places[i];
    std::shuffle(list.runs.begin(), list.runs.end(), random);
  }
  return list;
}

uint64_t bytes_of(const wb::ReadList& list) {
  return std::accumulate(list.runs.begin(), list.runs.end(), uint64_t{0},
                         [](uint64_t sum, const wb::Run& r) { return sum + r.length * r.count; });
}

void raw_readv(pid_t pid, uint64_t remote, std::byte* local, const wb::ReadList& list) {
  std::vector<iovec> from;
  std::vector<iovec> to;
  const auto flush = [&] {
    const ssize_t got = process_vm_readv(pid, to.data(), to.size(), from.data(), from.size(), 0);
    if (got < 0) give_up(wb::errno_status(errno, "process_vm_readv"));
    from.clear();
    to.clear();
  };
  for (const wb::Run& run : list.runs) {
    for (uint64_t row = 0; row < run.count; ++row) {
      from.push_back({reinterpret_cast<void*>(remote + run.remote_offset +
                                              row * static_cast<uint64_t>(run.remote_pitch)),
                      run.length});
      to.push_back(
          {local + run.local_offset + row * static_cast<uint64_t>(run.local_pitch), run.length});
      if (from.size() == 1024) flush();
    }
  }
  if (!from.empty()) flush();
}

void measure(wb::MemoryKind kind, const std::vector<Shape>& shapes) {
  const uint64_t bytes = FLAGS_mib << 20;
  Source source(wb::TransportKind::kLocal, {}, kind, bytes);
  auto domain = must(wb::make_domain(wb::TransportKind::kLocal, {}));
  const Deadline deadline = Deadline::after(std::chrono::minutes(10));
  auto connection =
      must(domain->connect(source.address, std::make_unique<PipeExchange>(source), deadline));
  wb::RemoteRegion remote = 0;
  const double import =
      seconds([&] { remote = must(connection->import_region(source.key, deadline)); });
  auto local = must(wb::Allocation::host(bytes, {}));
  const auto target = must(domain->register_region(local, wb::Access::kLocalTarget));
  // What memcpy reads: as many bytes in pages of the same kind, in this process.
  auto plain = must(wb::Allocation::shared(bytes, {}));
  std::memset(plain->data(), 1, bytes);
  std::printf("\n%s, %lu MiB; importing the region took %.1f ms\n", connection->mechanism().c_str(),
              static_cast<unsigned long>(FLAGS_mib), import * 1e3);
  std::printf("%-26s %10s %10s %8s %8s\n", "shape", "GB/s", "base GB/s", "ratio", "target");
  for (const Shape& shape : shapes) {
    const wb::ReadList list = list_of(shape, bytes);
    const uint64_t moved = bytes_of(list);
    auto job = must(connection->prepare(list, {{remote}}, {{target}}));
    const auto pull = [&] {
      if (const auto posted = connection->post(*job); !posted.ok()) give_up(posted);
      while (connection->poll(*job) == wb::JobState::kActive) {
      }
      if (job->state() != wb::JobState::kDone) give_up(job->status());
    };
    const auto base = [&] {
      if (kind == wb::MemoryKind::kShared) {
        std::memcpy(local->data(), plain->data(), moved);
      } else {
        raw_readv(source.pid(), source.place, local->data(), list);
      }
    };
    pull();
    base();
    std::vector<double> pulls;
    std::vector<double> bases;
    std::vector<double> ratios;
    for (uint64_t i = 0; i < FLAGS_samples; ++i) {
      const double before = seconds(base);
      const double pulled = seconds(pull);
      const double after = seconds(base);
      pulls.push_back(static_cast<double>(moved) / pulled / 1e9);
      bases.push_back(static_cast<double>(moved) / ((before + after) / 2) / 1e9);
      ratios.push_back((before + after) / 2 / pulled);
    }
    std::printf("%-26s %10.2f %10.2f %8.2f %8.2f\n", shape.name, median(pulls), median(bases),
                median(ratios), shape.target);
  }
}

}  // namespace

int main(int argc, char** argv) {
  gflags::SetUsageMessage("the local transport against memcpy and process_vm_readv");
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  std::printf("base of mapped memory: one memcpy of the same number of bytes\n");
  measure(wb::MemoryKind::kShared, {{"one piece", FLAGS_mib << 20, false, 0, 0.95},
                                    {"1 MiB pieces, shuffled", 1u << 20, true, 0, 0.95},
                                    {"64 KiB pieces, shuffled", 64u << 10, true, 0, 0.95},
                                    {"4 KiB pieces, shuffled", 4u << 10, true, 0, 0.60},
                                    {"4 KiB rows into 8 KiB", 4u << 10, false, 8u << 10, 0.85}});
  std::printf("\nbase of other memory: raw process_vm_readv of the same ranges, 1024 a call\n");
  measure(wb::MemoryKind::kHost, {{"one piece", FLAGS_mib << 20, false, 0, 0.95},
                                  {"64 KiB pieces, shuffled", 64u << 10, true, 0, 0.95},
                                  {"4 KiB pieces, shuffled", 4u << 10, true, 0, 0.95},
                                  {"4 KiB rows into 8 KiB", 4u << 10, false, 8u << 10, 0.95}});
  return 0;
}
