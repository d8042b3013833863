// Exit codes of the command, and the one line on stderr that goes with a failure.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace wb::cli {

// One per class of failure, so that a script can act on it. Documented in docs/command-line.md.
enum ExitCode : int {
  kExitOk = 0,
  kExitWrong = 1,        // verification failed: a byte is wrong, or a proof does not hold
  kExitUsage = 2,        // the words of the command line are wrong
  kExitBadData = 3,      // a file or message is malformed
  kExitDeadline = 4,     // something did not happen in time
  kExitUnavailable = 5,  // the store or a peer cannot be reached or went away
  kExitToken = 6,        // a token was refused
  kExitPermission = 7,   // the operating system forbids it
  kExitMemory = 8,       // not enough memory or descriptors
  kExitMismatch = 9,     // the two sides do not describe the same model, or do not cover each other
  kExitNotFound = 10,    // a file, tensor or rank that does not exist
  kExitBusy = 11,        // an address or port that is taken
  kExitUnsupported = 12,  // this build, machine or transport cannot do it
  kExitOrder = 13,        // the set of trainer ranks changed, or steps came in the wrong order
  kExitIo = 14,           // a system call failed: disk full, for example
  kExitRank = 15,         // demo: a rank ended without finishing its part
  kExitProblem = 16,      // doctor: something that is there, or was asked for, cannot work
  kExitInternal = 70,     // a broken invariant of the library
  kExitInterrupted = 130,
};

int exit_code(Code code);
// What a person can do about it. Empty for kOk only.
std::string_view hint(Code code);
inline constexpr std::string_view kDefectHint =
    "this is a defect of weightbridge: please report it with the command that you ran";

// Writes "weightbridge COMMAND: <status> (hint: what to do)" as one line on stderr; returns the
// exit code. Control characters of messages (they may quote untrusted bytes) are replaced.
int fail(std::string_view command, const Status& status);
// The same for a failure that no Status describes. No hint is written when `advice` is empty.
int fail(std::string_view command, int exit, std::string_view what, std::string_view advice);

// `text` with every control character replaced by a question mark.
std::string printable(std::string_view text);
// The same, but lines stay lines.
std::string printable_lines(std::string_view text);

}  // namespace wb::cli
