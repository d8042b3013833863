// How a test talks to its source process: frames over one socket, and the bytes that it holds.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace wb::test {

// The socket's number in the source process.
constexpr int kSourceSocket = 3;

enum class Op : uint8_t {
  kAddress = 1,     // -> address
  kRegion = 2,      // kind, bytes, seed -> region id, key
  kExchange = 3,    // payload -> handle_exchange's answer
  kDeregister = 4,  // region id
  kStore = 5,       // region id, offset, word: one 64-bit atomic store
  kDumpable = 6,    // 0 or 1
  kDropCapabilities = 7,
  kNeedsProgress = 8,
  kCounts = 9,  // -> open descriptors, threads, mappings
  // Region id, microseconds: a thread keeps storing words of two equal halves, none twice, into
  // every word of the region, and rests so long after each thousand rounds.
  kStartFlipping = 10,
};

// One splitmix64 step: the word at index i of a region filled with `seed`.
inline constexpr uint64_t kTwice = 0x0000000100000001;  // times a half: a word of two

inline uint64_t pattern_word(uint64_t seed, uint64_t i) {
  uint64_t z = seed * 0x9e3779b97f4a7c15u + (i + 1) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
inline uint8_t pattern_byte(uint64_t seed, uint64_t offset) {
  return static_cast<uint8_t>(pattern_word(seed, offset / 8) >> (8 * (offset % 8)));
}
inline void fill_pattern(std::byte* data, uint64_t bytes, uint64_t seed) {
  for (uint64_t i = 0; i + 8 <= bytes; i += 8) {
    const uint64_t word = pattern_word(seed, i / 8);
    std::memcpy(data + i, &word, 8);
  }
  for (uint64_t i = bytes / 8 * 8; i < bytes; ++i) {
    data[i] = static_cast<std::byte>(pattern_byte(seed, i));
  }
}

inline void put_word(std::string& out, uint64_t value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}
inline uint64_t take_word(std::string_view& in) {
  uint64_t value = 0;
  if (in.size() < sizeof value) std::abort();  // a broken test
  std::memcpy(&value, in.data(), sizeof value);
  in.remove_prefix(sizeof value);
  return value;
}

// SOCK_SEQPACKET: one frame is one message.
constexpr size_t kMaxFrame = 64u << 10;

inline bool send_frame(int socket, std::string_view frame) {
  return send(socket, frame.data(), frame.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(frame.size());
}
inline std::optional<std::string> receive_frame(int socket) {
  std::string frame(kMaxFrame, '\0');
  const ssize_t got = recv(socket, frame.data(), frame.size(), 0);
  if (got <= 0) return std::nullopt;
  frame.resize(static_cast<size_t>(got));
  return frame;
}

}  // namespace wb::test
