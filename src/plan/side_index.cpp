#include "plan/side_index.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "plan/share.h"

namespace wb {

SideIndex::SideIndex(const Side& side, std::span<const SideMember> members, size_t tensors)
    : side_(side),
      pieces_(side.families.size()),
      workers_(side.families.size()),
      group_of_(tensors + 1),
      tilings_(tensors) {
  for (uint32_t w = 0; w < members.size(); ++w) {
    workers_[members[w].family].push_back({w, members[w].index});
  }
  // Families in the order of their first workers: how the side happens to list them must not count.
  std::vector<uint32_t> order;
  for (uint32_t f = 0; f < workers_.size(); ++f) {
    if (!workers_[f].empty()) order.push_back(f);
  }
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return workers_[a].front().worker < workers_[b].front().worker;
  });
  for (const uint32_t f : order) {
    sort_pieces(f);
    for (const uint32_t t : pieces_[f].tensors) ++group_of_[t + 1];
  }
  std::partial_sum(group_of_.begin(), group_of_.end(), group_of_.begin());
  groups_.resize(group_of_.back());
  std::vector<size_t> next(group_of_.begin(), group_of_.end() - 1);
  for (const uint32_t f : order) {
    for (const uint32_t t : pieces_[f].tensors) groups_[next[t]++] = f;
  }
  std::vector<uint32_t> rank(side.families.size());
  for (uint32_t i = 0; i < order.size(); ++i) rank[order[i]] = i;
  hash_tilings(rank);
}

void SideIndex::sort_pieces(uint32_t family) {
  const std::vector<Piece>& all = side_.families[family].base.pieces;
  Pieces& pieces = pieces_[family];
  pieces.order.resize(all.size());
  std::iota(pieces.order.begin(), pieces.order.end(), 0u);
  const auto before = [&](uint32_t a, uint32_t b) { return piece_before(all[a], all[b]); };
  std::sort(pieces.order.begin(), pieces.order.end(), before);
  for (uint32_t i = 0; i < pieces.order.size(); ++i) {
    const uint32_t tensor = all[pieces.order[i]].tensor;
    if (!pieces.tensors.empty() && pieces.tensors.back() == tensor) continue;
    pieces.tensors.push_back(tensor);
    pieces.first.push_back(i);
  }
  pieces.first.push_back(static_cast<uint32_t>(pieces.order.size()));
}

std::span<const uint32_t> SideIndex::pieces_of(uint32_t family, uint32_t tensor) const {
  const std::vector<uint32_t>& tensors = pieces_[family].tensors;
  auto hint = static_cast<size_t>(std::lower_bound(tensors.begin(), tensors.end(), tensor) -
                                  tensors.begin());
  return pieces_near(family, tensor, &hint);
}

std::span<const uint32_t> SideIndex::pieces_near(uint32_t family, uint32_t tensor,
                                                 size_t* hint) const {
  constexpr size_t kNear = 4;
  const Pieces& pieces = pieces_[family];
  const std::vector<uint32_t>& tensors = pieces.tensors;
  size_t i = *hint;
  for (size_t step = 0; step < kNear && i < tensors.size() && tensors[i] < tensor; ++step) ++i;
  if (i >= tensors.size() || tensors[i] != tensor) {
    i = static_cast<size_t>(std::lower_bound(tensors.begin(), tensors.end(), tensor) -
                            tensors.begin());
    if (i == tensors.size() || tensors[i] != tensor) return {};
  }
  *hint = i;
  return std::span(pieces.order).subspan(pieces.first[i], pieces.first[i + 1] - pieces.first[i]);
}

void SideIndex::hash_tilings(const std::vector<uint32_t>& rank) {
  std::vector<int64_t> words;
  for (uint32_t t = 0; t < tilings_.size(); ++t) {
    words.clear();
    for_each_group(t, [&](const Group& group) {
      const LayoutFamily& family = side_.families[group.family];
      words.push_back(rank[group.family]);
      words.push_back(static_cast<int64_t>(group.pieces.size()));
      for (const uint32_t p : group.pieces) {
        const Box& box = family.base.pieces[p].box;
        const Move move = family.moves.empty() ? Move{} : family.moves[p];
        words.push_back(move.dim);
        words.push_back(move.step);
        for (int d = 0; d < box.rank(); ++d) {
          words.insert(words.end(), {box.dim(d).start, box.dim(d).count, box.dim(d).step});
        }
      }
    });
    tilings_[t] = digest_of(std::as_bytes(std::span(words)));
  }
}

}  // namespace wb
