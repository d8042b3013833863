#include "plan/proof.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/checked.h"
#include "layout/dtype.h"
#include "plan/homes.h"
#include "plan/writes.h"

namespace wb {
namespace {

using proof::Decoder;
using proof::Home;
using proof::Homes;
using proof::Place;
using proof::row_address;
using proof::Span;

// The smallest interval that holds all rows, or nothing when it is not inside [0, size).
std::optional<Span> span_of_rows(uint64_t offset, uint64_t length, uint64_t count, int64_t pitch,
                                 uint64_t size) {
  const auto first = checked_cast<int64_t>(offset);
  const auto bytes = checked_cast<int64_t>(length);
  const auto steps = checked_cast<int64_t>(count - 1);
  if (!first || !bytes || !steps) return std::nullopt;
  const auto distance = checked_mul(*steps, pitch);
  if (!distance) return std::nullopt;
  const auto last = checked_add(*first, *distance);
  if (!last) return std::nullopt;
  const auto end = checked_add(std::max(*first, *last), *bytes);
  const int64_t begin = std::min(*first, *last);
  if (!end || begin < 0 || static_cast<uint64_t>(*end) > size) return std::nullopt;
  return Span{static_cast<uint64_t>(begin), static_cast<uint64_t>(*end)};
}

// Where in the plan a fault is.
struct At {
  const ReadList* list = nullptr;
  size_t run = 0;
  const std::string* source = nullptr;
};

Status unproven(const At& at, const std::string& what) {
  return Status(Code::kUnproven,
                "run " + std::to_string(at.run) + " of the reads from " + *at.source + ": " + what)
      .with_peer(*at.source);
}

Status unproven(const std::string& what) { return Status(Code::kUnproven, what); }

std::string bytes_at(uint32_t region, uint64_t address) {
  return "byte " + std::to_string(address) + " of region " + std::to_string(region);
}

class Prover {
 public:
  Prover(const TensorTable& table, const proof::Prepared& receiver,
         std::span<const proof::Prepared> sources, std::span<const ReadList* const> lists,
         Work* work)
      : table_(table),
        receiver_(*receiver.worker),
        needs_(*receiver.needs),
        sources_(sources),
        lists_(lists),
        work_(*work) {}

  Status prove() {
    WB_RETURN_IF_ERROR(check_totals());
    for (const ReadList* list : lists_) WB_RETURN_IF_ERROR(check_list(*list));
    // Each byte written so far is a needed one, and there are as many as needed: if none is
    // written twice, none is missing.
    WB_ASSIGN_OR_RETURN(const auto twice,
                        proof::written_twice(&writes_, proof::Among::kAll, &work_));
    if (twice) {
      return unproven(bytes_at(twice->region, twice->byte) + " of the receiver is written twice");
    }
    return Status();
  }

 private:
  // Also bounds the rows of the plan by the bytes that the receiver needs, so that what follows
  // ends in reasonable time whatever the numbers in the runs are.
  Status check_totals() {
    uint64_t needed = 0;
    for (const Piece& piece : receiver_.layout->pieces) {
      if (piece.tensor >= table_.size()) return unproven("a needed piece of an unknown tensor");
      uint64_t bytes = dtype_info(table_[piece.tensor].dtype).unit_bytes;
      for (int d = 0; d < piece.box.rank(); ++d) {
        const int64_t count = piece.box.dim(d).count;
        if (count > 1 && piece.stride[static_cast<size_t>(d)] == 0) {
          return unproven("a needed piece of " + table_[piece.tensor].name + " folds over itself");
        }
        const auto product = checked_mul(bytes, static_cast<uint64_t>(count));
        if (!product) return unproven("a needed piece of 2^64 bytes or more");
        bytes = *product;
      }
      const auto sum = checked_add(needed, bytes);
      if (!sum) return unproven("a need of 2^64 bytes or more");
      needed = *sum;
    }
    uint64_t planned = 0;
    for (const ReadList* list : lists_) {
      if (list->source >= sources_.size()) {
        return unproven("source " + std::to_string(list->source) + " of " +
                        std::to_string(sources_.size()));
      }
      WB_RETURN_IF_ERROR(check_list_totals(*list));
      const auto sum = checked_add(planned, list->bytes);
      if (!sum) return unproven("a plan of 2^64 bytes or more");
      planned = *sum;
    }
    if (planned != needed) {
      return unproven("the receiver needs " + std::to_string(needed) + " bytes and the runs have " +
                      std::to_string(planned));
    }
    return Status();
  }

  Status check_list_totals(const ReadList& list) const {
    const std::string& source = sources_[list.source].worker->name;
    if (list.runs.empty()) return unproven("a read list without runs, from " + source);
    uint64_t bytes = 0;
    uint64_t reads = 0;
    for (size_t r = 0; r < list.runs.size(); ++r) {
      const Run& run = list.runs[r];
      const At at{&list, r, &source};
      if (run.length == 0 || run.count == 0) return unproven(at, "it reads nothing");
      const auto product = checked_mul(run.length, run.count);
      const auto byte_sum = product ? checked_add(bytes, *product) : std::nullopt;
      const auto read_sum = checked_add(reads, run.count);
      if (!byte_sum || !read_sum) return unproven(at, "its size overflows");
      bytes = *byte_sum;
      reads = *read_sum;
    }
    if (bytes != list.bytes || reads != list.reads) {
      return unproven("the list from " + source + " says " + std::to_string(list.bytes) +
                      " bytes in " + std::to_string(list.reads) + " reads, its runs have " +
                      std::to_string(bytes) + " in " + std::to_string(reads));
    }
    return Status();
  }

  Status check_list(const ReadList& list) {
    const PlanWorker& source = *sources_[list.source].worker;
    held_ = sources_[list.source].held;
    has_from_ = false;
    for (size_t r = 0; r < list.runs.size(); ++r) {
      const Run& run = list.runs[r];
      const At at{&list, r, &source.name};
      if (run.local_region >= receiver_.region_bytes.size()) {
        return unproven(at, "local region " + std::to_string(run.local_region) + " does not exist");
      }
      if (run.remote_region >= source.region_bytes.size()) {
        return unproven(at,
                        "remote region " + std::to_string(run.remote_region) + " does not exist");
      }
      const auto local = span_of_rows(run.local_offset, run.length, run.count, run.local_pitch,
                                      receiver_.region_bytes[run.local_region]);
      if (!local)
        return unproven(at, "it writes outside local region " + std::to_string(run.local_region));
      if (!span_of_rows(run.remote_offset, run.length, run.count, run.remote_pitch,
                        source.region_bytes[run.remote_region])) {
        return unproven(at, "it reads outside remote region " + std::to_string(run.remote_region));
      }
      writes_.push_back(proof::Write{&run, *local});
      for (uint64_t row = 0; row < run.count;) {
        if (!work_.spend(1)) return exhausted();
        if (const uint64_t rows = rows_alike(run, row); rows > 0) {
          row += rows;
          continue;
        }
        WB_RETURN_IF_ERROR(check_row(at, run, row));
        ++row;
      }
    }
    return Status();
  }

  // Each byte of the row: which element needs it, and is that the element that lies at the
  // source's end.
  Status check_row(const At& at, const Run& run, uint64_t row) {
    uint64_t local = row_address(run.local_offset, row, run.local_pitch);
    uint64_t remote = row_address(run.remote_offset, row, run.remote_pitch);
    for (uint64_t left = run.length; left > 0;) {
      Place place;
      if (!work_.spend(1)) return exhausted();
      if (!find_need(run.local_region, local, &place)) {
        if (work_.is_exhausted()) return exhausted();
        return unproven(
            at, bytes_at(run.local_region, local) + " of the receiver belongs to no needed piece");
      }
      const Piece& need = *to_.home().piece;
      if (!find_held(run.remote_region, need.tensor, remote, place)) {
        if (work_.is_exhausted()) return exhausted();
        const std::string& tensor = table_[need.tensor].name;
        return std::move(unproven(at, bytes_at(run.local_region, local) +
                                          " of the receiver needs another element of " + tensor +
                                          " than " + bytes_at(run.remote_region, remote) +
                                          " of the source has"))
            .with_tensor(tensor);
      }
      const uint64_t proved = std::min(left, stretch(place, to_.dims().size()));
      local += proved;
      remote += proved;
      left -= proved;
    }
    return Status();
  }

  // Sets to_ to the needed piece that has the byte, and place to the element.
  bool find_need(uint32_t region, uint64_t address, Place* place) {
    if (has_to_ && to_.home().region == region && address >= to_.home().begin &&
        address < to_.home().end && to_.decode(address, place)) {
      return true;
    }
    return needs_.find(region, 0, address, [&](const Home& home) {
      if (!work_.spend(1)) return false;
      const Decoder decoder(home);
      if (!decoder.decode(address, place)) return false;
      to_ = decoder;
      has_to_ = true;
      return true;
    });
  }

  // Sets from_ to a source piece that has the element of `place` (a place in to_) at `address`.
  bool find_held(uint32_t region, uint32_t tensor, uint64_t address, const Place& place) {
    if (has_from_ && from_.region == region && from_.piece->tensor == tensor &&
        holds(from_, place, address)) {
      return true;
    }
    return held_->find(region, tensor, address, [&](const Home& home) {
      if (!work_.spend(1)) return false;
      if (!holds(home, place, address)) return false;
      from_ = home;
      has_from_ = true;
      return true;
    });
  }

  // Whether `home` has the byte that `place` names, and has it at `address`.
  bool holds(const Home& home, const Place& place, uint64_t address) const {
    const Box& need = to_.home().piece->box;
    const Box& have = home.piece->box;
    int64_t found = home.origin + static_cast<int64_t>(place.byte);
    for (int d = 0; d < need.rank(); ++d) {
      const Progression& to = need.dim(d);
      const Progression& from = have.dim(d);
      const int64_t ahead = to.start + place.index[static_cast<size_t>(d)] * to.step - from.start;
      if (ahead < 0 || ahead % from.step != 0 || ahead / from.step >= from.count) return false;
      found += ahead / from.step * home.piece->stride[static_cast<size_t>(d)];
    }
    return found >= 0 && static_cast<uint64_t>(found) == address;
  }

  // Upward moves in the receiver's memory along one dimension, from one element.
  struct Moves {
    int64_t steps = 0;   // that stay inside both pieces
    int64_t remote = 0;  // bytes that one move makes in the source's memory; 0 without steps
  };

  Moves moves_along(const Decoder::Dim& dim, const Place& place) const {
    const Progression& to = to_.home().piece->box.dim(dim.d);
    const Progression& from = from_.piece->box.dim(dim.d);
    if (to.step % from.step != 0) return Moves{};
    const int64_t scale = to.step / from.step;
    const int64_t at = place.index[static_cast<size_t>(dim.d)];
    const int64_t at_source = (to.start + at * to.step - from.start) / from.step;
    Moves moves;
    if (dim.stride > 0) {
      moves.steps = std::min(to.count - 1 - at, (from.count - 1 - at_source) / scale);
    } else {
      moves.steps = std::min(at, at_source / scale);
    }
    if (moves.steps == 0) return Moves{};
    const int64_t forward = scale * from_.piece->stride[static_cast<size_t>(dim.d)];
    moves.remote = dim.stride > 0 ? forward : -forward;
    return moves;
  }

  // How many rows from `row` on are right because they are one row moved along one dimension of
  // both pieces: from `row` to the last, each step changes the same index by the same number in
  // the receiver's piece, as it does in the source's. 0: not known, look at the row itself.
  uint64_t rows_alike(const Run& run, uint64_t row) {
    if (row + 1 == run.count) return 0;
    Place place;
    if (!find_need(run.local_region, row_address(run.local_offset, row, run.local_pitch), &place) ||
        !find_held(run.remote_region, to_.home().piece->tensor,
                   row_address(run.remote_offset, row, run.remote_pitch), place)) {
      return 0;
    }
    for (size_t level = 0; level < to_.dims().size(); ++level) {
      const uint64_t rows = 1 + steps_along(to_.dims()[level], run, place);
      // Only narrower dimensions may carry the row: their indices do not change from row to row.
      if (rows > 1 && stretch(place, level) >= run.length) return std::min(rows, run.count - row);
    }
    return 0;
  }

  // How often the index along `dim` can change as one row's step changes it, inside both pieces.
  uint64_t steps_along(const Decoder::Dim& dim, const Run& run, const Place& place) const {
    const Progression& to = to_.home().piece->box.dim(dim.d);
    const Progression& from = from_.piece->box.dim(dim.d);
    if (run.local_pitch % dim.stride != 0) return 0;
    const int64_t step = run.local_pitch / dim.stride;
    if (step == 0 || step <= -to.count || step >= to.count) return 0;
    if (step * to.step % from.step != 0) return 0;
    const int64_t step_source = step * to.step / from.step;
    if (step_source <= -from.count || step_source >= from.count) return 0;
    if (step_source * from_.piece->stride[static_cast<size_t>(dim.d)] != run.remote_pitch) return 0;
    const int64_t at = place.index[static_cast<size_t>(dim.d)];
    const int64_t at_source = (to.start + at * to.step - from.start) / from.step;
    const int64_t steps =
        step > 0 ? std::min((to.count - 1 - at) / step, (from.count - 1 - at_source) / step_source)
                 : std::min(at / -step, at_source / -step_source);
    return static_cast<uint64_t>(steps);
  }

  // Bytes from `place` on over which the elements of both pieces follow each other without a gap:
  // all of the narrowest dimensions that are dense on both sides, then a part of the next. Looks
  // at the `levels` narrowest dimensions.
  uint64_t stretch(const Place& place, size_t levels) const {
    uint64_t bytes = to_.home().unit;
    for (const Decoder::Dim& dim : to_.dims().first(levels)) {
      if (dim.width != bytes) break;
      const Moves moves = moves_along(dim, place);
      if (moves.remote != static_cast<int64_t>(bytes)) break;
      bytes *= static_cast<uint64_t>(moves.steps) + 1;
      if (moves.steps + 1 != dim.count) break;
    }
    return bytes - place.byte;
  }

  static Status exhausted() { return Work::exhausted("proving a plan"); }

  const TensorTable& table_;
  const PlanWorker& receiver_;
  const Homes& needs_;
  const std::span<const proof::Prepared> sources_;
  const std::span<const ReadList* const> lists_;
  Work& work_;

  const Homes* held_ = nullptr;  // of the source whose list is being checked
  Decoder to_;                   // the needed piece last found
  Home from_;                    // the source piece last found, one of held_
  bool has_to_ = false;
  bool has_from_ = false;
  std::vector<proof::Write> writes_;
};

}  // namespace

namespace proof {

Status prove_lists(const TensorTable& table, const Prepared& receiver,
                   std::span<const Prepared> sources, std::span<const ReadList* const> lists,
                   Work* work) {
  return Prover(table, receiver, sources, lists, work).prove();
}

std::optional<Span> span_of_run(const Run& run, bool remote, uint64_t size) {
  return remote ? span_of_rows(run.remote_offset, run.length, run.count, run.remote_pitch, size)
                : span_of_rows(run.local_offset, run.length, run.count, run.local_pitch, size);
}

}  // namespace proof

Status prove_plan(const TensorTable& table, const PlanWorker& receiver,
                  std::span<const PlanWorker> sources, const Plan& plan) {
  uint64_t bytes = 0;
  std::vector<const ReadList*> lists;
  for (const ReadList& list : plan.lists) {
    if (list.source >= sources.size()) {
      return unproven("source " + std::to_string(list.source) + " of " +
                      std::to_string(sources.size()));
    }
    if (!lists.empty() && lists.back()->source >= list.source) {
      return unproven("the read lists are not in ascending order of sources");
    }
    lists.push_back(&list);
    const auto sum = checked_add(bytes, list.bytes);
    if (!sum) return unproven("a plan of 2^64 bytes or more");
    bytes = *sum;
  }
  if (bytes != plan.bytes) {
    return unproven("the plan says " + std::to_string(plan.bytes) + " bytes, its lists " +
                    std::to_string(bytes));
  }
  WB_ASSIGN_OR_RETURN(const Homes needs, Homes::make(table, receiver, Homes::Group::kRegion));
  std::vector<Homes> held(sources.size());
  std::vector<proof::Prepared> prepared;
  for (const PlanWorker& source : sources) prepared.push_back({&source, nullptr, nullptr});
  for (const ReadList* list : lists) {
    auto made = Homes::make(table, sources[list->source], Homes::Group::kRegionAndTensor);
    if (!made.ok()) return made.status();
    held[list->source] = std::move(made).value();
    prepared[list->source].held = &held[list->source];
  }
  Work work(proof::kMaxSteps);
  return proof::prove_lists(table, {&receiver, &needs, nullptr}, prepared, lists, &work);
}

}  // namespace wb
