#include "transport/verbs/rail.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/good_guest.h"

namespace wb::verbs {
namespace {

// A processor moves some 100 MB/s: with much more in flight, the last READs wait as long as the
// timer for lost packets, and everything is sent twice. And soft-RoCE loses its order when READs
// are posted while it answers others: one batch at a time.
constexpr uint64_t kSoftwareBudget = 1u << 20;

// Devices differ in which of the two limits on scatter entries of a READ they fill in.
uint32_t scatter_of(const ibv_device_attr& device, const VerbsOptions& options) {
  const int most =
      device.max_sge_rd > 0 ? std::min(device.max_sge, device.max_sge_rd) : device.max_sge;
  return std::clamp(static_cast<uint32_t>(std::max(most, 1)), 1u, options.max_sge);
}

uint8_t depth_of(int device, uint8_t option) {
  return static_cast<uint8_t>(std::clamp(device, 0, static_cast<int>(option)));
}

// soft-RoCE gives no vendor.
bool software(const ibv_device_attr& device) {
  return device.vendor_id == 0xffffff || (device.vendor_id == 0 && device.vendor_part_id == 0);
}

uint8_t mtu_code(uint32_t bytes) {
  uint8_t code = 1;
  while (code < 5 && (256u << code) <= bytes) ++code;
  return code;
}

// All entries of the port's GID table that hold something.
std::vector<GidRow> gid_table(const Verbs& verbs, ibv_context* context, uint8_t port, int length) {
  std::vector<GidRow> rows;
  for (uint32_t i = 0; i < static_cast<uint32_t>(std::clamp(length, 0, 1024)); ++i) {
    ibv_gid_entry entry{};
    if (verbs.query_gid(context, port, i, &entry) != 0) continue;
    GidRow row;
    std::memcpy(row.gid.data(), entry.gid.raw, row.gid.size());
    if (row.gid == Gid{}) continue;
    row.index = i;
    row.type = entry.gid_type == IBV_GID_TYPE_ROCE_V2   ? GidType::kRoce2
               : entry.gid_type == IBV_GID_TYPE_ROCE_V1 ? GidType::kRoce1
                                                        : GidType::kInfiniBand;
    rows.push_back(row);
  }
  return rows;
}

LinkLayer layer_of(const ibv_port_attr& port) {
  return port.link_layer == IBV_LINK_LAYER_ETHERNET ? LinkLayer::kEthernet : LinkLayer::kInfiniBand;
}

// Nothing for a device that cannot be opened: it has no port to choose.
std::vector<PortInfo> look_at(const Verbs& verbs, ibv_device* device) {
  std::vector<PortInfo> out;
  ibv_context* context = verbs.open_device(device);
  if (context == nullptr) return out;
  ibv_device_attr attributes{};
  if (verbs.query_device(context, &attributes) == 0) {
    for (uint8_t port = 1; port <= attributes.phys_port_cnt && port != 0; ++port) {
      ibv_port_attr found{};
      if (verbs.query_port(context, port, &found) != 0) continue;
      PortInfo info;
      info.device = device->name;
      info.port = port;
      info.active = found.state == IBV_PORT_ACTIVE;
      info.reads = device->transport_type == IBV_TRANSPORT_IB && attributes.max_qp_rd_atom > 0 &&
                   attributes.max_qp_init_rd_atom > 0;
      info.gbps = gbps_of(found.active_width, found.active_speed);
      info.numa_node = verbs.numa_node(device);
      info.layer = layer_of(found);
      out.push_back(std::move(info));
    }
  }
  verbs.close_device(context);
  return out;
}

}  // namespace

Result<std::shared_ptr<Rail>> Rail::open(std::shared_ptr<const Verbs> verbs, ibv_context* context,
                                         const PortInfo& info, const std::string& reason,
                                         const VerbsOptions& options) {
  std::shared_ptr<Rail> rail(new Rail(std::move(verbs), context));
  rail->reasons_.push_back(reason);
  WB_RETURN_IF_ERROR(rail->choose(info, options).prefixed("RDMA port " + info.name() + ": "));
  rail->pd_ = rail->verbs_->alloc_pd(context);
  if (rail->pd_ == nullptr) {
    return errno_status(errno, "making a protection domain on RDMA port " + info.name());
  }
  close_on_exec(context->async_fd);
  // The event thread asks when poll(2) says so, and must never wait inside the library.
  const int flags = fcntl(context->async_fd, F_GETFL);
  if (flags < 0 || fcntl(context->async_fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    return errno_status(errno, "the event descriptor of RDMA port " + info.name());
  }
  return rail;
}

Rail::~Rail() {
  if (pd_ != nullptr) verbs_->dealloc_pd(pd_);
  verbs_->close_device(context_);
}

Status Rail::choose(const PortInfo& info, const VerbsOptions& options) {
  name_ = info.name();
  port_ = info.port;
  gbps_ = info.gbps;
  numa_node_ = info.numa_node;
  if (const int error = verbs_->query_device(context_, &device_); error != 0) {
    return errno_status(error, "asking for the device's limits");
  }
  ibv_port_attr port{};
  if (const int error = verbs_->query_port(context_, port_, &port); error != 0) {
    return errno_status(error, "asking for the port's state");
  }
  const LinkLayer layer = layer_of(port);
  WB_ASSIGN_OR_RETURN(
      const GidChoice gid,
      choose_gid(gid_table(*verbs_, context_, port_, port.gid_tbl_len), layer, options.gid_index));
  reasons_.push_back(gid.reason);
  gid_index_ = gid.row.index;
  end_.gid = gid.row.gid;
  end_.lid = port.lid;
  end_.layer = layer;
  const uint8_t wanted_mtu = mtu_code(options.mtu);
  end_.mtu = static_cast<uint8_t>(std::min<int>(wanted_mtu, port.active_mtu));
  reasons_.push_back("MTU " + std::to_string(128u << end_.mtu) + ": " +
                     (wanted_mtu < port.active_mtu ? "the option's" : "the port's active one"));
  WB_RETURN_IF_ERROR(choose_pkey(port, options));
  // 0 where the provider does not fill it in.
  max_message_ = port.max_msg_sz == 0 ? 1u << 30 : port.max_msg_sz;
  initiator_depth_ = depth_of(device_.max_qp_init_rd_atom, options.read_depth);
  responder_depth_ = depth_of(device_.max_qp_rd_atom, options.read_depth);
  reasons_.push_back("read depth: asks " + std::to_string(initiator_depth_) + ", answers " +
                     std::to_string(responder_depth_) + " (device " +
                     std::to_string(device_.max_qp_init_rd_atom) + " and " +
                     std::to_string(device_.max_qp_rd_atom) + ", option " +
                     std::to_string(options.read_depth) + ")");
  scatter_ = scatter_of(device_, options);
  by_processor_ = software(device_);
  uint64_t budget = options.nic_budget;
  if (by_processor_) {
    budget = std::min(budget, kSoftwareBudget);
    reasons_.push_back("software device: words are read twice and compared, and at most " +
                       std::to_string(budget) + " bytes are in flight");
  }
  budget_.store(static_cast<int64_t>(budget), std::memory_order_relaxed);
  return Status();
}

Status Rail::choose_pkey(const ibv_port_attr& port, const VerbsOptions& options) {
  for (int i = 0; i < port.pkey_tbl_len; ++i) {
    __be16 raw = 0;
    if (verbs_->query_pkey(context_, port_, i, &raw) != 0) continue;
    const uint16_t pkey = __builtin_bswap16(raw);
    // The top bit is full membership; 0 in the other bits is an empty entry.
    const bool fits =
        options.pkey == 0 ? (pkey & 0x7fff) != 0 : (pkey & 0x7fff) == (options.pkey & 0x7fff);
    if (!fits) continue;
    pkey_index_ = static_cast<uint16_t>(i);
    reasons_.push_back("partition key index " + std::to_string(i) +
                       (options.pkey == 0 ? ": the first valid one" : ": named by the options"));
    return Status();
  }
  return Status(Code::kNotFound, options.pkey == 0
                                     ? std::string("the port's partition key table is empty")
                                     : "the port's partition key table does not hold " +
                                           std::to_string(options.pkey));
}

std::string Rail::trouble() const {
  ibv_port_attr port{};
  if (verbs_->query_port(context_, port_, &port) != 0) return "its state cannot be read";
  if (port.state != IBV_PORT_ACTIVE) return "it has no link";
  ibv_gid_entry entry{};
  const bool same = verbs_->query_gid(context_, port_, gid_index_, &entry) == 0 &&
                    std::memcmp(entry.gid.raw, end_.gid.data(), end_.gid.size()) == 0;
  // Queue pairs keep the address that they were made with.
  return same ? "" : "its address " + gid_text(end_.gid) + " is gone from the GID table";
}

Result<Rails> open_rails(std::shared_ptr<const Verbs> verbs, const VerbsOptions& options,
                         int near) {
  int count = 0;
  ibv_device** list = verbs->get_device_list(&count);
  if (list == nullptr) {
    return Status(Code::kUnsupported, "listing RDMA devices failed: " + error_text(errno) +
                                          " (is the ib_uverbs module loaded?)")
        .with_errno(errno);
  }
  // The devices of opened contexts stay valid when the list is freed.
  const std::shared_ptr<ibv_device*> free_list(
      list, [&verbs](ibv_device** devices) { verbs->free_device_list(devices); });
  std::vector<PortInfo> ports;
  std::vector<ibv_device*> device_of;
  for (int i = 0; i < count; ++i) {
    for (PortInfo& port : look_at(*verbs, list[i])) {
      ports.push_back(std::move(port));
      device_of.push_back(list[i]);
    }
  }
  WB_ASSIGN_OR_RETURN(const auto chosen, choose_ports(ports, options.devices, near));
  Rails out;
  Status first;
  for (const PortChoice& choice : chosen) {
    const PortInfo& info = ports[choice.index];
    ibv_context* context = verbs->open_device(device_of[choice.index]);
    Status status;
    if (context == nullptr) {
      status = errno_status(errno, "opening RDMA device " + info.device);
    } else {
      auto rail = Rail::open(verbs, context, info, choice.reason, options);
      if (rail.ok()) {
        out.rails.push_back(std::move(*rail));
        continue;
      }
      status = rail.status();
    }
    if (!options.devices.empty()) return status;
    out.left_out.push_back(status.to_string());
    if (first.ok()) first = std::move(status);
  }
  if (out.rails.empty()) {
    return Status(Code::kUnsupported, "no RDMA port can be used: " + first.message());
  }
  return out;
}

}  // namespace wb::verbs
