#include "world.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "session/job_internal.h"

namespace wb::testing {
namespace {

constexpr char kToken[] = "token-of-the-tests";

// Calls fn(byte offset in the buffer, checkpoint index) for each element of a piece.
template <typename Fn>
void each_element(const TensorInfo& tensor, const Piece& piece, Fn fn) {
  const int rank = piece.box.rank();
  std::vector<int64_t> at(static_cast<size_t>(rank), 0);
  while (true) {
    int64_t offset = piece.offset;
    int64_t index = 0;
    for (int d = 0; d < rank; ++d) {
      const auto i = static_cast<size_t>(d);
      offset += at[i] * piece.stride[i];
      index = index * tensor.shape[i] + piece.box.dim(d).start + at[i] * piece.box.dim(d).step;
    }
    fn(static_cast<uint64_t>(offset), static_cast<uint64_t>(index));
    int d = rank - 1;
    while (d >= 0 && ++at[static_cast<size_t>(d)] == piece.box.dim(d).count)
      at[static_cast<size_t>(d--)] = 0;
    if (d < 0) return;
  }
}

std::byte* buffer_data(const BoundBuffer& buffer) { return buffer.memory->data() + buffer.offset; }

WorkerLayout cut(const TensorTable& table, size_t dimension, int64_t part, int64_t parts) {
  WorkerLayout layout;
  for (uint32_t t = 0; t < table.size(); ++t) {
    std::vector<int64_t> shape = table[t].shape;
    std::vector<Progression> dims;
    for (const int64_t extent : shape) dims.push_back({0, extent, 1});
    if (dimension < shape.size()) {
      const int64_t from = shape[dimension] * part / parts;
      const int64_t to = shape[dimension] * (part + 1) / parts;
      if (from == to) continue;
      dims[dimension] = {from, to - from, 1};
      shape[dimension] = to - from;
    }
    Piece piece;
    piece.tensor = t;
    piece.buffer = static_cast<uint32_t>(layout.buffers.size());
    piece.box = Box::make(dims).value();
    int64_t stride = 4;
    for (size_t d = shape.size(); d-- > 0; stride *= shape[d]) piece.stride[d] = stride;
    layout.buffers.push_back(
        {"own." + table[t].name, table[t].dtype, shape, static_cast<uint64_t>(stride)});
    layout.pieces.push_back(piece);
  }
  return layout;
}

}  // namespace

TensorTable make_table(int64_t rows) {
  std::vector<TensorInfo> tensors;
  tensors.push_back({"embed", DType::kU32, {4 * rows, 24}});
  tensors.push_back({"layer.0.up", DType::kU32, {3 * rows, 40}});
  tensors.push_back({"layer.0.norm", DType::kU32, {rows + 3}});
  tensors.push_back({"layer.1.down", DType::kU32, {rows, 120}});
  return TensorTable::make(std::move(tensors)).value();
}

uint32_t element(uint64_t version, uint32_t tensor, uint64_t index) {
  uint64_t x = version * 0x9e3779b97f4a7c15ULL + tensor * 0xbf58476d1ce4e5b9ULL + index;
  x = (x ^ (x >> 31)) * 0x94d049bb133111ebULL;
  return static_cast<uint32_t>(x >> 32);
}

WorkerLayout cut_rows(const TensorTable& table, int64_t part, int64_t parts) {
  return cut(table, 0, part, parts);
}
WorkerLayout cut_columns(const TensorTable& table, int64_t part, int64_t parts) {
  return cut(table, 1, part, parts);
}

void fill(const TensorTable& table, const WorkerLayout& layout,
          const std::vector<BoundBuffer>& buffers, uint64_t version) {
  for (const Piece& piece : layout.pieces) {
    std::byte* const data = buffer_data(buffers[piece.buffer]);
    each_element(table[piece.tensor], piece, [&](uint64_t offset, uint64_t index) {
      __atomic_store_n(reinterpret_cast<uint32_t*>(data + offset),
                       element(version, piece.tensor, index), __ATOMIC_RELAXED);
    });
  }
}

uint64_t wrong(const TensorTable& table, const WorkerLayout& layout,
               const std::vector<BoundBuffer>& buffers, uint64_t version) {
  uint64_t count = 0;
  for (const Piece& piece : layout.pieces) {
    const std::byte* const data = buffer_data(buffers[piece.buffer]);
    each_element(table[piece.tensor], piece, [&](uint64_t offset, uint64_t index) {
      uint32_t value;
      std::memcpy(&value, data + offset, sizeof value);
      count += value != element(version, piece.tensor, index);
    });
  }
  return count;
}

void poison(const WorkerLayout& layout, const std::vector<BoundBuffer>& buffers) {
  for (size_t i = 0; i < buffers.size(); ++i)
    std::memset(buffer_data(buffers[i]), 0xa5, layout.buffers[i].bytes);
}

namespace {

// Small chunks, late and in a seeded order, in a thread of the NICs: a source that changes in
// between really tears.
fake::Script script_of(uint64_t seed) {
  return {.engine = fake::Engine::kThread, .seed = seed, .chunk = 512, .delay = 2};
}

}  // namespace

World::World(Wire wire, uint64_t seed, int64_t rows)
    : table(make_table(rows)), net(seed), fabric(script_of(seed)), wire_(wire) {
  open_store("embed:127.0.0.1:0");
}

void World::lose_store() {
  const std::string url = store_job_->store_url();
  EXPECT_TRUE(store_job_->close(soon()).ok());
  open_store("embed:127.0.0.1" + url.substr(url.rfind(':')));
}

void World::open_store(const std::string& store) {
  JobOptions options;
  options.name = "test";
  options.token = kToken;
  options.store = store;
  auto job = open_job_over(options, {}, soon());
  EXPECT_TRUE(job.ok()) << job.status().to_string();
  if (job.ok()) store_job_ = *job;
}

World::~World() {
  EXPECT_EQ(net.active_jobs, 0) << "reads are in flight after all pulls have returned";
  if (store_job_ != nullptr) {
    EXPECT_TRUE(store_job_->close(soon()).ok());
  }
}

std::shared_ptr<Job> World::open_job() {
  JobOptions options;
  options.name = "test";
  options.token = kToken;
  options.store = store_job_->store_url();
  Result<std::shared_ptr<Job>> job = Status(Code::kInternal, "not opened");
  std::vector<std::unique_ptr<Domain>> domains;
  if (wire_ == Wire::kFake) {
    domains.push_back(net.make_domain());
    job = open_job_over(options, std::move(domains), soon());
  } else if (wire_ == Wire::kVerbs) {
    domains.push_back(open_nics());
    job = open_job_over(options, std::move(domains), soon());
  } else {
    options.transports = {TransportKind::kLocal};
    job = Job::open(options, soon());
  }
  EXPECT_TRUE(job.ok()) << job.status().to_string();
  return job.ok() ? *job : nullptr;
}

std::unique_ptr<Domain> World::open_nics() {
  const std::lock_guard lock(hosts_mutex_);
  std::vector<fake::NicCaps> nics;
  for (int i = 0; i < 2; ++i) {
    nics.push_back(fake::connectx(7, "nic" + std::to_string(i),
                                  "10.0." + std::to_string(i) + "." + std::to_string(hosts_ + 1)));
  }
  const size_t host = fabric.add_host(std::move(nics));
  EXPECT_EQ(host, hosts_++);
  DomainOptions options;
  options.verbs = verbs_options;
  auto domain = fake::make_domain(fabric, host, options);
  EXPECT_TRUE(domain.ok()) << domain.status().to_string();
  return std::move(domain).value();
}

Result<std::vector<Trainer>> World::train(std::vector<WorkerLayout> layouts, PublishMode mode,
                                          uint32_t slots) {
  const size_t world = layouts.size();
  std::vector<Trainer> trainers(world);
  std::vector<Status> results(world);
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      Trainer& trainer = trainers[rank];
      trainer.layout = std::move(layouts[rank]);
      auto buffers = bind_new_memory(trainer.layout, MemoryKind::kShared, {});
      if (!buffers.ok()) {
        results[rank] = buffers.status();
        return;
      }
      trainer.buffers = std::move(buffers).value();
      PublisherOptions options;
      options.rank = static_cast<uint32_t>(rank);
      options.world = static_cast<uint32_t>(world);
      options.mode = mode;
      options.slots = slots;
      auto publisher =
          Publisher::create(open_job(), table, trainer.layout, trainer.buffers, options, soon());
      results[rank] = publisher.status();
      if (publisher.ok()) trainer.publisher = std::move(publisher).value();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : results) WB_RETURN_IF_ERROR(status);
  return trainers;
}

Result<Rollout> World::roll_out(WorkerLayout layout, ReceiverOptions options) {
  Rollout rollout;
  rollout.layout = std::move(layout);
  WB_ASSIGN_OR_RETURN(rollout.buffers, bind_new_memory(rollout.layout, MemoryKind::kHost, {}));
  poison(rollout.layout, rollout.buffers);
  if (options.name.empty()) options.name = "rollout-0";
  WB_ASSIGN_OR_RETURN(rollout.receiver,
                      Receiver::create(open_job(), table, rollout.layout, rollout.buffers,
                                       std::move(options), soon()));
  return rollout;
}

void World::begin(std::vector<Trainer>& trainers) {
  for (Trainer& trainer : trainers) {
    const Status status = trainer.publisher->begin_update(nullptr);
    EXPECT_TRUE(status.ok()) << status.to_string();
  }
}

void World::publish(std::vector<Trainer>& trainers, uint64_t version) {
  begin(trainers);
  for (Trainer& trainer : trainers) {
    fill(table, trainer.layout, trainer.buffers, version);
    const Status status = trainer.publisher->publish(version, nullptr);
    EXPECT_TRUE(status.ok()) << status.to_string();
  }
}

}  // namespace wb::testing
