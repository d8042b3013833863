#include "transport/fake/domain.h"

#include "transport/verbs/domain.h"

namespace wb::fake {

Result<std::unique_ptr<Domain>> make_domain(const Fabric& fabric, size_t host,
                                            const DomainOptions& options) {
  return verbs::VerbsDomain::make_over(fabric.verbs(host), TransportKind::kFake, fabric.id(),
                                       options);
}

Result<std::unique_ptr<Domain>> make_domain(const DomainOptions& options) {
  // Never destroyed: domains may outlive any owner that it could have.
  static Fabric* const fabric = [] {
    auto* made = new Fabric({.engine = Engine::kThread, .chunk = 64u << 10});
    made->add_host({connectx(7, "fake0", "10.0.0.1"), connectx(7, "fake1", "10.0.1.1")});
    return made;
  }();
  return make_domain(*fabric, 0, options);
}

}  // namespace wb::fake
