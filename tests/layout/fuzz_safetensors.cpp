// libFuzzer's entry (clang): any bytes as a safetensors file. What is accepted must be consistent,
// which is checked here by other means than the parser's own.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "layout/safetensors.h"

namespace wb {

void fuzz_one(std::span<const std::byte> bytes) {
  const auto header = parse_safetensors_header(bytes, bytes.size());
  if (!header.ok()) {
    if (header.status().message().empty()) std::abort();
    return;
  }
  uint64_t total = 0;
  uint64_t end = bytes.size();
  for (size_t i = 0; i < header->tensors.size(); ++i) {
    const TensorFile& place = header->places[i];
    if (place.offset > end || place.bytes > end - place.offset) std::abort();
    total += place.bytes;
  }
  uint64_t length = 0;
  for (size_t i = 0; i < 8; ++i) length |= std::to_integer<uint64_t>(bytes[i]) << (8 * i);
  if (8 + length + total != bytes.size()) std::abort();

  // What we write for these tensors is read back as the same tensors.
  const auto table = TensorTable::make(header->tensors);
  if (!table.ok()) return;
  const std::string again = make_safetensors_header(header->tensors);
  const auto reread =
      parse_safetensors_header(std::as_bytes(std::span(again)), again.size() + total);
  if (!reread.ok() || reread->tensors.size() != header->tensors.size()) std::abort();
  const auto retable = TensorTable::make(reread->tensors);
  if (!retable.ok() || retable->digest() != table->digest()) std::abort();
}

}  // namespace wb

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  wb::fuzz_one(std::as_bytes(std::span(data, size)));
  return 0;
}
