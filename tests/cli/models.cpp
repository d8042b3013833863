#include "models.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <map>

namespace wb::test {
namespace {

// Removed with everything in it when the program ends.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "wb-cli-XXXXXX").string();
    if (::mkdtemp(name.data()) != nullptr) path = name;
  }
  ~Folder() {
    std::error_code ignored;
    if (!path.empty()) std::filesystem::remove_all(path, ignored);
  }
  std::filesystem::path path;
};

}  // namespace

std::filesystem::path model_folder(const std::string& name) {
  static Folder folder;
  static std::map<std::string, bool> made;
  const auto path = folder.path / name;
  if (!made[name]) {
    const char* tool = std::getenv("WB_MAKE_CHECKPOINT");
    const std::string command = std::string(tool == nullptr ? "false" : tool) + " " + name + " " +
                                path.string() + " > /dev/null";
    // NOLINTNEXTLINE(concurrency-mt-unsafe): the test program has one thread here.
    if (std::system(command.c_str()) != 0) {
      ADD_FAILURE() << "could not run: " << command;
      std::abort();
    }
    made[name] = true;
  }
  return path;
}

}  // namespace wb::test
