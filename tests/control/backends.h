// The stores that the shared tests run against: the embedded one and a real etcd, each with and
// without credentials.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "control/http_client.h"
#include "control/store_client.h"
#include "control/store_server.h"

namespace wb::test {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Long enough for a loaded machine: a test that waits for it fails.
inline Deadline soon() { return Deadline::after(seconds(30)); }

enum class Backend { kEmbedded, kEmbeddedToken, kEtcd, kEtcdAuth };
std::string backend_name(const testing::TestParamInfo<Backend>& info);

// An etcd of this process on free ports, with its data in a fresh directory.
class EtcdProcess {
 public:
  static bool installed();
  // `auth`: user root with password "secret"; null when it does not come up.
  static std::unique_ptr<EtcdProcess> start(bool auth);
  // https with a certificate for 127.0.0.1 that signs itself (made by the openssl command).
  static std::unique_ptr<EtcdProcess> start_tls();
  ~EtcdProcess();
  const std::string& url() const { return url_; }
  std::string ca_file() const { return directory_ + "/cert.pem"; }

 private:
  EtcdProcess() = default;
  bool make_directory();
  bool spawn(const std::string& scheme, const std::vector<std::string>& more);
  pid_t pid_ = -1;
  std::string url_;
  std::string directory_;
};

// One running store and how to reach it.
class StoreUnderTest {
 public:
  // Skips the calling test (by GTEST_SKIP in its fixture) when null and !installed().
  static std::unique_ptr<StoreUnderTest> start(Backend backend);
  const StoreOptions& options() const { return options_; }
  std::shared_ptr<StoreClient> client() const;
  // POSTs JSON that StoreClient has no call for; the answer's body.
  HttpReply post(const std::string& target, const std::string& body) const;
  void stop();

 private:
  StoreOptions options_;
  std::unique_ptr<StoreServer> embedded_;
  std::unique_ptr<EtcdProcess> etcd_;
};

// A free TCP port of 127.0.0.1 at the time of the call.
uint16_t free_port();

class StoreFixture : public testing::TestWithParam<Backend> {
 protected:
  void SetUp() override;
  std::unique_ptr<StoreUnderTest> store_;
};

}  // namespace wb::test
