#include "backends.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <thread>
#include <vector>

#include "control/wire.h"

extern char** environ;

namespace wb::test {
namespace {

constexpr const char* kEtcd = "/usr/bin/etcd";

HttpReply post_to(const std::string& url, const std::string& target, const std::string& body,
                  const std::string& authorization) {
  const auto endpoint = parse_http_url(url);
  if (!endpoint.ok()) return {};
  auto connection = HttpConnection::open(*endpoint, nullptr, soon());
  if (!connection.ok()) return {};
  HttpCall call;
  call.target = target;
  call.body = body;
  call.authorization = authorization;
  auto reply = (*connection)->call(call, soon());
  return reply.ok() ? *reply : HttpReply{};
}

// Starts a program with its output in a file.
bool run(std::vector<std::string> words, const std::string& log, pid_t* pid) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  const int failure = ::posix_spawn(pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return failure == 0;
}

bool enable_auth(const std::string& url) {
  const std::vector<std::pair<std::string, std::string>> steps = {
      {"/v3/auth/user/add", R"({"name":"root","password":"secret"})"},
      {"/v3/auth/role/add", R"({"name":"root"})"},
      {"/v3/auth/user/grant", R"({"user":"root","role":"root"})"},
      {"/v3/auth/enable", "{}"}};
  for (const auto& [target, body] : steps) {
    if (post_to(url, target, body, "").status != 200) return false;
  }
  return true;
}

}  // namespace

std::string backend_name(const testing::TestParamInfo<Backend>& info) {
  switch (info.param) {
    case Backend::kEmbedded:
      return "embedded";
    case Backend::kEmbeddedToken:
      return "embedded_token";
    case Backend::kEtcd:
      return "etcd";
    case Backend::kEtcdAuth:
      return "etcd_auth";
  }
  return "unknown";
}

uint16_t free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  ::close(fd);
  return ntohs(address.sin_port);
}

bool EtcdProcess::installed() { return ::access(kEtcd, X_OK) == 0; }

bool EtcdProcess::make_directory() {
  std::string pattern = (std::filesystem::temp_directory_path() / "wb-etcd-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) return false;
  directory_ = pattern;
  return true;
}

bool EtcdProcess::spawn(const std::string& scheme, const std::vector<std::string>& more) {
  url_ = scheme + "://127.0.0.1:" + std::to_string(free_port());
  const std::string peer = "http://127.0.0.1:" + std::to_string(free_port());
  std::vector<std::string> words = {kEtcd,
                                    "--data-dir",
                                    directory_ + "/data",
                                    "--listen-client-urls",
                                    url_,
                                    "--advertise-client-urls",
                                    url_,
                                    "--listen-peer-urls",
                                    peer,
                                    "--initial-advertise-peer-urls",
                                    peer,
                                    "--initial-cluster",
                                    "default=" + peer,
                                    "--log-level",
                                    "fatal",
                                    "--unsafe-no-fsync"};
  words.insert(words.end(), more.begin(), more.end());
  return run(words, directory_ + "/log", &pid_);
}

std::unique_ptr<EtcdProcess> EtcdProcess::start(bool auth) {
  std::unique_ptr<EtcdProcess> etcd(new EtcdProcess);
  if (!etcd->make_directory() || !etcd->spawn("http", {})) return nullptr;
  const Deadline deadline = soon();
  while (post_to(etcd->url_, "/v3/kv/range", R"({"key":"YQ=="})", "").status != 200) {
    if (deadline.expired()) return nullptr;
    std::this_thread::sleep_for(milliseconds(20));
  }
  if (auth && !enable_auth(etcd->url_)) return nullptr;
  return etcd;
}

std::unique_ptr<EtcdProcess> EtcdProcess::start_tls() {
  std::unique_ptr<EtcdProcess> etcd(new EtcdProcess);
  if (!etcd->make_directory()) return nullptr;
  const std::string key = etcd->directory_ + "/key.pem";
  pid_t pid = -1;
  int status = 1;
  if (!run({"/usr/bin/openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
            "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=test", "-addext",
            "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", etcd->ca_file()},
           etcd->directory_ + "/openssl-log", &pid) ||
      ::waitpid(pid, &status, 0) != pid || status != 0 ||
      !etcd->spawn("https", {"--cert-file", etcd->ca_file(), "--key-file", key})) {
    return nullptr;
  }
  StoreOptions options;
  options.endpoints = {etcd->url_};
  options.ca_file = etcd->ca_file();
  const Deadline deadline = soon();
  while (!StoreClient::connect(options, deadline).ok()) {
    if (deadline.expired()) return nullptr;
    std::this_thread::sleep_for(milliseconds(20));
  }
  return etcd;
}

EtcdProcess::~EtcdProcess() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  std::error_code ignored;
  if (!directory_.empty()) std::filesystem::remove_all(directory_, ignored);
}

std::unique_ptr<StoreUnderTest> StoreUnderTest::start(Backend backend) {
  auto store = std::make_unique<StoreUnderTest>();
  if (backend == Backend::kEtcd || backend == Backend::kEtcdAuth) {
    const bool auth = backend == Backend::kEtcdAuth;
    store->etcd_ = EtcdProcess::start(auth);
    if (store->etcd_ == nullptr) return nullptr;
    store->options_.endpoints = {store->etcd_->url()};
    if (auth) {
      store->options_.user = "root";
      store->options_.password = "secret";
    } else {
      // A job always has a token; etcd refuses every request that carries one it has not issued.
      store->options_.token = "job-token";
    }
    return store;
  }
  StoreServerOptions options;
  if (backend == Backend::kEmbeddedToken) options.token = "job-token";
  auto server = StoreServer::listen(options);
  if (!server.ok()) return nullptr;
  store->embedded_ = std::move(*server);
  store->options_.endpoints = {store->embedded_->endpoint()};
  store->options_.token = "job-token";
  return store;
}

std::shared_ptr<StoreClient> StoreUnderTest::client() const {
  auto client = StoreClient::connect(options_, soon());
  EXPECT_TRUE(client.ok()) << client.status().to_string();
  return client.ok() ? std::shared_ptr<StoreClient>(std::move(*client)) : nullptr;
}

HttpReply StoreUnderTest::post(const std::string& target, const std::string& body) const {
  std::string authorization = embedded_ ? "Bearer " + options_.token : "";
  if (!options_.user.empty()) {
    const HttpReply login = post_to(options_.endpoints.front(), "/v3/auth/authenticate",
                                    R"({"name":"root","password":"secret"})", "");
    const auto json = wire::parse_object(login.body);
    EXPECT_TRUE(json.ok());
    if (json.ok()) authorization = *wire::get_text(*json, "token");
  }
  return post_to(options_.endpoints.front(), target, body, authorization);
}

void StoreUnderTest::stop() {
  embedded_.reset();
  etcd_.reset();
}

void StoreFixture::SetUp() {
  const bool etcd = GetParam() == Backend::kEtcd || GetParam() == Backend::kEtcdAuth;
  if (etcd && !EtcdProcess::installed()) GTEST_SKIP() << "etcd is not installed (/usr/bin/etcd)";
  store_ = StoreUnderTest::start(GetParam());
  ASSERT_NE(store_, nullptr) << "the store did not come up";
}

}  // namespace wb::test
