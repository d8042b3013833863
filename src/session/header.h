// The slot header and the version protocol. The only file that knows how the 64 bytes are laid out.
//
// Every source has one directory in registered memory: one header per slot. A header's epoch is odd
// while the weights of its slot may change, and every change makes it larger, so two equal even
// epochs with data read in between prove that nothing changed during the read.
//
//   writer                                   reader
//   epoch := odd                             first := header
//   fence A (stores, non-temporal too)       wait for it (it is in registers)
//   change the weights                       read data
//   fence B (the same)                       wait for all of it (fence R on the same host)
//   generation, number, ... := new           second := header
//   epoch := even (release)                  accept if second == first, even and wanted
//
// Why it holds. Let the reader accept with epoch e, and let a data byte that it read come from a
// store W of the writer.
//  * W belongs to no update after e: that update's "epoch := odd" precedes W through fence A, and
//    the second header is read after the byte, so it would show a larger epoch.
//  * W belongs to no update that e does not include, and no store of e's update is missed: all of
//    them precede "epoch := e" through fence B and its release, and the first header, which showed
//    e, was complete before the data was asked for.
//  * The other words: a header whose words mix two states can only be seen while they change. A
//    first header that mixes them differs from the second one, which is read later than its even
//    epoch was visible and therefore shows all words of that state.
//
// x86 keeps plain stores in order (TSO), loads in order, and DMA reads of a device see stores in
// that order; only non-temporal and write-combined stores overtake, hence sfence in A and B and not
// only a compiler fence. ARM reorders all of it: A and B are full barriers of the outer shareable
// domain (a NIC is an observer outside the inner one), and fence R (a load barrier, the transport's
// duty in Connection::read_words) keeps the second header load behind the data loads.
//
// Threads of the trainer that wrote weights must be synchronised with the thread that publishes (a
// join, a barrier), and must have fenced their own non-temporal stores, as memcpy and compilers do.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/hash.h"
#include "base/status.h"
#include "memory/allocation.h"
#include "session/version.h"

namespace wb {

inline constexpr size_t kHeaderWords = 8;
inline constexpr size_t kHeaderBytes = kHeaderWords * sizeof(uint64_t);
static_assert(kHeaderBytes == 64, "one cache line, one READ");

// As read from a source: untrusted until find_version and unchanged have judged it.
using HeaderWords = std::array<uint64_t, kHeaderWords>;

// What a header must carry to be believed, apart from its version's number.
struct HeaderExpectation {
  uint64_t generation = 0;
  Digest mapping;
  Digest incarnation;
};

// The version whose weights the slot holds complete, if it is one that is expected.
std::optional<Version> held_version(const HeaderWords& header, const HeaderExpectation& expected);
// The slot was closed by its owner and will never be even again.
bool is_closed(const HeaderWords& header);
// Whether data read between the two headers is of one version: only then is held_version(first)
// true of it.
bool unchanged(const HeaderWords& first, const HeaderWords& second);

// The writer's side. Not synchronised: the publisher calls it under its lock.
class HeaderDirectory {
 public:
  // All slots start as changing (odd), with nothing published.
  static Result<HeaderDirectory> create(uint32_t slots, const Digest& mapping,
                                        const Digest& incarnation);

  // From its return on, the weights of `slot` may change. Without effect on a slot that is already
  // changing.
  void begin_change(uint32_t slot);
  // The weights of `slot` are `version`, complete.
  void end_change(uint32_t slot, const Version& version);
  // Odd forever, in all slots.
  void close();

  bool changing(uint32_t slot) const;
  const std::shared_ptr<Allocation>& memory() const { return memory_; }
  uint32_t slots() const { return slots_; }

 private:
  HeaderDirectory(std::shared_ptr<Allocation> memory, uint32_t slots)
      : memory_(std::move(memory)), slots_(slots) {}
  uint64_t* words(uint32_t slot) const;

  std::shared_ptr<Allocation> memory_;
  uint32_t slots_;
};

// One source's directory as a reader sees it: `slots` headers of kHeaderWords words.
struct DirectoryView {
  std::span<const uint64_t> words;
  uint32_t slots() const { return static_cast<uint32_t>(words.size() / kHeaderWords); }
  HeaderWords header(uint32_t slot) const;
};

}  // namespace wb
