#include "layout/layout_diff.h"

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "layout/quote.h"

namespace wb {
namespace {

// Comparisons of two boxes; some seconds.
constexpr int64_t kBudget = int64_t{1} << 23;
// Differences that are told apart; a reader has no use for more.
constexpr size_t kMostDifferences = 10000;

using Key = std::pair<std::string, uint32_t>;  // buffer, tensor
using PieceMap = std::map<Key, std::vector<const Piece*>>;

PieceMap by_place(const WorkerLayout& layout) {
  PieceMap map;
  for (const Piece& piece : layout.pieces) {
    map[{layout.buffers[piece.buffer].name, piece.tensor}].push_back(&piece);
  }
  return map;
}

// The part of `piece` inside `box`, which is a part of its box.
Piece part_of(const Piece& piece, const Box& box) {
  Piece part = piece;
  part.box = box;
  for (int d = 0; d < box.rank(); ++d) {
    const auto dim = static_cast<size_t>(d);
    const Progression& whole = piece.box.dim(d);
    const Progression& p = box.dim(d);
    part.offset += (p.start - whole.start) / whole.step * piece.stride[dim];
    part.stride[dim] = p.count == 1 ? 0 : p.step / whole.step * piece.stride[dim];
  }
  return part;
}

class Subtraction {
 public:
  explicit Subtraction(int64_t* budget) : budget_(budget) {}

  // What `piece` binds and none of `others` does, as boxes.
  std::vector<Box> rest(const Piece& piece, const std::vector<const Piece*>& others) {
    std::vector<Box> rest = {piece.box};
    for (const Piece* other : others) {
      if (rest.empty() || *budget_ <= 0) break;
      agreed_.clear();
      agree(piece, *other, piece.box);
      for (const Box& box : agreed_) {
        std::vector<Box> next;
        for (const Box& one : rest) {
          --*budget_;
          subtract(one, box, &next);
        }
        rest = std::move(next);
      }
    }
    return rest;
  }

 private:
  // Collects the boxes inside `box` whose elements a and b bind to the same bytes.
  void agree(const Piece& a, const Piece& b, const Box& box) {
    --*budget_;
    const auto common = intersect(box, b.box);
    if (!common) return;
    const Piece in_a = part_of(a, *common), in_b = part_of(b, *common);
    // The addresses are equal where offset + sum(i_d * slope_d) is zero.
    const int64_t offset = in_a.offset - in_b.offset;
    int dim = -1;
    bool several = false;
    for (int d = 0; d < common->rank(); ++d) {
      if (in_a.stride[static_cast<size_t>(d)] == in_b.stride[static_cast<size_t>(d)]) continue;
      several = dim >= 0;
      // Of several dimensions the shortest is walked through.
      if (dim < 0 || common->dim(d).count < common->dim(dim).count) dim = d;
      if (several) break;
    }
    if (dim < 0) {
      if (offset == 0) agreed_.push_back(*common);
      return;
    }
    const Progression& p = common->dim(dim);
    const auto at = static_cast<size_t>(dim);
    if (!several) {
      const int64_t slope = in_a.stride[at] - in_b.stride[at];
      const int64_t index = -offset / slope;
      if (-offset % slope != 0 || index < 0 || index >= p.count) return;
      agreed_.push_back(common->with_dim(dim, {p.start + index * p.step, 1, 1}));
      return;
    }
    for (int64_t i = 0; i<p.count&& * budget_> 0; ++i) {
      agree(a, b, common->with_dim(dim, {p.start + i * p.step, 1, 1}));
    }
  }

  int64_t* budget_;
  std::vector<Box> agreed_;
};

std::string shape_text(const BufferInfo& info) {
  std::string text = std::string(dtype_info(info.dtype).name) + " [";
  for (size_t d = 0; d < info.shape.size(); ++d) {
    text += (d == 0 ? "" : ", ") + std::to_string(info.shape[d]);
  }
  return text + "], " + std::to_string(info.bytes) + " bytes";
}

void compare_buffers(const WorkerLayout& a, const WorkerLayout& b,
                     std::vector<LayoutDifference>* out) {
  std::map<std::string, std::pair<const BufferInfo*, const BufferInfo*>> all;
  for (const BufferInfo& info : a.buffers) all[info.name].first = &info;
  for (const BufferInfo& info : b.buffers) all[info.name].second = &info;
  for (const auto& [name, both] : all) {
    const auto [in_a, in_b] = both;
    std::string text = "buffer " + quote(name) + ": ";
    if (in_b == nullptr) {
      text += "only A has it";
    } else if (in_a == nullptr) {
      text += "only B has it";
    } else if (in_a->dtype != in_b->dtype || in_a->shape != in_b->shape ||
               in_a->bytes != in_b->bytes) {
      text += "A: " + shape_text(*in_a) + ", B: " + shape_text(*in_b);
    } else {
      continue;
    }
    out->push_back({LayoutDifference::Kind::kBuffer, name, "", {}, text});
  }
}

void subtract_layout(const TensorTable& table, const PieceMap& from, const PieceMap& what,
                     LayoutDifference::Kind kind, int64_t* budget,
                     std::vector<LayoutDifference>* out) {
  static const std::vector<const Piece*> kNone;
  for (const auto& [key, pieces] : from) {
    const auto found = what.find(key);
    Subtraction subtraction(budget);
    for (const Piece* piece : pieces) {
      if (*budget <= 0 || out->size() >= kMostDifferences) return;
      for (const Box& box : subtraction.rest(*piece, found == what.end() ? kNone : found->second)) {
        LayoutDifference difference;
        difference.kind = kind;
        difference.buffer = key.first;
        difference.tensor = table[key.second].name;
        difference.piece = part_of(*piece, box);
        const char* who = kind == LayoutDifference::Kind::kOnlyA ? "only A: " : "only B: ";
        difference.text = "buffer " + quote(key.first) + ": " + who +
                          box_text(difference.tensor, box) + " at byte " +
                          std::to_string(difference.piece.offset);
        out->push_back(std::move(difference));
      }
    }
  }
}

}  // namespace

std::string differences_json(const TensorTable& table,
                             const std::vector<LayoutDifference>& differences) {
  using nlohmann::json;
  json list = json::array();
  for (const LayoutDifference& difference : differences) {
    json one = {{"buffer", difference.buffer}, {"text", difference.text}};
    switch (difference.kind) {
      case LayoutDifference::Kind::kBuffer:
        one["kind"] = "buffer";
        break;
      case LayoutDifference::Kind::kOnlyA:
        one["kind"] = "only_a";
        break;
      case LayoutDifference::Kind::kOnlyB:
        one["kind"] = "only_b";
        break;
    }
    if (difference.kind != LayoutDifference::Kind::kBuffer) {
      const Piece& piece = difference.piece;
      one["tensor"] = table[piece.tensor].name;
      one["offset"] = piece.offset;
      json box = json::array(), strides = json::array();
      for (int d = 0; d < piece.box.rank(); ++d) {
        const Progression& p = piece.box.dim(d);
        box.push_back({{"start", p.start}, {"count", p.count}, {"step", p.step}});
        strides.push_back(piece.stride[static_cast<size_t>(d)]);
      }
      one["box"] = std::move(box);
      one["strides"] = std::move(strides);
    }
    list.push_back(std::move(one));
  }
  return json{{"equal", differences.empty()}, {"differences", std::move(list)}}.dump();
}

std::string box_text(const std::string& tensor, const Box& box) {
  std::string text = tensor;
  if (box.rank() == 0) return text;
  text += '[';
  for (int d = 0; d < box.rank(); ++d) {
    const Progression& p = box.dim(d);
    if (d != 0) text += ", ";
    text += std::to_string(p.start) + ":" + std::to_string(p.last() + 1);
    if (p.step != 1) text += ":" + std::to_string(p.step);
  }
  return text + "]";
}

Result<std::vector<LayoutDifference>> diff_layouts(const TensorTable& table, const WorkerLayout& a,
                                                   const WorkerLayout& b) {
  for (const WorkerLayout* layout : {&a, &b}) {
    WB_RETURN_IF_ERROR(check_layout(table, *layout, LayoutRole::kSource));
  }
  std::vector<LayoutDifference> all;
  compare_buffers(a, b, &all);
  const PieceMap pieces_a = by_place(a), pieces_b = by_place(b);
  int64_t budget = kBudget;
  subtract_layout(table, pieces_a, pieces_b, LayoutDifference::Kind::kOnlyA, &budget, &all);
  subtract_layout(table, pieces_b, pieces_a, LayoutDifference::Kind::kOnlyB, &budget, &all);
  if (budget <= 0) {
    return Status(Code::kUnsupported,
                  "the layouts cannot be compared in reasonable time; no framework cuts a tensor "
                  "into so many pieces");
  }
  return all;
}

}  // namespace wb
