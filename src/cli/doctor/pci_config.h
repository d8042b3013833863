// The few registers of a PCI device's configuration space that decide how fast peer traffic is.
// Pure functions over the bytes of /sys/bus/pci/devices/*/config; users other than root see the
// first 64 only, and a register that is not there is no register.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace wb::cli::doctor {

struct DeviceControl {
  bool relaxed_ordering = false;
  uint32_t max_read_request = 0;  // bytes
};
// Of the PCI Express capability.
std::optional<DeviceControl> device_control(std::string_view config);

// Whether Access Control Services send requests or completions between devices below this bridge up
// to the root complex. Absent: the extended space cannot be seen.
std::optional<bool> acs_redirects(std::string_view config);

}  // namespace wb::cli::doctor
