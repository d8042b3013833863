#include "cli/checkpoint_map.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/checked.h"

namespace wb::cli {

Result<std::unique_ptr<FileMap>> FileMap::open(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno_status(errno, "opening " + path.string());
  struct stat about {};
  if (::fstat(fd, &about) != 0) {
    const int error = errno;
    ::close(fd);
    return errno_status(error, "looking at " + path.string());
  }
  if (!S_ISREG(about.st_mode) || about.st_size == 0) {
    ::close(fd);
    return Status(Code::kBadData, path.string() + " is empty or not a regular file");
  }
  const auto size = static_cast<size_t>(about.st_size);
  void* base = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  const int error = errno;
  ::close(fd);
  if (base == MAP_FAILED) return errno_status(error, "mapping " + path.string());
  return std::unique_ptr<FileMap>(new FileMap({static_cast<const std::byte*>(base), size}));
}

FileMap::~FileMap() { ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size()); }

Result<CheckpointMap> CheckpointMap::open(const std::filesystem::path& path) {
  CheckpointMap map;
  WB_ASSIGN_OR_RETURN(map.checkpoint_, open_checkpoint(path));
  for (const auto& file : map.checkpoint_.files) {
    WB_ASSIGN_OR_RETURN(auto mapped, FileMap::open(file));
    map.files_.push_back(std::move(mapped));
  }
  for (uint32_t i = 0; i < map.checkpoint_.places.size(); ++i) {
    const TensorFile& place = map.checkpoint_.places[i];
    if (place.file >= map.files_.size() ||
        !range_inside(place.offset, place.bytes, map.files_[place.file]->bytes().size())) {
      return Status(Code::kBadData, "the checkpoint changed while it was being opened")
          .with_tensor(map.table()[i].name);
    }
  }
  return map;
}

std::span<const std::byte> CheckpointMap::tensor(uint32_t tensor) const {
  const TensorFile& place = checkpoint_.places[tensor];
  return files_[place.file]->bytes().subspan(static_cast<size_t>(place.offset),
                                             static_cast<size_t>(place.bytes));
}

}  // namespace wb::cli
