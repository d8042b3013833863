#include <dlfcn.h>
#include <uct/api/uct.h>

#include <cstdlib>
#include <set>
#include <vector>

#include "base/symbols.h"
#include "cli/doctor/gather.h"

namespace wb::cli::doctor {
namespace {

struct Uct {
  decltype(&uct_query_components) query_components = nullptr;
  decltype(&uct_release_component_list) release_components = nullptr;
  decltype(&uct_component_query) component_query = nullptr;
  decltype(&uct_md_config_read) config_read = nullptr;
  decltype(&uct_config_release) config_release = nullptr;
  decltype(&uct_md_open) md_open = nullptr;
  decltype(&uct_md_close) md_close = nullptr;
  decltype(&uct_md_query_tl_resources) query_transports = nullptr;
  decltype(&uct_release_tl_resource_list) release_transports = nullptr;
};

bool open_uct(Uct* uct) {
  void* library = dlopen("libuct.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return false;
  Symbols symbols(library);
  symbols.get(uct->query_components, "uct_query_components");
  symbols.get(uct->release_components, "uct_release_component_list");
  symbols.get(uct->component_query, "uct_component_query");
  symbols.get(uct->config_read, "uct_md_config_read");
  symbols.get(uct->config_release, "uct_config_release");
  symbols.get(uct->md_open, "uct_md_open");
  symbols.get(uct->md_close, "uct_md_close");
  symbols.get(uct->query_transports, "uct_md_query_tl_resources");
  symbols.get(uct->release_transports, "uct_release_tl_resource_list");
  return symbols.missing().empty();
}

void add_transports(const Uct& uct, uct_component_h component, const char* domain,
                    std::set<std::string>* out) {
  uct_md_config_t* config = nullptr;
  if (uct.config_read(component, nullptr, nullptr, &config) != UCS_OK) return;
  uct_md_h md = nullptr;
  const ucs_status_t opened = uct.md_open(component, domain, config, &md);
  uct.config_release(config);
  if (opened != UCS_OK) return;
  uct_tl_resource_desc_t* found = nullptr;
  unsigned count = 0;
  if (uct.query_transports(md, &found, &count) == UCS_OK) {
    for (unsigned i = 0; i < count; ++i) {
      if (found[i].dev_type == UCT_DEVICE_TYPE_NET) {
        out->insert(std::string(found[i].tl_name) + "/" + found[i].dev_name);
      }
    }
    uct.release_transports(found);
  }
  uct.md_close(md);
}

// The transports between machines, as UCX itself finds them.
void add_components(const Uct& uct, std::set<std::string>* out) {
  uct_component_h* components = nullptr;
  unsigned count = 0;
  if (uct.query_components(&components, &count) != UCS_OK) return;
  for (unsigned i = 0; i < count; ++i) {
    uct_component_attr_t attributes{};
    attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
    if (uct.component_query(components[i], &attributes) != UCS_OK) continue;
    std::vector<uct_md_resource_desc_t> domains(attributes.md_resource_count);
    attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
    attributes.md_resources = domains.data();
    if (uct.component_query(components[i], &attributes) != UCS_OK) continue;
    for (const uct_md_resource_desc_t& domain : domains) {
      add_transports(uct, components[i], domain.md_name, out);
    }
  }
  uct.release_components(components);
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody sets any
  return value == nullptr ? "" : value;
}

}  // namespace

UcxFacts gather_ucx() {
  UcxFacts ucx;
  ucx.tls = environment("UCX_TLS");
  ucx.net_devices = environment("UCX_NET_DEVICES");
  void* library = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
  void (*version)(unsigned*, unsigned*, unsigned*) = nullptr;
  if (library != nullptr) Symbols(library).get(version, "ucp_get_version");
  if (version == nullptr) {
    ucx.error = "there is no UCX (libucp.so.0)";
    return ucx;
  }
  unsigned release = 0;
  version(&ucx.major, &ucx.minor, &release);
  ucx.version =
      std::to_string(ucx.major) + "." + std::to_string(ucx.minor) + "." + std::to_string(release);
  // The structures are those of 1.10 and later.
  Uct uct;
  if (ucx.major != 1 || ucx.minor < 10 || !open_uct(&uct)) return ucx;
  std::set<std::string> transports;
  add_components(uct, &transports);
  ucx.transports.assign(transports.begin(), transports.end());
  return ucx;
}

}  // namespace wb::cli::doctor
