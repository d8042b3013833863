// The exported calls on probes.
#include <algorithm>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "capi/error.h"
#include "capi/handle.h"
#include "capi/layout.h"
#include "capi/sized.h"
#include "memory/headroom.h"
#include "memory/mapped.h"
#include "probe/prober.h"
#include "probe/report.h"

namespace wb::capi {
namespace {

static_assert(WB_BYTES_COPIED == static_cast<int>(probe::ByteKind::kCopied));
static_assert(WB_BYTES_CAST == static_cast<int>(probe::ByteKind::kCast));
static_assert(WB_BYTES_UNTOUCHED == static_cast<int>(probe::ByteKind::kUntouched));
static_assert(WB_BYTES_CONSTANT == static_cast<int>(probe::ByteKind::kConstant));
static_assert(WB_BYTES_COMPUTED == static_cast<int>(probe::ByteKind::kComputed));

constexpr unsigned kMostThreads = 8;

Status room_for(uint64_t bytes) {
  const Headroom headroom = memory_headroom(PageUse::kAnonymous);
  if (bytes <= headroom.bytes) return Status();
  return Status(Code::kNoMemory, "the backup of the buffers needs " + std::to_string(bytes) +
                                     " bytes, but " + headroom.limit + " leaves " +
                                     std::to_string(headroom.bytes) +
                                     "; WB_RESTORE_RELOAD or backup_dir need less");
}

Result<probe::Options> read_probe_options(const wb_probe_options* given) {
  WB_ASSIGN_OR_RETURN(const wb_probe_options known, read_sized(given, "probe options"));
  probe::Options options;
  switch (known.restore) {
    case 0:
    case WB_RESTORE_BACKUP:
      options.restore = probe::Restore::kBackup;
      break;
    case WB_RESTORE_RELOAD:
      options.restore = probe::Restore::kReload;
      break;
    default:
      return Status(Code::kInvalidArgument,
                    "restore " + std::to_string(known.restore) + " is none");
  }
  options.threads = known.threads != 0
                        ? std::min(known.threads, 1024u)
                        : std::clamp(std::thread::hardware_concurrency(), 1u, kMostThreads);
  options.backup_folder = text_of(known.backup_dir);
  options.max_bytes = known.max_bytes;
  options.seed = known.seed;
  options.reserve = room_for;
  return options;
}

class ProbeObject {
 public:
  static constexpr Kind kKind = Kind::kProbe;

  ProbeObject(std::shared_ptr<const TableObject> table, probe::Options options)
      : table_(std::move(table)), prober_(table_->table, std::move(options)) {}

  // What changes the probe: one thread at a time.
  template <typename Body>
  Status change(Body body) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) {
      return Status(Code::kFailedPrecondition, "another thread is inside this probe");
    }
    return body(prober_);
  }
  template <typename Body>
  Status look(Body body) {
    const std::shared_lock lock(mutex_);
    return body(prober_);
  }
  template <typename Body>
  Status look_at_result(Body body) {
    const std::shared_lock lock(mutex_);
    if (prober_.result() == nullptr) {
      return Status(Code::kFailedPrecondition, "the probing is not done");
    }
    return body(*prober_.result());
  }
  const std::shared_ptr<const TableObject>& table() const { return table_; }

 private:
  const std::shared_ptr<const TableObject> table_;
  std::shared_mutex mutex_;  // guards prober_
  probe::Prober prober_;
};

Status index_error(const char* what, size_t index, size_t count) {
  return Status(Code::kInvalidArgument,
                std::string(what) + " " + std::to_string(index) + " of " + std::to_string(count));
}

}  // namespace
}  // namespace wb::capi

extern "C" {

using namespace wb::capi;  // NOLINT(google-build-using-namespace): the file is its C face

wb_code wb_probe_create(const wb_table* table, const wb_probe_options* options,
                        wb_probe** probe) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    WB_RETURN_IF_ERROR(not_null(probe, "probe"));
    *probe = nullptr;
    WB_ASSIGN_OR_RETURN(auto object, find<TableObject>(table));
    WB_ASSIGN_OR_RETURN(auto known, read_probe_options(options));
    WB_RETURN_IF_ERROR(wb::probe::Schema::make(object->table, false).status());
    return publish_handle(std::make_shared<ProbeObject>(std::move(object), std::move(known)),
                          probe);
  });
}

wb_code wb_probe_add_buffer(wb_probe* probe, const wb_buffer* buffer, uint32_t* index) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    WB_RETURN_IF_ERROR(not_null(buffer, "buffer"));
    WB_ASSIGN_OR_RETURN(const auto object, find<ProbeObject>(probe));
    WB_ASSIGN_OR_RETURN(const wb_buffer known, read_sized(buffer, "buffer"));
    WB_ASSIGN_OR_RETURN(wb::BufferInfo info, buffer_info(known));
    WB_RETURN_IF_ERROR(wb::check_not_device(known.data, info.bytes));
    return object->change([&](wb::probe::Prober& prober) -> wb::Status {
      WB_ASSIGN_OR_RETURN(const uint32_t added,
                          prober.add_buffer(std::move(info), static_cast<std::byte*>(known.data)));
      if (index != nullptr) *index = added;
      return wb::Status();
    });
  });
}

wb_code wb_probe_begin_pass(wb_probe* probe, wb_probe_pass* pass) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    WB_RETURN_IF_ERROR(not_null(pass, "pass"));
    WB_RETURN_IF_ERROR(check_struct_size(pass->struct_size, "pass"));
    WB_ASSIGN_OR_RETURN(const auto object, find<ProbeObject>(probe));
    return object->change([&](wb::probe::Prober& prober) -> wb::Status {
      WB_ASSIGN_OR_RETURN(const wb::probe::Pass begun, prober.begin_pass());
      wb_pass_kind kind = WB_PASS_DONE;
      if (begun.kind == wb::probe::PassKind::kLoad) kind = WB_PASS_LOAD;
      if (begun.kind == wb::probe::PassKind::kReload) kind = WB_PASS_RELOAD;
      return write_sized(
          wb_probe_pass{sizeof(wb_probe_pass), kind, begun.index, begun.count, 0, begun.what}, pass,
          "pass");
    });
  });
}

wb_code wb_probe_view_of(const wb_probe* probe, size_t index, wb_probe_view* view) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    WB_RETURN_IF_ERROR(not_null(view, "view"));
    WB_ASSIGN_OR_RETURN(const auto object, find<ProbeObject>(probe));
    return object->look([&](const wb::probe::Prober& prober) -> wb::Status {
      WB_ASSIGN_OR_RETURN(const wb::probe::TensorView found, prober.view(index));
      const bool packed = wb::dtype_info(found.info->dtype).unit_elements != 1;
      *view = {found.info->name.c_str(),
               packed ? WB_U8 : static_cast<wb_dtype>(found.info->dtype),
               static_cast<uint32_t>(found.probed->rank),
               found.probed->shape.data(),
               found.stride,
               found.data};
      return wb::Status();
    });
  });
}

wb_code wb_probe_end_pass(wb_probe* probe, const wb_probe_place* places, size_t count) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    if (count != 0) WB_RETURN_IF_ERROR(not_null(places, "places"));
    WB_ASSIGN_OR_RETURN(const auto object, find<ProbeObject>(probe));
    std::vector<wb::probe::Place> known;
    for (size_t i = 0; i < count; ++i) {
      WB_RETURN_IF_ERROR(not_null(places[i].name, "a place's name"));
      known.push_back({places[i].name, places[i].data, places[i].bytes});
    }
    return object->change(
        [&](wb::probe::Prober& prober) { return prober.end_pass(known, places != nullptr); });
  });
}

wb_code wb_probe_abort(wb_probe* probe, int32_t* reload) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    WB_ASSIGN_OR_RETURN(const auto object, find<ProbeObject>(probe));
    return object->change([&](wb::probe::Prober& prober) {
      const bool needed = prober.abort();
      if (reload != nullptr) *reload = needed ? 1 : 0;
      return wb::Status();
    });
  });
}

wb_code wb_probe_summary_of(const wb_probe* probe, wb_probe_summary* summary) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    WB_ASSIGN_OR_RETURN(const auto object, find<ProbeObject>(probe));
    return object->look_at_result([&](const wb::probe::Probed& result) {
      using wb::probe::ByteKind;
      const auto bytes = [&](ByteKind kind) {
        return result.kind_bytes[static_cast<size_t>(kind)];
      };
      wb_probe_summary out{};
      for (const uint64_t of_kind : result.kind_bytes) out.buffer_bytes += of_kind;
      out.copied_bytes = bytes(ByteKind::kCopied);
      out.cast_bytes = bytes(ByteKind::kCast);
      out.untouched_bytes = bytes(ByteKind::kUntouched);
      out.constant_bytes = bytes(ByteKind::kConstant);
      out.computed_bytes = bytes(ByteKind::kComputed);
      for (const wb::probe::Homes& homes : result.homes) {
        out.elements += homes.elements;
        out.no_home += homes.none;
        out.one_home += homes.one;
        out.more_homes += homes.more;
      }
      out.buffers = result.layout.buffers.size();
      out.pieces = result.layout.pieces.size();
      out.ranges = result.ranges.size();
      out.aliases = result.aliases.size();
      out.passes = result.passes;
      out.backup_bytes = result.backup_bytes;
      out.peak_bytes = result.peak_bytes;
      out.load_ns = static_cast<uint64_t>(result.load.count());
      out.read_ns = static_cast<uint64_t>(result.read.count());
      out.solve_ns = static_cast<uint64_t>(result.solve.count());
      out.digest = result.digest_text.c_str();
      return write_sized(out, summary, "summary");
    });
  });
}

wb_code wb_probe_range_at(const wb_probe* probe, size_t index, wb_probe_range* range) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    WB_RETURN_IF_ERROR(not_null(range, "range"));
    WB_ASSIGN_OR_RETURN(const auto object, find<ProbeObject>(probe));
    return object->look_at_result([&](const wb::probe::Probed& result) {
      if (index >= result.ranges.size()) return index_error("range", index, result.ranges.size());
      const wb::probe::KindRange& found = result.ranges[index];
      *range = {found.buffer, static_cast<wb_byte_kind>(found.kind),
                found.offset, found.bytes,
                found.count,  found.pitch};
      return wb::Status();
    });
  });
}

wb_code wb_probe_homes_of(const wb_probe* probe, size_t index, wb_probe_homes* homes) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    WB_RETURN_IF_ERROR(not_null(homes, "homes"));
    WB_ASSIGN_OR_RETURN(const auto object, find<ProbeObject>(probe));
    return object->look_at_result([&](const wb::probe::Probed& result) {
      if (index >= result.homes.size()) return index_error("tensor", index, result.homes.size());
      const wb::probe::Homes& found = result.homes[index];
      *homes = {object->table()->table[static_cast<uint32_t>(index)].name.c_str(),
                found.elements,
                found.none,
                found.one,
                found.more,
                found.cast};
      return wb::Status();
    });
  });
}

wb_code wb_probe_alias_at(const wb_probe* probe, size_t index, wb_probe_alias* alias) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    WB_RETURN_IF_ERROR(not_null(alias, "alias"));
    WB_ASSIGN_OR_RETURN(const auto object, find<ProbeObject>(probe));
    return object->look_at_result([&](const wb::probe::Probed& result) {
      if (index >= result.aliases.size()) return index_error("alias", index, result.aliases.size());
      const wb::probe::Alias& found = result.aliases[index];
      *alias = {found.name.c_str(), found.owner.c_str(), found.offset};
      return wb::Status();
    });
  });
}

wb_code wb_probe_layout(const wb_probe* probe, wb_layout** layout) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    WB_RETURN_IF_ERROR(not_null(layout, "layout"));
    *layout = nullptr;
    WB_ASSIGN_OR_RETURN(const auto object, find<ProbeObject>(probe));
    return object->look_at_result([&](const wb::probe::Probed& result) -> wb::Status {
      auto made = std::make_shared<LayoutObject>(object->table(), result.layout);
      for (uint32_t i = 0; i < result.data.size(); ++i) {
        const uint64_t bytes = result.layout.buffers[i].bytes;
        if (bytes != 0) WB_RETURN_IF_ERROR(made->bind(i, result.data[i], bytes));
      }
      return publish_handle(std::move(made), layout);
    });
  });
}

const char* wb_probe_report(const wb_probe* probe) WB_NOEXCEPT {
  thread_local std::string kept;
  return guarded_string(&kept, [&]() -> wb::Result<std::string> {
    WB_ASSIGN_OR_RETURN(const auto object, find<ProbeObject>(probe));
    std::string text;
    WB_RETURN_IF_ERROR(object->look_at_result([&](const wb::probe::Probed& result) {
      text = wb::probe::report_json(object->table()->table, result);
      return wb::Status();
    }));
    return text;
  });
}

wb_code wb_probe_free(wb_probe* probe) WB_NOEXCEPT {
  return guarded([&] { return remove_handle(ProbeObject::kKind, probe).status(); });
}

}  // extern "C"
