// Writes what lay_out says, for the comparison with oracle.py.
//
// rules_dump IN OUT: IN is {"config": a config.json, "tensors": [[name, dtype, shape]...],
// "specs": [text...]}. OUT is a sequence of records: the length of a JSON header as 8 bytes, the
// header, and the cells of all buffers (see rules_fill.h) as 8 bytes each. One record for each rank
// of each SPEC, or one with the error for a SPEC that is refused.
#include <cstdint>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "layout/model_config.h"
#include "layout/rules.h"
#include "layout/spec.h"
#include "rules_fill.h"

namespace {

using nlohmann::json;

void write_record(std::ofstream& out, const json& header, const wb::testing::Cells& cells) {
  const std::string text = header.dump();
  const uint64_t length = text.size();
  out.write(reinterpret_cast<const char*>(&length), sizeof length);
  out << text;
  for (const std::vector<int64_t>& buffer : cells) {
    out.write(reinterpret_cast<const char*>(buffer.data()),
              static_cast<std::streamsize>(buffer.size() * sizeof(int64_t)));
  }
}

json error_header(const std::string& spec, int64_t rank, const wb::Status& status) {
  return {{"spec", spec},
          {"rank", rank},
          {"code", wb::code_name(status.code())},
          {"message", status.message()}};
}

void dump_rank(std::ofstream& out, const std::string& text, const wb::Spec& spec,
               const wb::ModelConfig& config, const wb::TensorTable& table, uint32_t rank) {
  const auto layout = wb::lay_out(spec, config, table, rank);
  if (!layout.ok()) return write_record(out, error_header(text, rank, layout.status()), {});
  const wb::Status checked = wb::check_layout(table, *layout, wb::LayoutRole::kReceiver);
  if (!checked.ok()) return write_record(out, error_header(text, rank, checked), {});
  std::string fault;
  const auto cells = wb::testing::fill_cells(table, *layout, &fault);
  if (!cells) {
    const wb::Status status(wb::Code::kInternal, fault);
    return write_record(out, error_header(text, rank, status), {});
  }
  json buffers = json::array();
  for (const wb::BufferInfo& buffer : layout->buffers) {
    buffers.push_back({buffer.name, wb::dtype_info(buffer.dtype).name, buffer.shape});
  }
  write_record(out, {{"spec", text}, {"rank", rank}, {"world", spec.world()}, {"buffers", buffers}},
               *cells);
}

int run(const char* in_path, const char* out_path) {
  std::ifstream in(in_path);
  const json input = json::parse(in);
  std::vector<wb::TensorInfo> tensors;
  for (const json& row : input["tensors"]) {
    const std::string dtype = row[1];
    tensors.push_back({row[0], wb::find_dtype(dtype)->dtype, row[2]});
  }
  const auto table = wb::TensorTable::make(std::move(tensors));
  const auto config = wb::parse_model_config(input["config"].dump());
  for (const wb::Status& status : {table.status(), config.status()}) {
    if (!status.ok()) {
      std::cerr << status.to_string() << "\n";
      return 1;
    }
  }
  std::ofstream out(out_path, std::ios::binary);
  for (const json& row : input["specs"]) {
    const std::string text = row;
    const auto spec = wb::parse_spec(text);
    if (!spec.ok()) {
      write_record(out, error_header(text, -1, spec.status()), {});
      continue;
    }
    for (uint32_t rank = 0; rank < spec->world(); ++rank) {
      dump_rank(out, text, *spec, *config, *table, rank);
    }
  }
  return out.flush() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: rules_dump IN OUT\n";
    return 2;
  }
  try {
    return run(argv[1], argv[2]);
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}
