#include "models.h"

#include <cstdio>
#include <cstdlib>

#include "base/checked.h"
#include "layout/rules.h"
#include "layout/spec.h"

namespace wb::test {
namespace {

// What torch's caching allocator rounds to.
constexpr uint64_t kAlignment = 512;

template <typename T>
T checked(Result<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", result.status().to_string().c_str());
    std::abort();
  }
  return std::move(result).value();
}

}  // namespace

Model qwen3_0_6b() { return testing::make_model(testing::qwen3_0_6b()); }

Model deepseek_v3(int64_t layers) {
  ModelConfig config = testing::deepseek_v3();
  config.layers = layers;
  return testing::make_model(config);
}

OwnedWorker rank_of(const Model& model, const std::string& spec, uint32_t rank) {
  OwnedWorker worker;
  worker.name = spec + " rank " + std::to_string(rank);
  worker.layout = checked(lay_out(checked(parse_spec(spec)), model.config, model.table, rank));
  uint64_t offset = 0;
  for (const BufferInfo& buffer : worker.layout.buffers) {
    worker.placement.push_back(Placement{0, offset});
    offset = round_up(offset + buffer.bytes, kAlignment);
  }
  worker.region_bytes.push_back(offset);
  return worker;
}

World world_of(const Model& model, const std::string& trainer, const std::string& rollout,
               uint32_t rank) {
  World world;
  world.table = model.table;
  world.receiver = rank_of(model, rollout, rank);
  const uint32_t sources = checked(parse_spec(trainer)).world();
  for (uint32_t s = 0; s < sources; ++s) world.sources.push_back(rank_of(model, trainer, s));
  return world;
}

ModelJob::ModelJob(Model m, const std::string& trainer, const std::string& rollout)
    : model(std::move(m)) {
  const std::string specs[] = {trainer, rollout};
  for (int s = 0; s < 2; ++s) {
    sides[s] = *lay_out_all(*parse_spec(specs[s]), model.config, model.table);
    for (const LayoutFamily& family : sides[s].families) {
      packed[s].push_back(pack_buffers(family.base));
    }
    for (size_t w = 0; w < sides[s].size(); ++w) {
      const PackedBuffers& p = packed[s][sides[s].members[w].family];
      workers[s].push_back({"w" + std::to_string(w), p.placement, p.region_bytes, {}});
    }
  }
  cluster = plain_cluster(&workers[0], &workers[1]);
}

Fleet ModelJob::fleet() const {
  return *Fleet::make(model.table, {&sides[0], workers[0]}, {&sides[1], workers[1]}, cluster);
}

}  // namespace wb::test
