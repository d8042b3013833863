#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "cli/change_rule.h"
#include "cli/expect.h"

namespace wb::cli {

uint64_t ExpectedParameter::bytes() const {
  uint64_t sum = 0;
  for (const Slice& slice : slices) sum += slice.bytes();
  return sum;
}

ExpectedParameter& ExpectedParameter::all(const SourceTensor& t) { return rows(t, 0, t.rows); }

ExpectedParameter& ExpectedParameter::rows(const SourceTensor& t, uint64_t first, uint64_t count) {
  slices.push_back({Slice::Kind::kValues, &t, first, count, 0, t.columns});
  return *this;
}

ExpectedParameter& ExpectedParameter::columns(const SourceTensor& t, uint64_t first,
                                              uint64_t count) {
  slices.push_back({Slice::Kind::kValues, &t, 0, t.rows, first, count});
  return *this;
}

ExpectedParameter& ExpectedParameter::elements(const SourceTensor& t, uint64_t first,
                                               uint64_t count) {
  // A part of a row, whole rows, a part of a row.
  while (count != 0) {
    const uint64_t row = first / t.columns, column = first % t.columns;
    const uint64_t whole = count / t.columns;
    if (column == 0 && whole != 0) {
      slices.push_back({Slice::Kind::kValues, &t, row, whole, 0, t.columns});
      first += whole * t.columns;
      count -= whole * t.columns;
    } else {
      const uint64_t part = std::min(count, t.columns - column);
      slices.push_back({Slice::Kind::kValues, &t, row, 1, column, part});
      first += part;
      count -= part;
    }
  }
  return *this;
}

ExpectedParameter& ExpectedParameter::zeros(uint64_t bytes) {
  if (bytes != 0) slices.push_back({Slice::Kind::kZeros, nullptr, 0, 1, 0, bytes});
  return *this;
}

ExpectedParameter& ExpectedParameter::free(uint64_t bytes) {
  if (bytes != 0) slices.push_back({Slice::Kind::kFree, nullptr, 0, 1, 0, bytes});
  return *this;
}

namespace {

std::string hex(const std::byte* bytes, size_t count) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out = "0x";
  for (size_t i = count; i-- > 0;) {  // little-endian: most significant first
    out += kDigits[static_cast<unsigned>(bytes[i]) >> 4];
    out += kDigits[static_cast<unsigned>(bytes[i]) & 15];
  }
  return out;
}

class Checker {
 public:
  Checker(uint64_t version, Values values) : version_(version), values_(values) {}

  void parameter(const ExpectedParameter& expected, std::span<const std::byte> held) {
    const std::byte* at = held.data();
    begin_ = at;
    for (const Slice& slice : expected.slices) {
      switch (slice.kind) {
        case Slice::Kind::kValues:
          values(expected, at, slice);
          break;
        case Slice::Kind::kZeros:
          zeros(expected, at, slice.columns);
          break;
        case Slice::Kind::kFree:
          break;
      }
      at += slice.bytes();
    }
  }
  void fault(std::string what) {
    if (result_.fault.empty()) result_.fault = std::move(what);
  }
  Verification& result() { return result_; }

 private:
  static constexpr size_t kBlock = 16384;  // stays in the first-level cache

  void values(const ExpectedParameter& expected, const std::byte* at, const Slice& slice) {
    const SourceTensor& t = *slice.tensor;
    const ChangeRule rule(t.name, version_);
    // Whole rows are one run.
    const bool dense = slice.column == 0 && slice.columns == t.columns;
    const uint64_t runs = dense ? 1 : slice.rows;
    const uint64_t length = dense ? slice.rows * slice.columns : slice.columns;
    for (uint64_t r = 0; r < runs; ++r) {
      uint64_t index = (slice.row + r) * t.columns + slice.column;
      for (uint64_t left = length; left != 0;) {
        const uint64_t n = std::min<uint64_t>(left, kBlock / t.width);
        const std::byte* source = t.data + index * t.width;
        if (values_ == Values::kChanging) {
          rule.apply(block_.data(), source, index, n, t.width);
          source = block_.data();
        }
        compare(expected, t, index, at, source, n);
        index += n;
        left -= n;
        at += n * t.width;
      }
    }
  }

  void compare(const ExpectedParameter& expected, const SourceTensor& t, uint64_t index,
               const std::byte* found, const std::byte* wanted, uint64_t count) {
    const uint64_t bytes = count * t.width;
    result_.needed += bytes;
    if (std::memcmp(found, wanted, bytes) == 0) {
      result_.verified += bytes;
      return;
    }
    for (uint64_t i = 0; i < count; ++i) {
      const std::byte* f = found + i * t.width;
      const std::byte* w = wanted + i * t.width;
      if (std::memcmp(f, w, t.width) == 0) {
        result_.verified += t.width;
        continue;
      }
      result_.wrong += t.width;
      if (result_.fault.empty()) {
        const uint64_t element = static_cast<uint64_t>(f - begin_) / t.width;
        fault("parameter " + expected.name + ", element " + std::to_string(element) + " (" +
              t.name + " row " + std::to_string((index + i) / t.columns) + ", column " +
              std::to_string((index + i) % t.columns) + " at version " + std::to_string(version_) +
              "): expected " + hex(w, t.width) + ", found " + hex(f, t.width));
      }
    }
  }

  void zeros(const ExpectedParameter& expected, const std::byte* at, uint64_t bytes) {
    for (uint64_t i = 0; i < bytes; ++i) {
      if (at[i] == std::byte{0}) {
        ++result_.padding;
        continue;
      }
      ++result_.wrong;
      fault("parameter " + expected.name + ", byte " + std::to_string(at + i - begin_) +
            ": padding is not zero");
    }
  }

  const uint64_t version_;
  const Values values_;
  const std::byte* begin_ = nullptr;
  std::array<std::byte, kBlock> block_;
  Verification result_;
};

}  // namespace

Verification verify(const Expectation& expectation, std::span<const HeldBuffer> held,
                    uint64_t version, Values values) {
  Checker checker(version, values);
  std::map<std::string_view, const HeldBuffer*> by_name;
  for (const HeldBuffer& buffer : held) {
    if (!by_name.emplace(buffer.name, &buffer).second) {
      checker.fault("two buffers are called " + buffer.name);
    }
  }
  for (const ExpectedParameter& expected : expectation) {
    const auto found = by_name.find(expected.name);
    if (found == by_name.end()) {
      if (expected.bytes() != 0) checker.fault("the rank does not hold " + expected.name);
      continue;
    }
    const HeldBuffer& buffer = *found->second;
    by_name.erase(found);
    if (buffer.bytes.size() != expected.bytes()) {
      checker.fault("parameter " + expected.name + " has " + std::to_string(buffer.bytes.size()) +
                    " bytes, by the framework's definition " + std::to_string(expected.bytes()));
      continue;
    }
    checker.parameter(expected, buffer.bytes);
  }
  for (const auto& [name, buffer] : by_name) {
    if (!buffer->bytes.empty()) {
      checker.fault("the rank holds " + std::string(name) +
                    ", which the framework's definition does not have");
    }
  }
  return checker.result();
}

Result<Expectation> expect_rank(const SourceModel& model, const Spec& spec, uint32_t rank) {
  switch (spec.framework) {
    case Framework::kVllm:
      return expect_vllm(model, spec, rank);
    case Framework::kMegatron:
      return expect_megatron(model, spec, rank);
    case Framework::kFsdp:
      return expect_fsdp(model, spec, rank);
    case Framework::kReplicated: {
      Expectation all;
      for (const auto& [name, tensor] : model.tensors()) {
        if (model.is_alias(name)) continue;
        all.push_back({.name = name, .slices = {}});
        all.back().all(tensor);
      }
      return all;
    }
  }
  return Status(Code::kUnsupported, "a framework that the verification does not know");
}

}  // namespace wb::cli
