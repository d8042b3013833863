#include "plan/class_map.h"

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>

#include "layout/dtype.h"
#include "plan/fleet_cache.h"
#include "plan/refine.h"
#include "plan/side_index.h"
#include "plan/work.h"

namespace wb {
namespace {

// Steps of refinement for one fleet: a second or two.
constexpr uint64_t kMaxSteps = uint64_t{1} << 28;

std::vector<Tile> tiles_of(const SideIndex& side, uint32_t tensor, Work* work, bool* exhausted) {
  std::vector<Tile> tiles;
  side.for_each_group(tensor, [&](const SideIndex::Group& group) {
    const LayoutFamily& family = side.family(group.family);
    const auto workers = side.workers_of(group.family);
    for (const uint32_t p : group.pieces) {
      if (!work->spend(workers.size())) *exhausted = true;
      if (*exhausted) return;
      if (family.moves.empty() || family.moves[p].dim < 0) {
        Tile& tile = tiles.emplace_back(Tile{family.base.pieces[p].box, {}});
        for (const auto& worker : workers) tile.workers.push_back(worker.worker);
        continue;
      }
      for (const auto& worker : workers) {
        tiles.push_back(Tile{family.piece(p, worker.index).box, {worker.worker}});
      }
    }
  });
  join_tiles(&tiles);
  return tiles;
}

// What no source holds; filled in ascending order of the templates' first tensors.
struct Missing {
  uint64_t bytes = 0;
  uint64_t tensors = 0;
  uint32_t first = ~0u;
  uint32_t receiver = 0;
};

}  // namespace

class ClassMapBuilder {
 public:
  ClassMapBuilder(const Fleet& fleet, FleetCache* cache)
      : fleet_(fleet), cache_(cache), work_(kMaxSteps) {}

  Result<std::shared_ptr<const ClassMap>> build() {
    find_templates();
    if (cache_ != nullptr) number_workers();
    for (uint32_t t = 0; t < map_->templates_.size(); ++t) WB_RETURN_IF_ERROR(fill(t));
    if (missing_.tensors != 0) return not_covered();
    number_classes();
    return std::shared_ptr<const ClassMap>(std::move(map_));
  }

 private:
  // Groups the tensors that somebody needs by shape and by how both sides cut them.
  void find_templates() {
    struct Key {
      Digest held, needed;
      std::vector<int64_t> shape;
      uint32_t unit;
      auto operator<=>(const Key&) const = default;
    };
    struct Hash {
      size_t operator()(const Key& key) const { return key.held.low ^ (key.needed.low * 3); }
    };
    std::unordered_map<Key, uint32_t, Hash> known;
    const TensorTable& table = fleet_.table();
    map_->template_of_.assign(table.size(), ClassMap::kNone);
    const Digest nobody = digest_of({});
    for (uint32_t t = 0; t < table.size(); ++t) {
      const Digest& needed = fleet_.receiver_index().tiling(t);
      if (needed == nobody) continue;
      Key key{fleet_.source_index().tiling(t), needed, table[t].unit_shape(),
              dtype_info(table[t].dtype).unit_bytes};
      const uint32_t unit = key.unit;
      const auto [it, added] =
          known.emplace(std::move(key), static_cast<uint32_t>(map_->templates_.size()));
      if (added) map_->templates_.emplace_back().unit = unit;
      map_->templates_[it->second].tensors.push_back(t);
      map_->template_of_[t] = it->second;
    }
  }

  void number_workers() {
    for (const Fleet::Worker& w : fleet_.sources()) {
      source_numbers_.push_back(cache_->number_of(true, w.name));
    }
    for (const Fleet::Worker& w : fleet_.receivers()) {
      receiver_numbers_.push_back(cache_->number_of(false, w.name));
    }
    const auto invert = [](const std::vector<uint32_t>& numbers) {
      std::unordered_map<uint32_t, uint32_t> workers;
      for (uint32_t w = 0; w < numbers.size(); ++w) workers.emplace(numbers[w], w);
      return workers;
    };
    source_of_ = invert(source_numbers_);
    receiver_of_ = invert(receiver_numbers_);
  }

  Status fill(uint32_t index) {
    ClassMap::Template& tmpl = map_->templates_[index];
    const uint32_t tensor = tmpl.tensors.front();
    bool exhausted = false;
    const std::vector<Tile> held = tiles_of(fleet_.source_index(), tensor, &work_, &exhausted);
    const std::vector<Tile> needed = tiles_of(fleet_.receiver_index(), tensor, &work_, &exhausted);
    if (exhausted) return Work::exhausted("tensor " + fleet_.table()[tensor].name);
    WB_ASSIGN_OR_RETURN(const std::vector<Cell> cells, cells_of(tmpl, held, needed));
    uint64_t absent = 0;
    for (const Cell& cell : cells) {
      const uint64_t bytes = static_cast<uint64_t>(cell.box.size()) * tmpl.unit;
      if (sets_.set(cell.holders).empty()) {
        if (tensor < missing_.first) {
          missing_.first = tensor;
          missing_.receiver = sets_.set(cell.needers).front();
        }
        absent += bytes;
        continue;
      }
      tmpl.atoms.push_back({cell.box, class_of(cell), bytes});
    }
    if (absent != 0) {
      missing_.bytes += absent * tmpl.tensors.size();
      missing_.tensors += tmpl.tensors.size();
    }
    return Status();
  }

  Result<std::vector<Cell>> cells_of(const ClassMap::Template& tmpl, const std::vector<Tile>& held,
                                     const std::vector<Tile>& needed) {
    const std::vector<int64_t> shape = fleet_.table()[tmpl.tensors.front()].unit_shape();
    const auto name = [&](Status status) {
      return std::move(status).with_tensor(fleet_.table()[tmpl.tensors.front()].name);
    };
    if (cache_ == nullptr) {
      auto cells = refine(shape, held, needed, &sets_, &work_);
      if (!cells.ok()) return name(cells.status());
      return cells;
    }
    const Digest key = key_of(shape, tmpl.unit, held, needed);
    if (const FleetCache::Cells kept = cache_->find_cells(key)) {
      map_->atoms_reused_ += kept->size() * tmpl.tensors.size();
      return recalled(*kept);
    }
    auto cells = refine(shape, held, needed, &sets_, &work_);
    if (!cells.ok()) return name(cells.status());
    auto kept = std::make_shared<std::vector<FleetCache::Cell>>();
    for (const Cell& cell : *cells) {
      kept->push_back({cell.box, translated(sets_.set(cell.holders), source_numbers_),
                       translated(sets_.set(cell.needers), receiver_numbers_)});
    }
    cache_->keep_cells(key, std::move(kept));
    return cells;
  }

  template <typename Numbers>
  static std::vector<uint32_t> translated(const std::vector<uint32_t>& set,
                                          const Numbers& numbers) {
    std::vector<uint32_t> out;
    for (const uint32_t w : set) out.push_back(numbers.at(w));
    std::sort(out.begin(), out.end());
    return out;
  }

  std::vector<Cell> recalled(const std::vector<FleetCache::Cell>& kept) {
    std::vector<Cell> cells;
    for (const FleetCache::Cell& cell : kept) {
      cells.push_back({cell.box, sets_.id_of(translated(cell.holders, source_of_)),
                       sets_.id_of(translated(cell.needers, receiver_of_))});
    }
    return cells;
  }

  Digest key_of(const std::vector<int64_t>& shape, uint32_t unit, const std::vector<Tile>& held,
                const std::vector<Tile>& needed) const {
    Hasher hasher;
    hasher.add(uint64_t{unit}).add(uint64_t{shape.size()});
    for (const int64_t extent : shape) hasher.add(extent);
    const auto add = [&](const std::vector<Tile>& tiles, const std::vector<uint32_t>& numbers) {
      hasher.add(uint64_t{tiles.size()});
      for (const Tile& tile : tiles) {
        for (int d = 0; d < tile.box.rank(); ++d) {
          const Progression& p = tile.box.dim(d);
          hasher.add(p.start).add(p.count).add(p.step);
        }
        hasher.add(uint64_t{tile.workers.size()});
        for (const uint32_t w : translated(tile.workers, numbers)) hasher.add(uint64_t{w});
      }
    };
    add(held, source_numbers_);
    add(needed, receiver_numbers_);
    return hasher.digest();
  }

  uint32_t class_of(const Cell& cell) {
    const auto [it, added] = class_ids_.emplace(std::pair(cell.holders, cell.needers),
                                                static_cast<uint32_t>(map_->classes_.size()));
    if (added) {
      map_->classes_.push_back({0, sets_.set(cell.holders), sets_.set(cell.needers)});
    }
    return it->second;
  }

  Status not_covered() const {
    const std::string& tensor = fleet_.table()[missing_.first].name;
    const std::string& receiver = fleet_.receivers()[missing_.receiver].name;
    return Status(Code::kNotCovered,
                  "no source holds what is needed: " + std::to_string(missing_.bytes) +
                      " bytes of " + std::to_string(missing_.tensors) +
                      " tensor(s), the first is " + tensor + ", needed by " + receiver)
        .with_peer(receiver)
        .with_tensor(tensor);
  }

  // Lays the atoms of each class one behind the other.
  void number_classes() {
    map_->blocks_.resize(map_->classes_.size());
    for (uint32_t t = 0; t < map_->templates_.size(); ++t) {
      const ClassMap::Template& tmpl = map_->templates_[t];
      map_->atom_count_ += tmpl.atoms.size() * tmpl.tensors.size();
      for (uint32_t a = 0; a < tmpl.atoms.size(); ++a) {
        std::vector<ClassMap::Block>& blocks = map_->blocks_[tmpl.atoms[a].byte_class];
        if (blocks.empty() || blocks.back().in_template != t) blocks.push_back({t, {}, 0, 0});
        blocks.back().atoms.push_back(a);
        blocks.back().per_tensor += tmpl.atoms[a].bytes;
      }
    }
    for (size_t c = 0; c < map_->classes_.size(); ++c) {
      for (ClassMap::Block& block : map_->blocks_[c]) {
        block.begin = map_->classes_[c].bytes;
        map_->classes_[c].bytes +=
            block.per_tensor * map_->templates_[block.in_template].tensors.size();
      }
      map_->contents_.push_back(content_of(static_cast<uint32_t>(c)));
    }
  }

  Digest content_of(uint32_t byte_class) const {
    std::vector<int64_t> words;
    for (const ClassMap::Block& block : map_->blocks_[byte_class]) {
      const ClassMap::Template& tmpl = map_->templates_[block.in_template];
      words.push_back(static_cast<int64_t>(tmpl.tensors.size()));
      words.insert(words.end(), tmpl.tensors.begin(), tmpl.tensors.end());
      words.push_back(static_cast<int64_t>(block.atoms.size()));
      for (const uint32_t a : block.atoms) {
        const Box& box = tmpl.atoms[a].box;
        words.push_back(box.rank());
        for (int d = 0; d < box.rank(); ++d) {
          words.insert(words.end(), {box.dim(d).start, box.dim(d).count, box.dim(d).step});
        }
      }
    }
    return digest_of(std::as_bytes(std::span(words)));
  }

  const Fleet& fleet_;
  FleetCache* cache_;
  Work work_;
  std::shared_ptr<ClassMap> map_ = std::make_shared<ClassMap>();
  SetTable sets_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> class_ids_;
  Missing missing_;
  std::vector<uint32_t> source_numbers_, receiver_numbers_;
  std::unordered_map<uint32_t, uint32_t> source_of_, receiver_of_;
};

Result<std::shared_ptr<const ClassMap>> ClassMap::make(const Fleet& fleet, FleetCache* cache) {
  return ClassMapBuilder(fleet, cache).build();
}

size_t ClassMap::block_at(uint32_t byte_class, uint64_t position) const {
  const std::vector<Block>& blocks = blocks_[byte_class];
  const auto after =
      std::upper_bound(blocks.begin(), blocks.end(), position,
                       [](uint64_t p, const Block& block) { return p < block.begin; });
  return static_cast<size_t>(after - blocks.begin()) - 1;
}

ClassMap::Places ClassMap::places_near(uint32_t byte_class, uint64_t position,
                                       uint64_t unit) const {
  if (position == 0 || position >= classes_[byte_class].bytes) return {position, position};
  const Block& block = blocks_[byte_class][block_at(byte_class, position)];
  const Template& tmpl = templates_[block.in_template];
  uint64_t at = block.begin + (position - block.begin) / block.per_tensor * block.per_tensor;
  for (const uint32_t a : block.atoms) {
    const TemplateAtom& atom = tmpl.atoms[a];
    if (position >= at + atom.bytes) {
      at += atom.bytes;
      continue;
    }
    uint64_t step = tmpl.unit;
    if (unit != 0) {
      // Rows are what lies inside the outermost dimension that has several values.
      uint64_t row = atom.bytes;
      for (int d = 0; d < atom.box.rank(); ++d) {
        if (atom.box.dim(d).count == 1) continue;
        row /= static_cast<uint64_t>(atom.box.dim(d).count);
        break;
      }
      step = unit >= atom.bytes ? atom.bytes : (unit + row - 1) / row * row;
    }
    const uint64_t below = (position - at) / step * step;
    if (at + below == position) return {position, position};
    return {at + below, at + std::min(below + step, atom.bytes)};
  }
  return {position, position};
}

namespace {

void cover(const Box& box, int d, uint64_t begin, uint64_t end, uint64_t size,
           std::vector<Box>* out) {
  if (begin == end) return;
  if (begin == 0 && end == size) {
    out->push_back(box);
    return;
  }
  while (box.dim(d).count == 1) ++d;
  const Progression p = box.dim(d);
  const uint64_t inner = size / static_cast<uint64_t>(p.count);
  const auto part = [&](uint64_t first, uint64_t count) {
    return box.with_dim(d, Progression{p.start + static_cast<int64_t>(first) * p.step,
                                       static_cast<int64_t>(count), count == 1 ? 1 : p.step});
  };
  uint64_t row = begin / inner;
  const uint64_t last = end / inner;
  if (row == last) {
    cover(part(row, 1), d + 1, begin % inner, end % inner, inner, out);
    return;
  }
  if (begin % inner != 0) {
    cover(part(row, 1), d + 1, begin % inner, inner, inner, out);
    ++row;
  }
  if (row < last) out->push_back(part(row, last - row));
  if (end % inner != 0) cover(part(last, 1), d + 1, 0, end % inner, inner, out);
}

}  // namespace

void boxes_of_range(const Box& box, uint64_t begin, uint64_t end, std::vector<Box>* out) {
  cover(box, 0, begin, end, static_cast<uint64_t>(box.size()), out);
}

const std::vector<ByteClass>& FleetPlan::classes() const { return map->classes(); }

std::vector<Atom> FleetPlan::atoms_of(uint32_t tensor) const {
  std::vector<Atom> atoms;
  const uint32_t index = map->template_of(tensor);
  if (index == ClassMap::kNone) return atoms;
  for (const ClassMap::TemplateAtom& atom : map->templates()[index].atoms) {
    atoms.push_back({tensor, atom.byte_class, atom.box});
  }
  return atoms;
}

}  // namespace wb
