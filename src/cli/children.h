// Processes that the demo runs, one per rank: executed anew, so that they share nothing with this
// process but two pipes, and never left behind.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/status.h"

namespace wb::cli {

struct ChildEvent {
  enum class Kind {
    kLine,         // a line of `child`'s stdout
    kErrorLine,    // a line of its stderr
    kExited,       // it ended; all its lines have been delivered
    kInterrupted,  // SIGINT, SIGTERM or SIGHUP came to this process
  } kind = Kind::kLine;
  size_t child = 0;
  std::string line;
  int exit_code = 0;    // kExited: the exit code, or -1
  int exit_signal = 0;  // kExited: the signal that ended it, or 0
};

class Children {
 public:
  // Takes SIGINT, SIGTERM and SIGHUP of the calling thread as events, and ignores SIGPIPE. Call it
  // before threads are started, so that they inherit the blocked mask.
  static Result<Children> make();
  Children(Children&& other) noexcept;
  Children& operator=(Children&&) = delete;
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;
  ~Children();  // ends all that still run

  // Executes this program again with `arguments`. From the thread that lives longest: the children
  // die with it. Returns the child's index.
  Result<size_t> spawn(std::string name, const std::vector<std::string>& arguments);

  size_t running() const;
  const std::string& name(size_t child) const { return children_[child].name; }
  // The last lines of its stderr, oldest first, joined by " | ".
  std::string last_words(size_t child) const;

  // kDeadline when nothing happens.
  Result<ChildEvent> next(Deadline deadline);

  // Ends all that still run and waits for their end.
  void end_all();

 private:
  struct Stream {
    int fd = -1;
    std::string rest;  // an unfinished line
  };
  struct Child {
    std::string name;
    pid_t pid = -1;  // -1 once it was waited for
    int pidfd = -1;
    Stream out, error;
    std::deque<std::string> last_errors;
  };
  explicit Children(int signals) : signals_(signals) {}
  void drain(size_t child, bool error);
  void reap(size_t child);
  void deliver(size_t child, bool error, std::string line);

  int signals_;
  std::vector<Child> children_;
  std::deque<ChildEvent> events_;
};

}  // namespace wb::cli
