#include "cli/exit_code.h"

#include <algorithm>
#include <cstdio>

#include "layout/quote.h"

namespace wb::cli {

int exit_code(Code code) {
  switch (code) {
    case Code::kOk:
      return kExitOk;
    case Code::kInvalidArgument:
      return kExitUsage;
    case Code::kBadData:
      return kExitBadData;
    case Code::kNotFound:
      return kExitNotFound;
    case Code::kDeadline:
    case Code::kStarved:
      return kExitDeadline;
    case Code::kUnavailable:
    case Code::kPeerLost:
      return kExitUnavailable;
    case Code::kUnauthenticated:
      return kExitToken;
    case Code::kPermission:
      return kExitPermission;
    case Code::kNoMemory:
      return kExitMemory;
    case Code::kMismatch:
    case Code::kNotCovered:
      return kExitMismatch;
    case Code::kUnproven:
    case Code::kTorn:
      return kExitWrong;
    case Code::kGenerationChanged:
    case Code::kFailedPrecondition:
      return kExitOrder;
    case Code::kUnsupported:
      return kExitUnsupported;
    case Code::kBusy:
      return kExitBusy;
    case Code::kCancelled:
      return kExitInterrupted;
    case Code::kIo:
      return kExitIo;
    case Code::kInternal:
      return kExitInternal;
  }
  return kExitInternal;
}

// No default: a new code without a hint is a warning of the compiler, and so an error.
std::string_view hint(Code code) {
  switch (code) {
    case Code::kOk:
      return "";
    case Code::kInvalidArgument:
      return "see weightbridge --help";
    case Code::kBadData:
      return "check the file or the process that it came from; nothing of it was used";
    case Code::kNotFound:
      return "check the name";
    case Code::kDeadline:
      return "see that the other processes run with the same --store and --job, or raise --timeout";
    case Code::kStarved:
      return "run the trainers with `publish --mode snapshot`, or leave more time between their "
             "updates";
    case Code::kTorn:
      return "pull again; when it happens often, run the trainers with `publish --mode snapshot`";
    case Code::kUnavailable:
      return "see that the store and the peers run and that their addresses can be reached from "
             "here";
    case Code::kPeerLost:
      return "start the lost process again; it joins the job under the same rank";
    case Code::kUnauthenticated:
      return "use the same --token-file in all processes of the job";
    case Code::kPermission:
      return "let the operating system allow it, or choose another --transport or --memory";
    case Code::kNoMemory:
      return "free memory, raise the limit, or run with a smaller model";
    case Code::kMismatch:
      return "use the same --model in all processes";
    case Code::kNotCovered:
      return "choose a trainer layout that holds all tensors which the rollout needs";
    case Code::kGenerationChanged:
      return "start this rank again to join the newest set of trainers";
    case Code::kFailedPrecondition:
      return "see what must come first, then start the command again";
    case Code::kUnsupported:
      return "choose another option";
    case Code::kBusy:
      return "choose another port (0 lets the system choose), or stop the process that holds it";
    case Code::kCancelled:
      return "it was ended before it was done; start it again";
    case Code::kIo:
      return "see the system's reason in the message; the disk, or a limit of the process, may be "
             "full";
    case Code::kUnproven:
    case Code::kInternal:
      return kDefectHint;
  }
  return kDefectHint;
}

std::string printable_lines(std::string_view text) { return visible(text, true); }

std::string printable(std::string_view text) {
  std::string out = printable_lines(text);
  std::replace(out.begin(), out.end(), '\n', ' ');
  return out;
}

int fail(std::string_view command, int exit, std::string_view what, std::string_view advice) {
  std::string line = "weightbridge " + std::string(command) + ": " + printable(what);
  if (!advice.empty()) line += " (hint: " + std::string(advice) + ")";
  line += "\n";
  std::fputs(line.c_str(), stderr);
  return exit;
}

int fail(std::string_view command, const Status& status) {
  return fail(command, exit_code(status.code()), status.to_string(), hint(status.code()));
}

}  // namespace wb::cli
