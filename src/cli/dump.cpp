#include "cli/dump.h"

#include <string>

#include "base/output_file.h"
#include "layout/safetensors.h"

namespace wb::cli {

Status dump_safetensors(const std::filesystem::path& path, const WorkerLayout& layout,
                        std::span<std::byte* const> buffers) {
  std::vector<TensorInfo> tensors;
  for (const BufferInfo& buffer : layout.buffers) {
    tensors.push_back({buffer.name, buffer.dtype, buffer.shape});
  }
  WB_ASSIGN_OR_RETURN(OutputFile file, OutputFile::create(path));
  const std::string header = make_safetensors_header(tensors);
  WB_RETURN_IF_ERROR(file.write(header.data(), header.size()));
  for (size_t i = 0; i < tensors.size(); ++i) {
    WB_RETURN_IF_ERROR(file.write(buffers[i], tensors[i].bytes()));
  }
  return file.commit();
}

}  // namespace wb::cli
