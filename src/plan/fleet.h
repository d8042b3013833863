// The plan of all receivers of one job: who reads which bytes from whom, balanced over the sources
// and, with sharing, over the receivers. A pure function of its inputs: the same inputs give the
// same plan, byte by byte, in every process, in whatever order they are listed.
//
//   Fleet fleet = Fleet::make(table, sources, receivers, cluster);   // what there is, put in order
//   FleetPlan plan = plan_fleet(fleet, options);                     // who gets what from whom
//   FleetPart part = make_part(fleet, plan, receiver);               // one receiver's reads
//   prove_part(fleet, part), prove_fleet(fleet, parts)               // plan/fleet_proof.h
//
// plan_fleet works on classes and takes milliseconds, so that each receiver can run it for itself
// and then make only its own part.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/status.h"
#include "layout/side.h"
#include "layout/tensor_table.h"
#include "plan/balance.h"
#include "plan/classes.h"
#include "plan/cluster.h"
#include "plan/plan.h"
#include "plan/shape.h"

namespace wb {

class SideIndex;  // plan/side_index.h

// One worker of a side, beside its layout. Names are unique within the side.
struct FleetWorker {
  std::string name;
  std::span<const Placement> placement;    // parallel to the buffers of its layout; borrowed
  std::span<const uint64_t> region_bytes;  // borrowed
  Seat seat;                               // into Cluster::hosts
};

struct FleetSide {
  const Side* layouts = nullptr;     // borrowed
  std::vector<FleetWorker> workers;  // parallel to layouts->members
};

// Buffers one behind the other in one region, each at a multiple of 512 bytes: what an allocator
// would do. For planning without real memory.
struct PackedBuffers {
  std::vector<Placement> placement;
  std::vector<uint64_t> region_bytes;
};
PackedBuffers pack_buffers(const WorkerLayout& layout);

// A cluster for when nothing is known of it: hosts of `per_host` workers, each worker with a full
// duplex NIC of its own of 400 Gb/s, 450 GB/s inside a host; sources and receivers on hosts of
// their own, in the order given. Fills in the seats.
Cluster plain_cluster(std::vector<FleetWorker>* sources, std::vector<FleetWorker>* receivers,
                      uint32_t per_host = 8);

// The inputs of a plan in canonical order: workers and hosts sorted by name, shorter names first
// ("trainer-9" before "trainer-10"). Every worker index in what follows is an index into sources()
// or receivers(). Borrows table, layouts and placements.
class Fleet {
 public:
  struct Worker {
    std::string name;
    SideMember member;
    uint32_t input = 0;  // index among the workers as they were listed
    Digest digest;       // of its layout and placement
    std::span<const Placement> placement;
    std::span<const uint64_t> region_bytes;
  };

  // kInvalidArgument names the worker and what is wrong with it: a name twice there, a buffer
  // outside its region, a seat outside the cluster, a speed of zero. `cluster.sources` and
  // `cluster.receivers` are ignored: the workers' seats count. Layouts have passed check_side.
  static Result<Fleet> make(const TensorTable& table, const FleetSide& sources,
                            const FleetSide& receivers, const Cluster& cluster);

  const TensorTable& table() const { return *table_; }
  const SideIndex& source_index() const { return *source_index_; }
  const SideIndex& receiver_index() const { return *receiver_index_; }
  const std::vector<Worker>& sources() const { return sources_; }
  const std::vector<Worker>& receivers() const { return receivers_; }
  const Cluster& cluster() const { return cluster_; }
  // Of all of the above; the order in which it was listed does not count.
  const Digest& digest() const { return digest_; }

 private:
  const TensorTable* table_ = nullptr;
  std::shared_ptr<const SideIndex> source_index_;
  std::shared_ptr<const SideIndex> receiver_index_;
  std::vector<Worker> sources_;
  std::vector<Worker> receivers_;
  Cluster cluster_;
  Digest digest_;
};

struct FleetOptions {
  Policy policy = Policy::kAuto;
  // Ranges begin and end at whole rows with so many bytes or a little more between places; 0:
  // between any two elements. Where that would cost more than 1e-4 of the optimum (1e-3 for what
  // receivers pass on) and one such unit, they are cut finer.
  uint64_t cut_bytes = 64u << 10;
  uint64_t membership_revision = 0;
  uint64_t in_flight_bytes = 16u << 20;  // per NIC, shared by the receivers that sit on it
  TransportCosts costs;
};

// What a fleet plan says about itself, for people and for tests.
struct FleetReport {
  uint64_t needed_bytes = 0;    // sum over receivers of what their pieces need
  uint64_t distinct_bytes = 0;  // checkpoint bytes that some receiver needs
  uint64_t stored_bytes = 0;    // sum over sources of the checkpoint bytes that they hold
  uint64_t atoms = 0;           // of bytes that some receiver needs
  uint64_t cuts = 0;            // flows beyond one per (class, copy)
  Digest inputs;                // of the fleet, the options and the planner's version
  // What an earlier plan had already; see FleetCache.
  uint64_t atoms_reused = 0;
};

// Bytes [begin, end) of a class leave `source` once, for one copy: receiver `first` reads them from
// it. Without entries, the other members of the copy read them from `first`. With entries (see
// balance.h), the members on its host do, and `sender`, which is one of these, gives them to the
// other hosts.
struct Flow {
  uint32_t byte_class = 0;
  uint32_t copy = 0;  // of balance.classes[byte_class].copies
  uint64_t begin = 0;
  uint64_t end = 0;
  uint32_t source = 0;
  uint32_t first = 0;
  uint32_t sender = 0;  // = first where the copy has no entries
  bool operator==(const Flow&) const = default;
};

// Bytes [begin, end) of a class enter the host of one entry of a copy by member `at`.
struct EntryFlow {
  uint32_t byte_class = 0;
  uint32_t copy = 0;
  uint32_t entry = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
  uint32_t at = 0;
  bool operator==(const EntryFlow&) const = default;
};

class ClassMap;    // plan/class_map.h: where the bytes of a class lie
class FleetCache;  // plan/fleet_cache.h: what plans of other revisions can re-use

struct FleetPlan {
  Digest fleet;          // Fleet::digest of what it was made from
  FleetOptions options;  // the policy is the chosen one, never kAuto
  FleetReport report;
  Balance balance;                 // the amounts as they were balanced, the loads as they were cut
  std::vector<Flow> flows;         // by class, copy, begin; those of a copy tile its class
  std::vector<EntryFlow> entries;  // by class, copy, entry, begin; those of an entry tile its class
  std::shared_ptr<const ClassMap> map;

  const std::vector<ByteClass>& classes() const;
  // The atoms of one tensor, by box.
  std::vector<Atom> atoms_of(uint32_t tensor) const;
};

// kNotCovered names the first tensor (and how many bytes of how many tensors) that no source holds.
// kUnsupported when the layouts are too irregular to be planned in reasonable time.
Result<FleetPlan> plan_fleet(const Fleet& fleet, const FleetOptions& options,
                             FleetCache* cache = nullptr);

// What one receiver reads: bytes [begin, end) of a class from one worker.
struct Hop {
  uint32_t byte_class = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
  bool from_peer = false;  // `from` is a receiver, else a source
  uint32_t from = 0;
  uint32_t stage = 0;     // see PartList
  uint32_t fallback = 0;  // for a peer: the source to read from where the peer is missing
};
// By class, begin.
std::vector<Hop> hops_of(const FleetPlan& plan, uint32_t receiver);

// Bytes from one worker to one receiver, summed over classes: the plan as a matrix, without making
// parts. Ascending by (receiver, from_peer, from).
struct FleetEdge {
  uint32_t receiver = 0;
  bool from_peer = false;  // `from` is a receiver, else a source
  uint32_t from = 0;
  uint64_t bytes = 0;
  uint64_t flows = 0;
  bool operator==(const FleetEdge&) const = default;
};
std::vector<FleetEdge> fleet_edges(const FleetPlan& plan);

// What one receiver reads from one worker.
struct PartList {
  bool from_peer = false;  // `worker` is a receiver, else a source
  uint32_t worker = 0;
  uint32_t stage = 0;  // 0: from a source. n + 1: from a peer that has it by lists of stage <= n
  uint64_t bytes = 0;
  uint64_t reads = 0;  // rows, before shaping
  std::vector<Run> runs;
  std::vector<ShapedRun> shapes;    // parallel to runs
  std::vector<ReadList> fallbacks;  // for a list from a peer: the same bytes from sources
};

// The reads of one receiver.
struct FleetPart {
  Digest inputs;  // FleetReport::inputs of the plan; parts with other digests are never mixed
  uint32_t receiver = 0;
  uint64_t bytes = 0;            // all that it needs
  uint64_t in_flight_bytes = 0;  // its part of the budget of its NIC
  std::vector<PartList> lists;   // in the order in which they are read
  ShapeSummary shape;
};

// kUnsupported when the part would have more than kMaxRuns runs. Not yet proved.
Result<FleetPart> make_part(const Fleet& fleet, const FleetPlan& plan, uint32_t receiver,
                            FleetCache* cache = nullptr);

// A part without sharing as the plan that a session executes today.
Result<Plan> plan_of_part(const Fleet& fleet, const FleetPart& part);

}  // namespace wb
