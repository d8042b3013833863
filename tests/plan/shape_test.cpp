#include "plan/shape.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace wb {
namespace {

const TransportCosts& costs(const char* name) { return *find_transport_costs(name); }

wb::Run rows(uint64_t length, uint64_t count, int64_t remote_pitch, int64_t local_pitch) {
  return wb::Run{0, 0, 0, 0, length, count, remote_pitch, local_pitch};
}

// deepseek-v3's o_proj: a trainer's columns are one block, the receiver's rows lie 32 KiB apart.
TEST(Shape, OProjIntoGpuMemoryGoesThroughTheRing) {
  const wb::Run run = rows(4096, 7168, 4096, 32768);
  const ShapedRun staged = shape_run(run, costs("verbs-cuda"));
  EXPECT_EQ(staged.shape, Shape::kStaged);
  EXPECT_EQ(staged.reads, 7u);  // 28 MiB in reads of 4 MiB
  EXPECT_EQ(staged.staged, run.length * run.count);
  EXPECT_EQ(staged.waste, 0u);
  // Into host memory, scatter entries cost less than a second pass over the bytes.
  const ShapedRun scattered = shape_run(run, costs("verbs"));
  EXPECT_EQ(scattered.shape, Shape::kScatter);
  EXPECT_EQ(scattered.reads, (run.count + 15) / 16);
  // Where a row is a memcpy anyway, nothing is gained.
  EXPECT_EQ(shape_run(run, costs("local-mapped")).shape, Shape::kRows);
}

// The receiver is cut finer on the last dimension than the source: strips.
TEST(Shape, StripsAreCoveredOrRelaid) {
  const wb::Run strips = rows(512, 7168, 1024, 512);
  const ShapedRun covered = shape_run(strips, costs("verbs-cuda"));
  EXPECT_EQ(covered.shape, Shape::kCovering);
  EXPECT_EQ(covered.reads, 2u);
  EXPECT_EQ(covered.waste, (7168u - 2) * 512);
  EXPECT_EQ(covered.staged, covered.waste + 512 * 7168);

  TransportCosts relay = costs("verbs-cuda");
  relay.can_relay = true;
  const wb::Run thin = rows(128, 7168, 16384, 128);
  EXPECT_EQ(shape_run(thin, relay).shape, Shape::kRelaid);
  EXPECT_EQ(shape_run(thin, relay).staged, 0u);
  // So far apart that what lies between costs more than the reads.
  EXPECT_EQ(shape_run(rows(8192, 64, 1 << 20, 8192), costs("verbs-cuda")).shape, Shape::kRows);
}

TEST(Shape, OneRowIsOneRead) {
  for (const char* name : {"local-mapped", "local-vm", "ucx", "verbs", "verbs-cuda"}) {
    const ShapedRun shaped = shape_run(rows(1 << 20, 1, 0, 0), costs(name));
    EXPECT_EQ(shaped.shape, Shape::kRows);
    EXPECT_EQ(shaped.reads, 1u);
  }
  EXPECT_EQ(find_transport_costs("carrier pigeon"), nullptr);
}

// The chosen way is never dearer than plain rows, fetches at least the bytes of the run and at most
// what its rows span, and extreme numbers do not wrap.
RC_GTEST_PROP(ShapeProperty, NeverDearerThanRows, ()) {
  const auto name =
      *rc::gen::element<const char*>("local-mapped", "local-vm", "ucx", "verbs", "verbs-cuda");
  TransportCosts c = costs(name);
  c.can_relay = *rc::gen::arbitrary<bool>();
  const auto any = [] { return *rc::gen::inRange<uint64_t>(1, 64) << *rc::gen::inRange(0, 30); };
  const uint64_t length = any();
  const uint64_t count = any();
  const auto pitch = [&] {
    const auto p = static_cast<int64_t>(*rc::gen::element<uint64_t>(0, length, length + any()));
    return *rc::gen::arbitrary<bool>() ? p : -p;
  };
  const wb::Run run = rows(length, count, pitch(), pitch());
  const ShapedRun shaped = shape_run(run, c);
  using Wide = unsigned __int128;
  const Wide plain = Wide{count} * c.read_ps + Wide{length} * count * c.byte_ps;
  RC_ASSERT(Wide{shaped.cost_ps} <= plain);
  RC_ASSERT(shaped.reads >= 1u);
  RC_ASSERT(shaped.reads <= count);
  if (shaped.shape == Shape::kStaged) RC_ASSERT(shaped.staged == length * count);
  if (shaped.shape == Shape::kCovering) RC_ASSERT(shaped.staged == length * count + shaped.waste);
  if (shaped.shape == Shape::kRows) RC_ASSERT(shaped.reads == count);
}

}  // namespace
}  // namespace wb
