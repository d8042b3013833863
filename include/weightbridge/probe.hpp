// A layout learnt from a loader. Part of weightbridge.hpp.
#ifndef WEIGHTBRIDGE_PROBE_HPP
#define WEIGHTBRIDGE_PROBE_HPP

#include <weightbridge/layout.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weightbridge {

struct ProbeOptions {
  RestoreMode restore = RestoreMode::kBackup;
  std::uint32_t threads = 0;    // 0: one per core, at most 8
  std::string backup_dir = {};  // "": in memory
  std::uint64_t max_bytes = 0;  // 0: a tenth of the buffers and 64 MiB
  std::uint64_t seed = 0;
};

struct ProbePass {
  PassKind kind = PassKind::kDone;
  std::uint32_t index = 0;
  std::uint32_t count = 0;
  std::string_view what;  // lives as long as the probe
};

// The live tensors as they are after a load.
struct ProbePlace {
  std::string name;
  const void* data = nullptr;
  std::uint64_t bytes = 0;
};

// The values of one checkpoint tensor in one pass; everything it points to lives as long as the
// probe. Strides are bytes and may be 0.
struct ProbeView {
  std::string_view name;
  DType dtype = DType::kU8;
  std::span<const std::int64_t> shape;
  std::span<const std::int64_t> stride;
  const std::byte* data = nullptr;

  // Calls visit(pointer to element) in row-major order: a dense copy, for example.
  template <typename Visit>
  void for_each(Visit visit) const {
    std::vector<std::int64_t> index(shape.size(), 0);
    for (const std::int64_t extent : shape) {
      if (extent == 0) return;
    }
    const std::byte* at = data;
    for (;;) {
      visit(at);
      std::size_t d = shape.size();
      while (d > 0) {
        at += stride[d - 1];
        if (++index[d - 1] < shape[d - 1]) break;
        at -= stride[d - 1] * shape[d - 1];
        index[--d] = 0;
      }
      if (d == 0) return;
    }
  }
};

struct ProbeHomes {
  std::string name;
  std::uint64_t elements = 0;
  std::uint64_t no_home = 0;
  std::uint64_t one_home = 0;
  std::uint64_t more_homes = 0;
  std::uint64_t cast = 0;
};

// Learns a layout from a loader; run() does it all:
//   auto probe = Probe::create(table, {}).value();
//   for (const Buffer& buffer : live_tensors) probe.add_buffer(buffer).value();
//   probe.run(load, list).or_throw();
//   Layout layout = probe.layout().value();
class Probe {
 public:
  static Result<Probe> create(const Table& table, const ProbeOptions& options) {
    const wb_probe_options raw{
        sizeof(wb_probe_options), static_cast<wb_probe_restore>(options.restore),
        options.threads,          detail::text_or_null(options.backup_dir),
        options.max_bytes,        options.seed};
    wb_probe* handle = nullptr;
    const wb_code code = wb_probe_create(table.get(), &raw, &handle);
    if (code != WB_OK) return Status::of(code);
    std::size_t tensors = 0;
    if (const wb_code got = wb_table_count(table.get(), &tensors); got != WB_OK) {
      (void)wb_probe_free(handle);
      return Status::of(got);
    }
    return Probe(handle, tensors);
  }

  Result<std::uint32_t> add_buffer(const Buffer& buffer) {
    const wb_buffer raw = detail::raw_of(buffer);
    std::uint32_t index = 0;
    const wb_code code = wb_probe_add_buffer(get(), &raw, &index);
    if (code != WB_OK) return Status::of(code);
    return index;
  }
  Result<ProbePass> begin_pass() {
    wb_probe_pass raw{};
    raw.struct_size = sizeof raw;
    const wb_code code = wb_probe_begin_pass(get(), &raw);
    if (code != WB_OK) return Status::of(code);
    return ProbePass{static_cast<PassKind>(raw.kind), raw.index, raw.count, raw.what};
  }
  std::size_t tensor_count() const { return tensors_; }
  Result<ProbeView> view(std::size_t tensor) const {
    wb_probe_view raw{};
    const wb_code code = wb_probe_view_of(get(), tensor, &raw);
    if (code != WB_OK) return Status::of(code);
    return ProbeView{raw.name, static_cast<DType>(raw.dtype), std::span(raw.shape, raw.rank),
                     std::span(raw.stride, raw.rank), static_cast<const std::byte*>(raw.data)};
  }
  // Without places the caller vouches that nothing moved.
  Status end_pass(const std::optional<std::vector<ProbePlace>>& places = std::nullopt) {
    std::vector<wb_probe_place> raw;
    if (!places) return Status::of(wb_probe_end_pass(get(), nullptr, 0));
    for (const ProbePlace& place : *places) {
      raw.push_back({place.name.c_str(), place.data, place.bytes});
    }
    if (raw.empty()) raw.reserve(1);  // not NULL: nothing is live any more
    return Status::of(wb_probe_end_pass(get(), raw.data(), raw.size()));
  }
  // Whether the real weights must be loaded now.
  Result<bool> abort() {
    std::int32_t reload = 0;
    const wb_code code = wb_probe_abort(get(), &reload);
    if (code != WB_OK) return Status::of(code);
    return reload != 0;
  }

  // All passes. `load(probe, pass)` runs the loader and returns a Status; `list()` gives the live
  // tensors as std::vector<ProbePlace>. After an error, also one of `load`, the probing is aborted;
  // with RestoreMode::kReload the real weights are then to be loaded.
  template <typename Load, typename List>
  Status run(Load load, List list) {
    for (;;) {
      const Result<ProbePass> pass = begin_pass();
      Status status = pass.status();
      if (status.ok() && pass->kind == PassKind::kDone) return status;
      if (status.ok()) status = load(*this, *pass);
      if (status.ok()) status = end_pass(list());
      if (status.ok()) continue;
      (void)abort();
      return status;
    }
  }

  Result<wb_probe_summary> summary() const {
    wb_probe_summary raw{};
    raw.struct_size = sizeof raw;
    const wb_code code = wb_probe_summary_of(get(), &raw);
    if (code != WB_OK) return Status::of(code);
    return raw;
  }
  Result<wb_probe_range> range(std::size_t index) const {
    wb_probe_range raw{};
    const wb_code code = wb_probe_range_at(get(), index, &raw);
    if (code != WB_OK) return Status::of(code);
    return raw;
  }
  Result<ProbeHomes> homes(std::size_t tensor) const {
    wb_probe_homes raw{};
    const wb_code code = wb_probe_homes_of(get(), tensor, &raw);
    if (code != WB_OK) return Status::of(code);
    return ProbeHomes{raw.name, raw.elements, raw.no_home, raw.one_home, raw.more_homes, raw.cast};
  }
  Result<Layout> layout() const {
    wb_layout* handle = nullptr;
    const wb_code code = wb_probe_layout(get(), &handle);
    if (code != WB_OK) return Status::of(code);
    return Layout(handle);
  }
  // JSON.
  Result<std::string> report() const { return Layout::text(wb_probe_report(get())); }
  wb_probe* get() const { return handle_.get(); }

 private:
  Probe(wb_probe* handle, std::size_t tensors) : handle_(handle), tensors_(tensors) {}
  std::unique_ptr<wb_probe, detail::Freer<wb_probe, wb_probe_free>> handle_;
  std::size_t tensors_;
};

}  // namespace weightbridge

#endif
