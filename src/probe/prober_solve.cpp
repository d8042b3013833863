// Reading the buffers: from digits to claims, from claims to pieces.
#include <algorithm>
#include <atomic>
#include <map>
#include <utility>

#include "base/hash.h"
#include "layout/quote.h"
#include "probe/compare.h"
#include "probe/decode.h"
#include "probe/lift.h"
#include "probe/parallel.h"
#include "probe/prober_state.h"

namespace wb::probe {
namespace {

// Pieces of one nest, and claims of one buffer beyond one per kElementsPerClaim elements. Layouts
// of frameworks stay far below; noise that looks like an index must not fill the memory.
constexpr int64_t kMaxPiecesPerNest = 1 << 16;
constexpr uint64_t kClaims = 1 << 14;
constexpr uint64_t kElementsPerClaim = 256;
// Checks that a false claim is worth: chance may have joined what is true with what is not.
constexpr int kMaxSplits = 256;
// Extras of one buffer; where there are more, one stands for all of a kind.
constexpr size_t kMaxExtras = 4096;

// Whether a raw read of the tensor's bytes fills the buffer (see check_layout).
bool raw_copy(DType tensor, DType buffer) { return tensor == buffer || buffer == DType::kU8; }

uint32_t unit_in_buffer(const TensorInfo& info, uint32_t element) {
  const DTypeInfo& type = dtype_info(info.dtype);
  return type.unit_elements != 1 ? type.unit_bytes : element;
}

}  // namespace

Status Prober::read() {
  const auto begun = Clock::now();
  if (round() != Round::kIndex) {
    WB_RETURN_IF_ERROR(read_values());
    result_.read += Clock::now() - begun;
    return Status();
  }
  WB_RETURN_IF_ERROR(read_plane());
  result_.read += Clock::now() - begun;
  note_memory(0);
  if (pass_ + 1 != static_cast<uint32_t>(schema_.planes())) return Status();
  const auto solving = Clock::now();
  WB_RETURN_IF_ERROR(solve());
  result_.solve += Clock::now() - solving;
  return Status();
}

Status Prober::read_plane() {
  return for_each_index(targets_.size(), options_.threads, [&](size_t i) -> Status {
    Target& target = targets_[i];
    const Coding coding = index_coding(target.dtype, schema_.half());
    const uint16_t mask = schema_.mask(static_cast<int>(pass_), target.family);
    target.planes[pass_] = read_segments(coding, target.data, target.elements, mask, blocks_.get());
    return Status();
  });
}

Status Prober::solve() {
  WB_RETURN_IF_ERROR(for_each_index(targets_.size(), options_.threads,
                                    [&](size_t i) { return solve_target(&targets_[i]); }));
  note_memory(0);
  for (Target& target : targets_) target.planes = {};
  blocks_.reset();
  return Status();
}

Status Prober::solve_target(Target* target) {
  auto found = decode(schema_, target->family, *blocks_, target->planes);
  std::vector<std::pair<uint32_t, Nest>> nests;
  for (TensorNests& of_tensor : found) {
    for (const Nest& nest : of_tensor.nests) nests.emplace_back(of_tensor.tensor, nest);
    of_tensor.nests = {};
  }
  // The large ones first: should the bound be met, it is by what is small and many.
  std::stable_sort(nests.begin(), nests.end(),
                   [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
  const uint64_t most = kClaims + target->elements / kElementsPerClaim;
  const auto buffer = static_cast<uint32_t>(target - targets_.data());
  for (const auto& [tensor, nest] : nests) {
    const uint64_t left = most - std::min<uint64_t>(most, target->claims.size());
    if (left == 0) break;
    std::vector<Piece> pieces;
    const auto limit = std::min<int64_t>(kMaxPiecesPerNest, static_cast<int64_t>(left));
    if (!lift(nest, table_[tensor], schema_.tensors()[tensor], tensor, buffer, target->element,
              limit, &pieces)) {
      continue;  // left over, and so computed
    }
    const bool cast = !raw_copy(table_[tensor].dtype, target->dtype);
    for (const Piece& piece : pieces) target->claims.push_back({piece, cast, false});
  }
  std::sort(target->claims.begin(), target->claims.end(), [](const Claim& a, const Claim& b) {
    return std::make_pair(a.piece.tensor, a.piece.offset) <
           std::make_pair(b.piece.tensor, b.piece.offset);
  });
  target->claims.shrink_to_fit();
  return Status();
}

Status Prober::read_values() {
  const Round now = round();
  WB_RETURN_IF_ERROR(for_each_index(targets_.size(), options_.threads, [&](size_t i) -> Status {
    WB_RETURN_IF_ERROR(check_claims(i, now));
    return watch(&targets_[i], now);
  }));
  if (now == Round::kA) watch_leftovers();
  note_memory(0);
  return Status();
}

// What is no piece, after a load of values.
Status Prober::watch(Target* target, Round now) {
  if (now == Round::kB && target->left) target->left->after_b();
  if (now == Round::kC) {
    if (target->left) target->left->after_c();
    target->refuted_digest = target->digest_refuted();
  }
  if (now != Round::kCAgain) return Status();
  std::optional<uint64_t> element;
  if (target->left) element = target->left->after_c_again();
  if (!element && target->digest_refuted() != target->refuted_digest) {
    element = target->refuted.front().first;
  }
  if (!element) return Status();
  return Status(Code::kMismatch, "the loader is not deterministic: buffer " +
                                     quote(given_[target->given].info.name) +
                                     " differs at or after byte " +
                                     std::to_string(*element * target->element) +
                                     " after two loads of the same values");
}

uint64_t Prober::Target::digest_refuted() const {
  Hasher hasher;
  for (const ElementRange& range : refuted) {
    hasher.add(digest_of(std::span(data + range.first * element, range.count * element)).low);
  }
  return hasher.digest().low;
}

bool Prober::claim_holds(const Target& target, const Claim& claim, const ValueViews& values) const {
  const uint32_t tensor = claim.piece.tensor;
  const View view = values.view_as(tensor, claim.cast ? target.dtype : table_[tensor].dtype);
  return holds(claim.piece, table_[tensor], target.data, target.element, view);
}

void Prober::salvage(const Target& target, const Claim& claim, std::vector<Claim>* kept) const {
  std::vector<Claim> doubtful = {claim};
  for (int checks = 0; !doubtful.empty() && checks < kMaxSplits; ++checks) {
    const Claim now = doubtful.back();
    doubtful.pop_back();
    if (checks > 0 && claim_holds(target, now, *values_)) {
      kept->push_back(now);
      continue;
    }
    // What is furthest apart in the buffer is least likely to belong together.
    int dim = -1;
    int64_t furthest = -1;
    for (int d = 0; d < now.piece.box.rank(); ++d) {
      const int64_t stride = std::abs(now.piece.stride[static_cast<size_t>(d)]);
      if (now.piece.box.dim(d).count == 1 || stride <= furthest) continue;
      furthest = stride;
      dim = d;
    }
    if (dim < 0) continue;
    const Progression p = now.piece.box.dim(dim);
    const int64_t half = p.count / 2;
    Claim low = now, high = now;
    low.piece.box = now.piece.box.with_dim(dim, {p.start, half, half == 1 ? 1 : p.step});
    const int64_t rest = p.count - half;
    high.piece.box =
        now.piece.box.with_dim(dim, {p.start + half * p.step, rest, rest == 1 ? 1 : p.step});
    high.piece.offset += half * now.piece.stride[static_cast<size_t>(dim)];
    doubtful.push_back(high);
    doubtful.push_back(low);
  }
}

Status Prober::check_claims(size_t index, Round now) {
  Target& target = targets_[index];
  bool refuted = false;
  std::vector<Claim> parts;
  for (Claim& claim : target.claims) {
    if (claim_holds(target, claim, *values_)) continue;
    const uint32_t tensor = claim.piece.tensor;
    if (now == Round::kA) salvage(target, claim, &parts);
    // Of the same values, or left as the load before left it; else a function of the values.
    if (now == Round::kCAgain ||
        (now != Round::kA && claim_holds(target, claim, *values_before_))) {
      return Status(Code::kMismatch, "the loader is not deterministic: tensor " +
                                         quote(table_[tensor].name) + " was copied to buffer " +
                                         quote(given_[target.given].info.name) +
                                         " in one load and not in the next")
          .with_tensor(table_[tensor].name);
    }
    claim.false_claim = refuted = true;
  }
  target.claims.insert(target.claims.end(), parts.begin(), parts.end());
  if (now != Round::kA && !refuted) return Status();
  Cover cover(target.elements);
  for (const Claim& claim : target.claims) {
    // After A: what holds, to find what is left over; later: what does not hold any more.
    if (claim.false_claim != (now == Round::kA)) {
      const TensorInfo& info = table_[claim.piece.tensor];
      cover.add(claim.piece, unit_in_buffer(info, target.element), target.element);
    }
  }
  if (now == Round::kA) {
    std::vector<ElementRange> ranges = cover.ranges(false);
    if (!ranges.empty()) target.left.emplace(target.dtype, target.data, std::move(ranges));
  } else {
    const std::vector<ElementRange> ranges = cover.ranges(true);
    target.refuted.insert(target.refuted.end(), ranges.begin(), ranges.end());
  }
  std::erase_if(target.claims, [](const Claim& claim) { return claim.false_claim; });
  return Status();
}

void Prober::watch_leftovers() {
  std::vector<Leftovers*> all;
  for (Target& target : targets_) {
    if (target.left) all.push_back(&*target.left);
  }
  // Small ones (scales, padding) first: in those it matters which bytes are constant.
  std::stable_sort(all.begin(), all.end(), [](const Leftovers* a, const Leftovers* b) {
    return a->whole_cost() < b->whole_cost();
  });
  uint64_t budget = max_bytes_ / 4;
  for (Leftovers* left : all) {
    const bool whole = left->whole_cost() <= budget;
    if (whole) budget -= left->whole_cost();
    left->watch(whole);
  }
}

Status Prober::finish() {
  const auto begun = Clock::now();
  for (const Target& target : targets_) {
    result_.layout.buffers.push_back(given_[target.given].info);
    result_.data.push_back(target.data);
    for (const Claim& claim : target.claims) {
      if (!claim.cast) result_.layout.pieces.push_back(claim.piece);
    }
  }
  finish_homes();
  finish_ranges();
  WB_RETURN_IF_ERROR(check_layout(table_, result_.layout, LayoutRole::kReceiver));
  result_.digest = layout_digest(table_, result_.layout);
  result_.digest_text = result_.digest.hex();
  result_.passes = pass_count_;
  result_.solve += Clock::now() - begun;
  for (Target& target : targets_) target.claims = {};
  return Status();
}

void Prober::finish_homes() {
  std::vector<std::vector<Box>> copies(table_.size()), casts(table_.size());
  for (const Target& target : targets_) {
    for (const Claim& claim : target.claims) {
      (claim.cast ? casts : copies)[claim.piece.tensor].push_back(claim.piece.box);
    }
  }
  for (uint32_t t = 0; t < table_.size(); ++t) {
    result_.homes.push_back(count_homes(table_[t].unit_shape(), copies[t], casts[t]));
  }
}

void Prober::finish_ranges() {
  for (uint32_t buffer = 0; buffer < targets_.size(); ++buffer) {
    const Target& target = targets_[buffer];
    std::vector<KindRange> ranges;
    if (target.left) ranges = target.left->classify();
    const auto add = [&](ByteKind kind, const ElementRange& range) {
      ranges.push_back(
          {0, kind, false, range.first * target.element, range.count * target.element, 1, 0});
    };
    for (const ElementRange& range : target.refuted) add(ByteKind::kComputed, range);
    const bool any_cast = std::any_of(target.claims.begin(), target.claims.end(),
                                      [](const Claim& claim) { return claim.cast; });
    if (any_cast) {
      Cover cover(target.elements);
      for (const Claim& claim : target.claims) {
        if (!claim.cast) continue;
        const TensorInfo& info = table_[claim.piece.tensor];
        cover.add(claim.piece, unit_in_buffer(info, target.element), target.element);
      }
      for (const ElementRange& range : cover.ranges(true)) add(ByteKind::kCast, range);
    }
    const BufferInfo& info = given_[target.given].info;
    if (info.bytes != target.bytes()) {
      // Less than an element: no tensor of this type writes it.
      ranges.push_back(
          {0, ByteKind::kUntouched, false, target.bytes(), info.bytes - target.bytes(), 1, 0});
    }
    std::sort(ranges.begin(), ranges.end(),
              [](const KindRange& a, const KindRange& b) { return a.offset < b.offset; });
    uint64_t copied = info.bytes;
    for (KindRange& range : ranges) {
      range.buffer = buffer;
      result_.kind_bytes[static_cast<size_t>(range.kind)] += range.bytes;
      copied -= range.bytes;
    }
    result_.kind_bytes[static_cast<size_t>(ByteKind::kCopied)] += copied;
    add_extras(buffer, ranges);
    const std::vector<KindRange> short_list = joined(ranges);
    result_.ranges.insert(result_.ranges.end(), short_list.begin(), short_list.end());
  }
}

void Prober::add_extras(uint32_t buffer, std::span<const KindRange> ranges) {
  const std::string& name = result_.layout.buffers[buffer].name;
  std::map<std::pair<ExtraKind, std::string>, std::vector<Extra>> kinds;
  for (const KindRange& range : ranges) {
    ExtraKind kind = ExtraKind::kUnmapped;
    std::string label = name;
    if (range.kind == ByteKind::kComputed) kind = ExtraKind::kComputed;
    if (range.kind == ByteKind::kCast) {
      kind = ExtraKind::kComputed;
      label += " (cast)";
    }
    if (range.kind == ByteKind::kConstant) {
      if (range.zero) kind = ExtraKind::kZeroFill;
      if (!range.zero) label += " (constant)";
    }
    kinds[{kind, label}].push_back({buffer, range.offset, range.bytes, kind, label});
  }
  for (auto& [key, extras] : kinds) {
    if (extras.size() > kMaxExtras) {
      // One that spans them all, and what is copied between them; so it must not be filled. Zeros
      // that the loader wrote stay, as no pull writes there.
      Extra all = extras.front();
      all.bytes = extras.back().offset + extras.back().bytes - all.offset;
      if (all.kind == ExtraKind::kZeroFill) all.kind = ExtraKind::kUnmapped;
      extras = {all};
    }
    result_.layout.extras.insert(result_.layout.extras.end(), extras.begin(), extras.end());
  }
}

}  // namespace wb::probe
