// Classes as the policies see them: needers by host, and who of the holders is on the same host.
// "Host" means an NVLink domain where there is one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/classes.h"
#include "plan/cluster.h"

namespace wb {

// The needers of one class on one host.
struct Need {
  std::span<const uint32_t> members;  // receivers, ascending
  std::span<const uint32_t> local;    // holders on the same host, ascending
};

class Needs {
 public:
  Needs(std::span<const ByteClass> classes, const Cluster& cluster);  // borrowed; checked
  Needs(const Needs&) = delete;
  Needs& operator=(const Needs&) = delete;

  std::span<const ByteClass> classes() const { return classes_; }
  // In host order.
  std::span<const Need> of(uint32_t byte_class) const {
    return {needs_.data() + begin_[byte_class], needs_.data() + begin_[byte_class + 1]};
  }
  // Classes in an order that does not depend on how they are listed.
  std::span<const uint32_t> order() const { return order_; }

  // Equal numbers: the same host.
  uint32_t host_of_source(uint32_t source) const { return source_host_[source]; }
  uint32_t host_of_receiver(uint32_t receiver) const { return receiver_host_[receiver]; }
  uint32_t hosts() const { return hosts_; }

 private:
  void number_hosts(const Cluster& cluster);
  void sort_classes();
  void add(const ByteClass& byte_class);

  std::span<const ByteClass> classes_;
  uint32_t hosts_ = 0;
  std::vector<uint32_t> source_host_;
  std::vector<uint32_t> receiver_host_;
  std::vector<uint32_t> order_;
  std::vector<uint32_t> workers_;  // what the spans point into; never grows beyond its capacity
  std::vector<Need> needs_;
  std::vector<uint32_t> begin_ = {0};
};

}  // namespace wb
