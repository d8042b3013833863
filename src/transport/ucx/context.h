// UCX objects with owners: the context, its workers, registered memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/deadline.h"
#include "base/status.h"
#include "memory/allocation.h"
#include "transport/registry.h"
#include "transport/ucx/library.h"

namespace wb::ucx {

class Context {
 public:
  static Result<std::shared_ptr<const Context>> make(const UcxOptions& options);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Library& library() const { return *library_; }
  ucp_context_h get() const { return context_; }

 private:
  Context(std::shared_ptr<const Library> library, ucp_context_h context)
      : library_(std::move(library)), context_(context) {}
  std::shared_ptr<const Library> library_;
  ucp_context_h context_;
};

// Used by one thread at a time.
class Worker {
 public:
  static Result<std::shared_ptr<Worker>> make(std::shared_ptr<const Context> context);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  ucp_worker_h get() const { return worker_; }
  Result<std::string> address() const;
  // Readable when there may be work, once arm() said that there is none. Owned by the worker.
  Result<int> event_fd() const;
  // False: there is work, do not wait.
  Result<bool> arm() const;
  unsigned progress() const { return context_->library().worker_progress(worker_); }
  // Lets what is under way end until the deadline: answers to readers, too. UCX 1.13 looks into
  // fields that it never wrote when a worker with answers that wait is destroyed.
  void come_to_rest(Deadline deadline) const;
  const Context& context() const { return *context_; }

 private:
  Worker(std::shared_ptr<const Context> context, ucp_worker_h worker)
      : context_(std::move(context)), worker_(worker) {}
  std::shared_ptr<const Context> context_;
  ucp_worker_h worker_;
};

// Registration of an allocation, which it keeps alive.
class Memory {
 public:
  static Result<std::shared_ptr<const Memory>> map(std::shared_ptr<const Context> context,
                                                   std::shared_ptr<Allocation> allocation);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  ucp_mem_h get() const { return memory_; }
  const std::shared_ptr<Allocation>& allocation() const { return allocation_; }
  Result<std::string> pack() const;

 private:
  Memory(std::shared_ptr<const Context> context, std::shared_ptr<Allocation> allocation,
         ucp_mem_h memory)
      : context_(std::move(context)), allocation_(std::move(allocation)), memory_(memory) {}
  std::shared_ptr<const Context> context_;
  std::shared_ptr<Allocation> allocation_;
  ucp_mem_h memory_;
};

}  // namespace wb::ucx
