#include "layout/rules_cuts.h"

#include <algorithm>
#include <array>

#include "base/checked.h"

namespace wb {
namespace {

// Everything one cut works with.
struct Work {
  const CutRequest& request;
  const ModelConfig& config;
  LayoutBuilder& builder;

  uint32_t source(size_t s) const { return request.sources[s][0]; }
  const TensorInfo& info(size_t s) const { return builder.tensor(source(s)); }
  int64_t parts() const { return request.group.parts; }
  int64_t index() const { return request.group.index; }
  Status open(std::vector<int64_t> shape) const {
    const DType dtype = builder.tensor(request.sources[0][0]).dtype;
    return builder.open(request.own, dtype, std::move(shape));
  }
};

Status not_divisible(const Work& work, int64_t total, const std::string& why) {
  return Status(Code::kInvalidArgument, "parameter " + work.request.own + ": " +
                                            std::to_string(total) + " is not divisible by " +
                                            std::to_string(work.parts()) + why)
      .with_tensor(work.request.own);
}

// The group's equal share of `total`.
Result<int64_t> share(const Work& work, int64_t total) {
  if (total % work.parts() != 0) return not_divisible(work, total, "");
  return total / work.parts();
}

// The shape of a tensor with dimension 0 replaced.
std::vector<int64_t> with_rows(const TensorInfo& info, int64_t rows) {
  std::vector<int64_t> shape = info.shape;
  shape[0] = rows;
  return shape;
}

Status whole(const Work& work) {
  const TensorInfo& info = work.info(0);
  WB_RETURN_IF_ERROR(work.open(info.shape));
  const int64_t rows = info.shape.empty() ? 1 : info.shape[0];
  return work.builder.place(work.source(0), {0, 0, rows}, {});
}

Status rows(const Work& work) {
  const TensorInfo& info = work.info(0);
  WB_ASSIGN_OR_RETURN(const int64_t count, share(work, info.shape[0]));
  WB_RETURN_IF_ERROR(work.open(with_rows(info, count)));
  return work.builder.place(work.source(0), {0, work.index() * count, count}, {});
}

Status columns(const Work& work) {
  const TensorInfo& info = work.info(0);
  WB_ASSIGN_OR_RETURN(const int64_t count, share(work, info.shape[1]));
  WB_RETURN_IF_ERROR(work.open({info.shape[0], count}));
  return work.builder.place(work.source(0), {1, work.index() * count, count}, {});
}

// The sources one below the other.
Status stacked(const Work& work) {
  int64_t total = 0;
  for (size_t s = 0; s < work.request.sources.size(); ++s) total += work.info(s).shape[0];
  WB_RETURN_IF_ERROR(work.open(with_rows(work.info(0), total)));
  int64_t at = 0;
  for (size_t s = 0; s < work.request.sources.size(); ++s) {
    const int64_t count = work.info(s).shape[0];
    WB_RETURN_IF_ERROR(work.builder.place(work.source(s), {0, 0, count}, {at}));
    at += count;
  }
  return Status();
}

// [gate_r; up_r]: not an even cut of [gate; up].
Status gated(const Work& work) {
  WB_ASSIGN_OR_RETURN(const int64_t count, share(work, work.info(0).shape[0]));
  WB_RETURN_IF_ERROR(work.open(with_rows(work.info(0), 2 * count)));
  const int64_t first = work.index() * count;
  WB_RETURN_IF_ERROR(work.builder.place(work.source(0), {0, first, count}, {0}));
  return work.builder.place(work.source(1), {0, first, count}, {count});
}

// Megatron's fused matrix is, for each group of heads that share K and V, [queries | key | value].
// A rank owns an even interval of its rows, which may begin and end inside a group.
Status qkv_megatron(const Work& work) {
  const ModelConfig& config = work.config;
  const int64_t group_queries = config.heads / config.kv_heads * config.head_dim;
  const int64_t group_rows = group_queries + 2 * config.head_dim;
  WB_ASSIGN_OR_RETURN(const int64_t count, share(work, config.kv_heads * group_rows));
  WB_RETURN_IF_ERROR(work.open(with_rows(work.info(0), count)));
  const int64_t begin = work.index() * count;
  const int64_t end = begin + count;
  for (int64_t g = begin / group_rows; g * group_rows < end; ++g) {
    int64_t at = g * group_rows;
    const std::array<int64_t, 3> sizes = {group_queries, config.head_dim, config.head_dim};
    for (size_t s = 0; s < sizes.size(); ++s) {
      const int64_t first = std::max(at, begin);
      const int64_t last = std::min(at + sizes[s], end);
      if (first < last) {
        const Slice slice = {0, g * sizes[s] + first - at, last - first};
        WB_RETURN_IF_ERROR(work.builder.place(work.source(s), slice, {first - begin}));
      }
      at += sizes[s];
    }
  }
  return Status();
}

// vLLM: [q_r | k_r | v_r]; with more ranks than KV heads, neighbouring ranks hold the same head.
Status qkv_vllm(const Work& work) {
  const ModelConfig& config = work.config;
  WB_ASSIGN_OR_RETURN(const int64_t heads, share(work, config.heads));
  const bool replicate = work.parts() >= config.kv_heads;
  const int64_t kv_heads = replicate ? 1 : config.kv_heads / work.parts();
  const int64_t kv_index =
      replicate ? work.index() / (work.parts() / config.kv_heads) : work.index();
  const int64_t q_rows = heads * config.head_dim;
  const int64_t kv_rows = kv_heads * config.head_dim;
  WB_RETURN_IF_ERROR(work.open(with_rows(work.info(0), q_rows + 2 * kv_rows)));
  WB_RETURN_IF_ERROR(work.builder.place(work.source(0), {0, work.index() * q_rows, q_rows}, {0}));
  const Slice kv = {0, kv_index * kv_rows, kv_rows};
  WB_RETURN_IF_ERROR(work.builder.place(work.source(1), kv, {q_rows}));
  return work.builder.place(work.source(2), kv, {q_rows + kv_rows});
}

// Rows padded to a multiple of `multiple`, then cut evenly. Rows behind the tensor's end are of
// `padding`: Megatron's are ordinary rows of the parameter, vLLM's are zero.
Status vocabulary(const Work& work, int64_t multiple, ExtraKind padding) {
  const TensorInfo& info = work.info(0);
  const int64_t tensor_rows = info.shape[0];
  const auto padded_up = checked_add(tensor_rows, multiple - 1);
  if (!padded_up) return Status(Code::kInvalidArgument, "a vocabulary of 2^63 rows");
  const int64_t padded = *padded_up / multiple * multiple;
  WB_ASSIGN_OR_RETURN(const int64_t count, share(work, padded));
  WB_RETURN_IF_ERROR(work.open(with_rows(info, count)));
  const int64_t first = std::min(work.index() * count, tensor_rows);
  const int64_t held = std::min(count, tensor_rows - first);
  WB_RETURN_IF_ERROR(work.builder.place(work.source(0), {0, first, held}, {}));
  work.builder.pad_rows(held, count - held, padding);
  return Status();
}

// [experts, 2 * rows, columns]: each expert as in gated.
Status experts_gated(const Work& work) {
  const std::vector<uint32_t>& gates = work.request.sources[0];
  const TensorInfo& info = work.builder.tensor(gates[0]);
  WB_ASSIGN_OR_RETURN(const int64_t count, share(work, info.shape[0]));
  const auto experts = static_cast<int64_t>(gates.size());
  WB_RETURN_IF_ERROR(work.open({experts, 2 * count, info.shape[1]}));
  const Slice slice = {0, work.index() * count, count};
  for (int64_t e = 0; e < experts; ++e) {
    const auto i = static_cast<size_t>(e);
    WB_RETURN_IF_ERROR(work.builder.place(gates[i], slice, {e, 0}));
    WB_RETURN_IF_ERROR(work.builder.place(work.request.sources[1][i], slice, {e, count}));
  }
  return Status();
}

// [experts, rows, columns]: each expert as in columns.
Status experts_columns(const Work& work) {
  const std::vector<uint32_t>& downs = work.request.sources[0];
  const TensorInfo& info = work.builder.tensor(downs[0]);
  WB_ASSIGN_OR_RETURN(const int64_t count, share(work, info.shape[1]));
  const auto experts = static_cast<int64_t>(downs.size());
  WB_RETURN_IF_ERROR(work.open({experts, info.shape[0], count}));
  const Slice slice = {1, work.index() * count, count};
  for (int64_t e = 0; e < experts; ++e) {
    WB_RETURN_IF_ERROR(work.builder.place(downs[static_cast<size_t>(e)], slice, {e}));
  }
  return Status();
}

// torch.chunk: ceil(total / parts) for each, the last ones fewer or none.
std::pair<int64_t, int64_t> chunk_of(const Work& work, int64_t total) {
  const int64_t size = total / work.parts() + (total % work.parts() != 0 ? 1 : 0);
  const int64_t first = std::min(work.index() * size, total);
  return {first, std::min(size, total - first)};
}

Status chunk(const Work& work) {
  const TensorInfo& info = work.info(0);
  const auto [first, count] = chunk_of(work, info.shape[0]);
  if (count == 0) return Status();
  WB_RETURN_IF_ERROR(work.open(with_rows(info, count)));
  return work.builder.place(work.source(0), {0, first, count}, {});
}

// The fused [experts, rows of all sources, columns], cut along the experts, or along the rows when
// there are more shards than experts.
Status experts_chunk(const Work& work) {
  const auto& sources = work.request.sources;
  const auto experts = static_cast<int64_t>(sources[0].size());
  int64_t all_rows = 0;
  for (size_t s = 0; s < sources.size(); ++s) all_rows += work.info(s).shape[0];
  const int64_t width = work.info(0).shape[1];
  std::pair<int64_t, int64_t> expert_range = {0, experts};
  std::pair<int64_t, int64_t> row_range = {0, all_rows};
  if (work.parts() <= experts) {
    expert_range = chunk_of(work, experts);
  } else if (all_rows % work.parts() != 0) {
    return Status(Code::kInvalidArgument,
                  "FSDP does not support uneven sharding on dim 1: [" + std::to_string(experts) +
                      ", " + std::to_string(all_rows) + ", " + std::to_string(width) +
                      "] (world size: " + std::to_string(work.parts()) + ") of parameter " +
                      work.request.own);
  } else {
    row_range = chunk_of(work, all_rows);
  }
  const auto [expert_first, expert_count] = expert_range;
  const auto [row_first, row_count] = row_range;
  if (expert_count == 0) return Status();
  WB_RETURN_IF_ERROR(work.open({expert_count, row_count, width}));
  for (int64_t e = 0; e < expert_count; ++e) {
    int64_t at = 0;  // row of the source's first row in the fused expert
    for (size_t s = 0; s < sources.size(); ++s) {
      const int64_t count = work.info(s).shape[0];
      const int64_t first = std::max(at, row_first);
      const int64_t last = std::min(at + count, row_first + row_count);
      if (first < last) {
        const uint32_t tensor = sources[s][static_cast<size_t>(expert_first + e)];
        const Slice slice = {0, first - at, last - first};
        WB_RETURN_IF_ERROR(work.builder.place(tensor, slice, {e, first - row_first}));
      }
      at += count;
    }
  }
  return Status();
}

// Room for padding and for index * size in 64 bits.
constexpr int64_t kMaxFlat = int64_t{1} << 62;

// All tensors one behind the other as one vector, padded to the number of shards and cut evenly.
Status flat(const Work& work) {
  std::vector<int64_t> sizes;
  int64_t total = 0;
  const DType dtype = work.builder.tensor(work.request.sources[0][0]).dtype;
  for (const std::vector<uint32_t>& source : work.request.sources) {
    for (uint32_t tensor : source) {
      const TensorInfo& info = work.builder.tensor(tensor);
      if (info.dtype != dtype) {
        return Status(Code::kInvalidArgument,
                      "FSDP: Must flatten tensors with uniform dtype but got " +
                          std::string(dtype_info(dtype).name) + " and " +
                          std::string(dtype_info(info.dtype).name) + " in " + work.request.own)
            .with_tensor(info.name);
      }
      const auto units = static_cast<int64_t>(info.bytes() / dtype_info(dtype).unit_bytes);
      const auto sum = checked_add(total, units);
      if (!sum || *sum > kMaxFlat) {
        return Status(Code::kInvalidArgument, "a flat parameter of more than 2^62 elements");
      }
      sizes.push_back(units);
      total = *sum;
    }
  }
  const int64_t size = total / work.parts() + (total % work.parts() != 0 ? 1 : 0);
  WB_RETURN_IF_ERROR(work.open({size * dtype_info(dtype).unit_elements}));
  const int64_t begin = work.index() * size;
  const int64_t end = std::min(begin + size, total);
  int64_t at = 0;
  size_t next = 0;
  for (const std::vector<uint32_t>& source : work.request.sources) {
    for (uint32_t tensor : source) {
      const int64_t first = std::max(at, begin);
      const int64_t last = std::min(at + sizes[next], end);
      if (first < last) {
        WB_RETURN_IF_ERROR(
            work.builder.place_flat(tensor, first - at, last - first, first - begin));
      }
      at += sizes[next++];
    }
  }
  const int64_t held = std::max<int64_t>(end - begin, 0);
  work.builder.pad_units(held, size - held, ExtraKind::kUnmapped);
  return Status();
}

// The cuts index shapes; a rule that names a tensor of another rank must not reach them.
Status check_ranks(CutKind cut, const Work& work) {
  if (cut == CutKind::kWhole || cut == CutKind::kFlat) return Status();
  const bool matrix = cut == CutKind::kColumns || cut == CutKind::kExpertsGated ||
                      cut == CutKind::kExpertsColumns || cut == CutKind::kExpertsChunk;
  for (const std::vector<uint32_t>& source : work.request.sources) {
    for (uint32_t tensor : source) {
      const TensorInfo& info = work.builder.tensor(tensor);
      if (matrix ? info.shape.size() != 2 : info.shape.empty()) {
        return Status(Code::kMismatch, "tensor " + info.name + " has " +
                                           std::to_string(info.shape.size()) +
                                           " dimensions; parameter " + work.request.own +
                                           " is cut in " + (matrix ? "2" : "1 or more"))
            .with_tensor(info.name);
      }
    }
  }
  return Status();
}

}  // namespace

Status apply_cut(CutKind cut, const CutRequest& request, const ModelConfig& config,
                 LayoutBuilder* builder) {
  const Work work{request, config, *builder};
  WB_RETURN_IF_ERROR(check_ranks(cut, work));
  switch (cut) {
    case CutKind::kWhole:
      return whole(work);
    case CutKind::kRows:
      return rows(work);
    case CutKind::kColumns:
      return columns(work);
    case CutKind::kStacked:
      return stacked(work);
    case CutKind::kGated:
      return gated(work);
    case CutKind::kQkvMegatron:
      return qkv_megatron(work);
    case CutKind::kQkvVllm:
      return qkv_vllm(work);
    case CutKind::kVocabMegatron:
      return vocabulary(work, request.multiple * work.parts(), ExtraKind::kUnmapped);
    case CutKind::kVocabVllm:
      return vocabulary(work, request.multiple, ExtraKind::kZeroFill);
    case CutKind::kExpertsGated:
      return experts_gated(work);
    case CutKind::kExpertsColumns:
      return experts_columns(work);
    case CutKind::kChunk:
      return chunk(work);
    case CutKind::kExpertsChunk:
      return experts_chunk(work);
    case CutKind::kFlat:
      return flat(work);
  }
  return Status(Code::kInternal, "a cut without a function");
}

}  // namespace wb
