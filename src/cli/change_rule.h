// The rule by which the command's trainers change weights: an element's bits at version v are its
// bits in the checkpoint XOR key(tensor, index, v).
//
// index is the element's place in the whole checkpoint tensor, row-major. The key depends on all
// three, so no two places change alike; and it moves by an odd step from version to version, so
// every single element is different in any two versions less than 2^(its bits) apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace wb::cli {

class ChangeRule {
 public:
  ChangeRule(std::string_view tensor, uint64_t version)
      : seed_(name_hash(tensor)), version_(version) {}

  // out[j] = in[j] XOR key(first + j) for `count` elements of `width` bytes (1, 2, 3, 4 or 8).
  void apply(std::byte* out, const std::byte* in, uint64_t first, uint64_t count,
             uint32_t width) const {
    while (count != 0) {
      // The low word of the index must not wrap inside the vectorised loop.
      const uint64_t rest = (uint64_t{1} << 32) - (first & 0xffffffffu);
      const uint64_t n = count < rest ? count : rest;
      switch (width) {
        case 1:
          run<uint8_t, 1>(out, in, first, n);
          break;
        case 2:
          run<uint16_t, 2>(out, in, first, n);
          break;
        case 3:
          run<uint32_t, 3>(out, in, first, n);
          break;
        case 4:
          run<uint32_t, 4>(out, in, first, n);
          break;
        default:
          run_wide(out, in, first, n);
          break;
      }
      out += n * width;
      in += n * width;
      first += n;
      count -= n;
    }
  }

 private:
  static uint64_t name_hash(std::string_view name) {  // FNV-1a
    uint64_t h = 0xcbf29ce484222325u;
    for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    return h;
  }
  static uint32_t mix(uint32_t x) {  // a bijection of 32 bits with good avalanche
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ (x >> 16);
  }
  // Constant while the index keeps its high word.
  uint32_t run_seed(uint64_t first) const {
    const auto high = static_cast<uint32_t>(first >> 32);
    return mix(static_cast<uint32_t>(seed_) ^ mix(static_cast<uint32_t>(seed_ >> 32) + high));
  }

  template <typename Word, size_t kWidth>
  void run(std::byte* out, const std::byte* in, uint64_t first, uint64_t count) const {
    const uint32_t seed = run_seed(first);
    const auto low = static_cast<uint32_t>(first);
    const auto version = static_cast<uint32_t>(version_);
    for (uint64_t j = 0; j < count; ++j) {
      const uint32_t h = mix((low + static_cast<uint32_t>(j)) ^ seed);
      const uint32_t key = h + version * ((h >> 16) | 1u);
      Word bits = 0;
      std::memcpy(&bits, in + j * kWidth, kWidth);
      bits = static_cast<Word>(bits ^ key);
      std::memcpy(out + j * kWidth, &bits, kWidth);
    }
  }
  void run_wide(std::byte* out, const std::byte* in, uint64_t first, uint64_t count) const {
    const uint32_t seed = run_seed(first);
    const auto low = static_cast<uint32_t>(first);
    for (uint64_t j = 0; j < count; ++j) {
      const uint64_t h = mix((low + static_cast<uint32_t>(j)) ^ seed);
      const uint64_t wide = h << 32 | mix(static_cast<uint32_t>(h) + 0x9e3779b9u);
      const uint64_t key = wide + version_ * (wide | 1u);
      uint64_t bits = 0;
      std::memcpy(&bits, in + j * 8, 8);
      bits ^= key;
      std::memcpy(out + j * 8, &bits, 8);
    }
  }

  uint64_t seed_;
  uint64_t version_;
};

}  // namespace wb::cli
