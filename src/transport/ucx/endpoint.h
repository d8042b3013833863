// A UCX endpoint of one worker: creation, its failure, what it is made of, and its end. Keys and
// jobs hold it, so that they may outlive their connection.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/deadline.h"
#include "base/status.h"
#include "transport/ucx/context.h"

namespace wb::ucx {

class Endpoint {
 public:
  static Result<std::shared_ptr<Endpoint>> make(std::shared_ptr<Worker> worker,
                                                const std::string& peer_address);
  // Closes, and waits two seconds at most.
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  ucp_ep_h get() const { return endpoint_; }
  const Worker& worker() const { return *worker_; }
  const Library& library() const { return worker_->context().library(); }
  // Ok until UCX reports that the peer is gone, or close().
  const Status& status() const { return status_; }
  // Reads in flight; completions may come after the endpoint's end.
  const std::shared_ptr<uint32_t>& reads() const { return reads_; }
  // Lets the reads in flight end by themselves, for a second at most. A source that answers reads
  // with messages (UCX over TCP) does not survive, in UCX 1.13, a reader that leaves while answers
  // wait to be sent.
  void drain(Deadline deadline) const;
  // Drains, then closes by force. Every request on it ends, most with an error; none touches memory
  // afterwards. kDeadline when UCX has not finished by then.
  Status close(Deadline deadline);
  // UCX's description of the lanes: one per line.
  std::string describe() const;

 private:
  explicit Endpoint(std::shared_ptr<Worker> worker) : worker_(std::move(worker)) {}
  static void on_error(void* self, ucp_ep_h endpoint, ucs_status_t status);

  const std::shared_ptr<Worker> worker_;
  ucp_ep_h endpoint_ = nullptr;
  void* closing_ = nullptr;
  bool closed_ = false;
  const std::shared_ptr<uint32_t> reads_ = std::make_shared<uint32_t>(0);
  Status status_;
};

// What a connection's reads go through, from UCX's description of the endpoint.
struct Lanes {
  std::string transports;    // "rc_mlx5", "tcp", "cma+posix"
  bool source_helps = true;  // reads are emulated with messages that the source answers
  bool by_processor = true;  // a processor copies the bytes, not a network card
};
Lanes lanes_of(const std::string& description);

}  // namespace wb::ucx
