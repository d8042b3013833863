#include "cli/doctor/pci_config.h"

#include <cstddef>

namespace wb::cli::doctor {
namespace {

constexpr size_t kExtended = 0x100;
constexpr size_t kWhole = 0x1000;

// Little endian; zero beyond the end, as absent registers read.
uint32_t number(std::string_view config, size_t at, size_t bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < bytes && at + i < config.size(); ++i) {
    value |= uint32_t{static_cast<uint8_t>(config[at + i])} << (8 * i);
  }
  return value;
}

}  // namespace

std::optional<DeviceControl> device_control(std::string_view config) {
  constexpr uint32_t kHasList = 0x10, kPciExpress = 0x10, kRelaxed = 0x10;
  if ((number(config, 0x06, 2) & kHasList) == 0) return std::nullopt;
  size_t at = number(config, 0x34, 1) & 0xfc;
  // A list in 192 bytes of 4-byte steps has at most 48 entries; a longer one is a ring.
  for (int i = 0; i < 48 && at >= 0x40; ++i, at = number(config, at + 1, 1) & 0xfc) {
    if (number(config, at, 1) != kPciExpress || at + 10 > config.size()) continue;
    const uint32_t control = number(config, at + 8, 2);
    return DeviceControl{(control & kRelaxed) != 0, uint32_t{128} << ((control >> 12) & 7)};
  }
  return std::nullopt;
}

std::optional<bool> acs_redirects(std::string_view config) {
  constexpr uint32_t kAcs = 0x000d, kRequests = 0x04, kCompletions = 0x08;
  if (config.size() <= kExtended) return std::nullopt;
  size_t at = kExtended;
  for (size_t i = 0; i < (kWhole - kExtended) / 4 && at >= kExtended; ++i) {
    const uint32_t header = number(config, at, 4);
    if ((header & 0xffff) == kAcs) {
      return (number(config, at + 6, 2) & (kRequests | kCompletions)) != 0;
    }
    at = (header >> 20) & 0xffc;
  }
  return false;
}

}  // namespace wb::cli::doctor
