#include "listeners.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

namespace wb::test {
namespace {

constexpr char kListening[] = "0A";

// Inodes of the sockets that this process holds.
std::set<std::string> own_sockets() {
  constexpr std::string_view kPrefix = "socket:[";
  std::set<std::string> inodes;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the iterator's own descriptor
    const std::string link = std::filesystem::read_symlink(entry.path(), gone).string();
    if (!gone && link.starts_with(kPrefix)) {
      inodes.insert(link.substr(kPrefix.size(), link.size() - kPrefix.size() - 1));
    }
  }
  return inodes;
}

// Each 32-bit word of an address is printed as a little-endian number.
bool is_loopback(const std::string& address) {
  const std::string host = address.substr(0, address.find(':'));
  if (host.size() == 8) return host.ends_with("7F");
  return host == "00000000000000000000000001000000" ||
         (host.starts_with("0000000000000000FFFF0000") && host.ends_with("7F"));
}

}  // namespace

std::vector<Listener> own_listeners() {
  const std::set<std::string> own = own_sockets();
  std::vector<Listener> out;
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    std::getline(file, line);  // the heading
    while (std::getline(file, line)) {
      std::istringstream words(line);
      std::string slot, local, remote, state, queues, timer, retransmits, user, timeout, inode;
      words >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> user >>
          timeout >> inode;
      if (state == kListening && own.contains(inode)) out.push_back({local, is_loopback(local)});
    }
  }
  return out;
}

}  // namespace wb::test
