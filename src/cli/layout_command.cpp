#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/reporter.h"
#include "layout/layout_diff.h"
#include "layout/layout_file.h"
#include "layout/model_config.h"
#include "layout/rules.h"
#include "layout/safetensors.h"

namespace wb::cli {
namespace {

using nlohmann::json;

struct LayoutOptions {
  std::string model;
  std::string side;
  uint32_t rank = 0;
  std::string out;
  bool json = false;
};

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t extent : shape) {
    text += (text.empty() ? "" : ", ") + std::to_string(extent);
  }
  return "[" + text + "]";
}

const char* kind_name(ExtraKind kind) {
  switch (kind) {
    case ExtraKind::kUnmapped:
      return "unmapped";
    case ExtraKind::kZeroFill:
      return "zero fill";
    case ExtraKind::kComputed:
      return "computed";
  }
  return "unknown";
}

json piece_json(const TensorTable& table, const Piece& piece) {
  json box = json::array(), strides = json::array();
  for (int d = 0; d < piece.box.rank(); ++d) {
    const Progression& p = piece.box.dim(d);
    box.push_back({{"start", p.start}, {"count", p.count}, {"step", p.step}});
    strides.push_back(piece.stride[static_cast<size_t>(d)]);
  }
  return {{"tensor", table[piece.tensor].name},
          {"box", std::move(box)},
          {"offset", piece.offset},
          {"strides", std::move(strides)}};
}

json layout_json(const LayoutOptions& options, const TensorTable& table,
                 const WorkerLayout& layout) {
  json buffers = json::array();
  for (const BufferInfo& buffer : layout.buffers) {
    buffers.push_back({{"name", buffer.name},
                       {"dtype", dtype_info(buffer.dtype).name},
                       {"shape", buffer.shape},
                       {"bytes", buffer.bytes},
                       {"pieces", json::array()},
                       {"extras", json::array()}});
  }
  for (const Piece& piece : layout.pieces) {
    buffers[piece.buffer]["pieces"].push_back(piece_json(table, piece));
  }
  for (const Extra& extra : layout.extras) {
    buffers[extra.buffer]["extras"].push_back({{"kind", kind_name(extra.kind)},
                                               {"name", extra.name},
                                               {"offset", extra.offset},
                                               {"bytes", extra.bytes}});
  }
  return {{"side", options.side},
          {"rank", options.rank},
          {"bytes", layout.piece_bytes(table)},
          {"digest", layout_digest(table, layout).hex()},
          {"buffers", std::move(buffers)}};
}

void print_text(const LayoutOptions& options, const TensorTable& table,
                const WorkerLayout& layout) {
  uint64_t held = 0;
  std::vector<std::vector<const Piece*>> pieces(layout.buffers.size());
  std::vector<std::vector<const Extra*>> extras(layout.buffers.size());
  for (const Piece& piece : layout.pieces) pieces[piece.buffer].push_back(&piece);
  for (const Extra& extra : layout.extras) extras[extra.buffer].push_back(&extra);
  std::string out;
  for (size_t i = 0; i < layout.buffers.size(); ++i) {
    const BufferInfo& buffer = layout.buffers[i];
    held += buffer.bytes;
    out += fmt::format("{}  {} {}  {}\n", buffer.name, dtype_info(buffer.dtype).name,
                       shape_text(buffer.shape), human_bytes(static_cast<double>(buffer.bytes)));
    for (const Piece* piece : pieces[i]) {
      out += fmt::format("  byte {:>10}  {}\n", piece->offset,
                         box_text(table[piece->tensor].name, piece->box));
    }
    for (const Extra* extra : extras[i]) {
      out += fmt::format("  byte {:>10}  {} ({}, {})\n", extra->offset, extra->name,
                         kind_name(extra->kind), human_bytes(static_cast<double>(extra->bytes)));
    }
  }
  out +=
      fmt::format("{} rank {}: {} parameters, {}, of which {} are the checkpoint's\n", options.side,
                  options.rank, layout.buffers.size(), human_bytes(static_cast<double>(held)),
                  human_bytes(static_cast<double>(layout.piece_bytes(table))));
  std::cout << out << std::flush;
}

Status show(const LayoutOptions& options) {
  WB_ASSIGN_OR_RETURN(const Spec spec, parse_spec(options.side));
  if (options.rank >= spec.world()) {
    return Status(Code::kInvalidArgument,
                  fmt::format("--rank {} is outside the world of {}, which has {} ranks",
                              options.rank, options.side, spec.world()));
  }
  WB_ASSIGN_OR_RETURN(const ModelConfig config, read_model_config(options.model));
  WB_ASSIGN_OR_RETURN(const Checkpoint checkpoint, open_checkpoint(options.model));
  WB_ASSIGN_OR_RETURN(const WorkerLayout layout,
                      lay_out(spec, config, checkpoint.table, options.rank));
  // Stricter than a source needs: a layout from rules has no byte twice on either side.
  WB_RETURN_IF_ERROR(check_layout(checkpoint.table, layout, LayoutRole::kReceiver));
  if (!options.out.empty()) {
    WB_RETURN_IF_ERROR(save_layout(options.out, checkpoint.table, layout));
  }
  if (options.json) {
    std::cout << layout_json(options, checkpoint.table, layout).dump(1) << std::endl;
  } else {
    print_text(options, checkpoint.table, layout);
  }
  return {};
}

}  // namespace

void add_layout(CLI::App& app, int* exit) {
  auto options = std::make_shared<LayoutOptions>();
  CLI::App* command =
      app.add_subcommand("layout", "Show what a rank holds, in coordinates of the checkpoint");
  command->footer(
      "Example:\n"
      "  weightbridge layout --model DIR --side megatron:tp=2 --rank 1\n"
      "Each line of a parameter says at which byte of it which part of which checkpoint tensor "
      "begins;\nranges are written as in Python.");
  command->add_option("--model", options->model, "Folder with the checkpoint and its config.json")
      ->required();
  command->add_option("--side", options->side, "SPEC, e.g. fsdp:shards=4")->required();
  command->add_option("--rank", options->rank, "Rank in the SPEC's world")->required();
  command->add_option("--out", options->out, "Also write a layout file, for layout-diff");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, exit] {
    const Status status = show(*options);
    *exit = status.ok() ? kExitOk : fail("layout", status);
  });
}

}  // namespace wb::cli
