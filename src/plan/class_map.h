// Where the bytes of a class lie. Tensors that both sides cut alike share one refinement, so that
// thousands of experts cost as much as one.
//
// A class is a line of bytes: block after block, inside a block tensor after tensor, inside a
// tensor atom after atom, inside an atom its elements in row-major order. Flows are intervals of
// that line.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "layout/box.h"
#include "plan/classes.h"
#include "plan/fleet.h"

namespace wb {

class ClassMap {
 public:
  struct TemplateAtom {
    Box box;
    uint32_t byte_class = 0;
    uint64_t bytes = 0;
  };
  // Tensors of one shape that both sides cut alike.
  struct Template {
    std::vector<uint32_t> tensors;  // ascending
    std::vector<TemplateAtom> atoms;
    uint32_t unit = 0;  // bytes of an element
  };
  // The atoms of one template that are of one class.
  struct Block {
    uint32_t in_template = 0;
    std::vector<uint32_t> atoms;  // indices into the template
    uint64_t begin = 0;           // in the class
    uint64_t per_tensor = 0;      // bytes
  };
  // Bytes [begin, end) of one atom.
  struct Segment {
    uint32_t tensor = 0;
    const Box* box = nullptr;
    uint32_t unit = 0;
    uint64_t begin = 0;
    uint64_t end = 0;
  };

  // kNotCovered when a receiver needs what no source holds.
  static Result<std::shared_ptr<const ClassMap>> make(const Fleet& fleet, FleetCache* cache);

  const std::vector<ByteClass>& classes() const { return classes_; }
  const std::vector<Template>& templates() const { return templates_; }
  std::span<const Block> blocks(uint32_t byte_class) const { return blocks_[byte_class]; }
  // Of the tensors and boxes of a class, in order: equal where a range of the class is the same
  // bytes.
  const Digest& content(uint32_t byte_class) const { return contents_[byte_class]; }
  uint64_t atom_count() const { return atom_count_; }
  uint64_t atoms_reused() const { return atoms_reused_; }
  uint32_t template_of(uint32_t tensor) const { return template_of_[tensor]; }
  // Of tensors that nobody needs.
  static constexpr uint32_t kNone = ~0u;

  // Visits the segments of bytes [begin, end) of a class, in order.
  template <typename Visit>
  void for_each_segment(uint32_t byte_class, uint64_t begin, uint64_t end, Visit visit) const {
    if (begin >= end) return;
    const std::span<const Block> blocks = blocks_[byte_class];
    for (size_t b = block_at(byte_class, begin); b < blocks.size(); ++b) {
      const Block& block = blocks[b];
      if (block.begin >= end) return;
      const Template& tmpl = templates_[block.in_template];
      const uint64_t from = begin > block.begin ? begin - block.begin : 0;
      for (size_t t = from / block.per_tensor; t < tmpl.tensors.size(); ++t) {
        uint64_t at = block.begin + t * block.per_tensor;
        if (at >= end) return;
        for (const uint32_t a : block.atoms) {
          const TemplateAtom& atom = tmpl.atoms[a];
          if (at < end && at + atom.bytes > begin) {
            visit(Segment{tmpl.tensors[t], &atom.box, tmpl.unit, begin > at ? begin - at : 0,
                          std::min(end - at, atom.bytes)});
          }
          at += atom.bytes;
        }
      }
    }
  }

  // The places next to `position`, at or below and above it, where a class may be cut: between
  // whole rows of an atom with `unit` bytes or a little more between places, or between any two
  // elements where `unit` is 0.
  struct Places {
    uint64_t below = 0;
    uint64_t above = 0;
  };
  Places places_near(uint32_t byte_class, uint64_t position, uint64_t unit) const;

 private:
  friend class ClassMapBuilder;
  size_t block_at(uint32_t byte_class, uint64_t position) const;

  std::vector<Template> templates_;
  std::vector<uint32_t> template_of_;  // by tensor
  std::vector<ByteClass> classes_;
  std::vector<std::vector<Block>> blocks_;  // by class
  std::vector<Digest> contents_;            // by class
  uint64_t atom_count_ = 0;
  uint64_t atoms_reused_ = 0;
};

// Elements [begin, end) of a box in row-major order, as boxes in that order: part of the first row,
// whole rows, part of the last one, and so on inside the parts. Appended to `out`.
void boxes_of_range(const Box& box, uint64_t begin, uint64_t end, std::vector<Box>* out);

}  // namespace wb
