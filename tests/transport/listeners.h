// The TCP ports that this process listens on, from /proc.
#pragma once

#include <string>
#include <vector>

namespace wb::test {

struct Listener {
  std::string address;  // hexadecimal, as the kernel writes it: "0100007F:A2C4"
  bool loopback = false;
};
std::vector<Listener> own_listeners();

}  // namespace wb::test
