// The exported calls on tables and layouts.
#include <filesystem>
#include <utility>
#include <vector>

#include "capi/error.h"
#include "capi/handle.h"
#include "capi/layout.h"
#include "capi/piece.h"
#include "capi/sized.h"
#include "layout/layout_diff.h"
#include "layout/layout_file.h"
#include "layout/model_config.h"
#include "layout/rules.h"
#include "layout/safetensors.h"
#include "layout/spec.h"

extern "C" {

using namespace wb::capi;  // NOLINT(google-build-using-namespace): the file is its C face

wb_code wb_table_open(const char* path, wb_table** table) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    WB_RETURN_IF_ERROR(not_null(table, "table"));
    *table = nullptr;
    WB_RETURN_IF_ERROR(not_null(path, "path"));
    WB_ASSIGN_OR_RETURN(auto checkpoint, wb::open_checkpoint(path));
    return publish_handle(std::make_shared<TableObject>(std::move(checkpoint.table)), table);
  });
}

wb_code wb_table_create(const wb_tensor* tensors, size_t count, wb_table** table) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    WB_RETURN_IF_ERROR(not_null(table, "table"));
    *table = nullptr;
    if (count != 0) WB_RETURN_IF_ERROR(not_null(tensors, "tensors"));
    std::vector<wb::TensorInfo> infos;
    for (size_t i = 0; i < count; ++i) {
      const wb_tensor& given = tensors[i];
      WB_ASSIGN_OR_RETURN(auto info, tensor_info(given.name, given.dtype, given.rank, given.shape));
      infos.push_back(std::move(info));
    }
    WB_ASSIGN_OR_RETURN(auto made, wb::TensorTable::make(std::move(infos)));
    return publish_handle(std::make_shared<TableObject>(std::move(made)), table);
  });
}

wb_code wb_table_count(const wb_table* table, size_t* count) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    WB_RETURN_IF_ERROR(not_null(count, "count"));
    WB_ASSIGN_OR_RETURN(const auto object, find<TableObject>(table));
    *count = object->table.size();
    return wb::Status();
  });
}

wb_code wb_table_tensor(const wb_table* table, size_t index, wb_tensor* tensor) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    WB_RETURN_IF_ERROR(not_null(tensor, "tensor"));
    WB_ASSIGN_OR_RETURN(const auto object, find<TableObject>(table));
    if (index >= object->table.size()) {
      return wb::Status(wb::Code::kInvalidArgument, "tensor " + std::to_string(index) + " of " +
                                                        std::to_string(object->table.size()));
    }
    const wb::TensorInfo& info = object->table[static_cast<uint32_t>(index)];
    *tensor = {info.name.c_str(), static_cast<wb_dtype>(info.dtype),
               static_cast<uint32_t>(info.shape.size()),
               info.shape.empty() ? nullptr : info.shape.data()};
    return wb::Status();
  });
}

wb_code wb_table_free(wb_table* table) WB_NOEXCEPT {
  return guarded([&] { return remove_handle(TableObject::kKind, table).status(); });
}

wb_code wb_layout_create(const wb_table* table, wb_layout** layout) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    WB_RETURN_IF_ERROR(not_null(layout, "layout"));
    *layout = nullptr;
    WB_ASSIGN_OR_RETURN(auto object, find<TableObject>(table));
    return publish_handle(std::make_shared<LayoutObject>(std::move(object), wb::WorkerLayout()),
                          layout);
  });
}

wb_code wb_layout_from_rules(const wb_table* table, const char* model_dir, const char* spec,
                             uint32_t rank, wb_layout** layout) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    WB_RETURN_IF_ERROR(not_null(layout, "layout"));
    *layout = nullptr;
    WB_RETURN_IF_ERROR(not_null(model_dir, "model_dir"));
    WB_RETURN_IF_ERROR(not_null(spec, "spec"));
    WB_ASSIGN_OR_RETURN(auto object, find<TableObject>(table));
    WB_ASSIGN_OR_RETURN(const wb::Spec parsed, wb::parse_spec(spec));
    WB_ASSIGN_OR_RETURN(const wb::ModelConfig config, wb::read_model_config(model_dir));
    WB_ASSIGN_OR_RETURN(auto made, wb::lay_out(parsed, config, object->table, rank));
    return publish_handle(std::make_shared<LayoutObject>(std::move(object), std::move(made)),
                          layout);
  });
}

wb_code wb_layout_add_buffer(wb_layout* layout, const wb_buffer* buffer,
                             uint32_t* index) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    WB_RETURN_IF_ERROR(not_null(buffer, "buffer"));
    WB_ASSIGN_OR_RETURN(const auto object, find<LayoutObject>(layout));
    WB_ASSIGN_OR_RETURN(const wb_buffer known, read_sized(buffer, "buffer"));
    WB_ASSIGN_OR_RETURN(const uint32_t added, object->add_buffer(known));
    if (index != nullptr) *index = added;
    return wb::Status();
  });
}

wb_code wb_layout_add_piece(wb_layout* layout, const wb_piece* piece) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    WB_RETURN_IF_ERROR(not_null(piece, "piece"));
    WB_ASSIGN_OR_RETURN(const auto object, find<LayoutObject>(layout));
    WB_ASSIGN_OR_RETURN(const wb_piece known, read_sized(piece, "piece"));
    return object->add_piece(known);
  });
}

wb_code wb_layout_add_tensor(wb_layout* layout, const char* tensor, void* data, uint64_t bytes,
                             uint32_t* index) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    WB_RETURN_IF_ERROR(not_null(tensor, "tensor"));
    WB_ASSIGN_OR_RETURN(const auto object, find<LayoutObject>(layout));
    WB_ASSIGN_OR_RETURN(const uint32_t added, object->add_tensor(tensor, data, bytes));
    if (index != nullptr) *index = added;
    return wb::Status();
  });
}

wb_code wb_layout_add_extra(wb_layout* layout, uint32_t buffer, uint64_t offset, uint64_t bytes,
                            wb_extra_kind kind, const char* name) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    WB_ASSIGN_OR_RETURN(const auto object, find<LayoutObject>(layout));
    return object->add_extra(buffer, offset, bytes, kind, name);
  });
}

wb_code wb_layout_bind(wb_layout* layout, uint32_t buffer, void* data, uint64_t bytes) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    WB_ASSIGN_OR_RETURN(const auto object, find<LayoutObject>(layout));
    return object->bind(buffer, data, bytes);
  });
}

wb_code wb_layout_allocate(wb_layout* layout, const wb_memory_options* options) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    WB_ASSIGN_OR_RETURN(const auto object, find<LayoutObject>(layout));
    WB_ASSIGN_OR_RETURN(const MemoryWish wish, read_memory_options(options));
    return object->allocate(wish);
  });
}

wb_code wb_layout_count(const wb_layout* layout, size_t* buffers) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    WB_RETURN_IF_ERROR(not_null(buffers, "buffers"));
    WB_ASSIGN_OR_RETURN(const auto object, find<LayoutObject>(layout));
    *buffers = object->count();
    return wb::Status();
  });
}

wb_code wb_layout_buffer(const wb_layout* layout, uint32_t index, wb_buffer* buffer) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    WB_ASSIGN_OR_RETURN(const auto object, find<LayoutObject>(layout));
    WB_ASSIGN_OR_RETURN(const wb_buffer known, object->describe(index));
    return write_sized(known, buffer, "buffer");
  });
}

wb_code wb_layout_check(const wb_layout* layout, wb_role role) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    WB_ASSIGN_OR_RETURN(const auto object, find<LayoutObject>(layout));
    if (role != WB_SOURCE && role != WB_RECEIVER) {
      return wb::Status(wb::Code::kInvalidArgument, "role " + std::to_string(role) + " is none");
    }
    return object->check(role == WB_SOURCE ? wb::LayoutRole::kSource : wb::LayoutRole::kReceiver);
  });
}

wb_code wb_layout_piece_count(const wb_layout* layout, size_t* pieces) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    WB_RETURN_IF_ERROR(not_null(pieces, "pieces"));
    WB_ASSIGN_OR_RETURN(const auto object, find<LayoutObject>(layout));
    *pieces = object->piece_count();
    return wb::Status();
  });
}

wb_code wb_layout_extra_count(const wb_layout* layout, size_t* extras) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    WB_RETURN_IF_ERROR(not_null(extras, "extras"));
    WB_ASSIGN_OR_RETURN(const auto object, find<LayoutObject>(layout));
    *extras = object->extra_count();
    return wb::Status();
  });
}

wb_code wb_layout_piece(const wb_layout* layout, size_t index, wb_piece* piece) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    WB_ASSIGN_OR_RETURN(const auto object, find<LayoutObject>(layout));
    WB_ASSIGN_OR_RETURN(const wb::Piece known, object->piece(index));
    thread_local PieceView view;
    return write_sized(view.show(object->table()[known.tensor], known), piece, "piece");
  });
}

wb_code wb_layout_extra(const wb_layout* layout, size_t index, wb_extra* extra) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    WB_ASSIGN_OR_RETURN(const auto object, find<LayoutObject>(layout));
    thread_local wb::Extra kept;
    WB_ASSIGN_OR_RETURN(kept, object->extra(index));
    const wb_extra view{sizeof(wb_extra), kept.name.c_str(),
                        kept.buffer,      static_cast<wb_extra_kind>(kept.kind),
                        kept.offset,      kept.bytes};
    return write_sized(view, extra, "extra");
  });
}

const char* wb_layout_digest(const wb_layout* layout) WB_NOEXCEPT {
  thread_local std::string kept;
  return guarded_string(&kept, [&]() -> wb::Result<std::string> {
    WB_ASSIGN_OR_RETURN(const auto object, find<LayoutObject>(layout));
    return wb::layout_digest(object->table(), object->layout()).hex();
  });
}

wb_code wb_layout_save(const wb_layout* layout, const char* path) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    WB_RETURN_IF_ERROR(not_null(path, "path"));
    WB_ASSIGN_OR_RETURN(const auto object, find<LayoutObject>(layout));
    return wb::save_layout(path, object->table(), object->layout());
  });
}

wb_code wb_layout_load(const char* path, wb_table** table, wb_layout** layout) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    WB_RETURN_IF_ERROR(not_null(table, "table"));
    *table = nullptr;
    WB_RETURN_IF_ERROR(not_null(layout, "layout"));
    *layout = nullptr;
    WB_RETURN_IF_ERROR(not_null(path, "path"));
    WB_ASSIGN_OR_RETURN(wb::LayoutFile file, wb::load_layout(path));
    auto object = std::make_shared<TableObject>(std::move(file.table));
    WB_RETURN_IF_ERROR(publish_handle(object, table));
    wb::Status status = publish_handle(
        std::make_shared<LayoutObject>(std::move(object), std::move(file.layout)), layout);
    if (!status.ok()) {
      (void)remove_handle(TableObject::kKind, *table);
      *table = nullptr;
    }
    return status;
  });
}

const char* wb_layout_diff(const wb_layout* a, const wb_layout* b) WB_NOEXCEPT {
  thread_local std::string kept;
  return guarded_string(&kept, [&]() -> wb::Result<std::string> {
    WB_ASSIGN_OR_RETURN(const auto first, find<LayoutObject>(a));
    WB_ASSIGN_OR_RETURN(const auto second, find<LayoutObject>(b));
    if (first->table().digest() != second->table().digest()) {
      return wb::Status(wb::Code::kMismatch, "the layouts are of different tensor tables");
    }
    WB_ASSIGN_OR_RETURN(const auto differences,
                        wb::diff_layouts(first->table(), first->layout(), second->layout()));
    return wb::differences_json(first->table(), differences);
  });
}

wb_code wb_layout_free(wb_layout* layout) WB_NOEXCEPT {
  return guarded([&] { return remove_handle(LayoutObject::kKind, layout).status(); });
}

}  // extern "C"
