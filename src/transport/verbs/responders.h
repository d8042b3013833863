// The source's side: the queue pairs that answer READs of each reader.
//
// Readers leave without saying so (a connection's end makes no network calls), and some die. A
// reader that connects again names those of its connections that have ended; for the rest the
// source looks after its queue pairs itself: now and then it sends a READ of zero bytes to each
// reader, which a reader that is gone does not answer.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/status.h"
#include "observe/log.h"
#include "transport/verbs/queue_pair.h"
#include "transport/verbs/wire.h"

namespace wb::verbs {

// Connections that readers may have at once.
constexpr size_t kMostReaders = 16384;

class Responders {
 public:
  Responders(std::vector<std::shared_ptr<Rail>> rails, VerbsOptions options, Log log)
      : rails_(std::move(rails)), options_(std::move(options)), log_(std::move(log)) {}

  // Makes the queue pairs that the request asks for. Ends what it says has ended.
  Result<ConnectGrant> grant(const ConnectRequest& request);
  // Sends probes, and drops the readers whose last one was not answered. Called now and then.
  void look_after();
  size_t readers() const;

 private:
  // Queue pairs of one pair of rails; the last one is probed.
  struct Group {
    size_t rail = 0;
    std::vector<std::unique_ptr<QueuePair>> pairs;
    uint64_t probe = 0;  // in flight; 0: none
    bool lost = false;   // a probe was not answered
  };
  struct Reader {
    std::vector<Group> groups;
    // Granted since the last round of probes: its own ends may not be connected yet, and a probe
    // that it cannot answer would break them.
    bool fresh = true;
  };
  // Whom a probe in flight asks.
  struct Probe {
    Digest connection;
    size_t group = 0;
  };
  Result<Group> make_group(const ConnectRequest::Group& wanted, ConnectGrant::Group* granted);
  Status make_completions(size_t rail);
  void end(const Digest& connection);
  void take_answers();
  void send_probe(const Digest& connection, Reader* reader, size_t group);

  const std::vector<std::shared_ptr<Rail>> rails_;
  const VerbsOptions options_;
  const Log log_;
  mutable std::mutex mutex_;  // guards what follows
  // By rail; made with the first reader. Only probes end here.
  std::vector<std::unique_ptr<CompletionQueue>> completions_;
  std::map<Digest, Reader> readers_;  // by connection
  std::map<uint64_t, Probe> probes_;  // in flight, by work request id
  uint64_t next_probe_ = 1;
  Digest after_;  // connection with which the last round of probes ended
};

}  // namespace wb::verbs
