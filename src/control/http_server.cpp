#include "control/http_server.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/chunk_encode.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "base/good_guest.h"
#include "control/liveness.h"
#include "control/peer.h"
#include "control/resolve.h"

namespace wb {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;
using tcp = asio::ip::tcp;
using asio::awaitable;
using std::chrono::milliseconds;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr uint32_t kMaxHeader = 16u << 10;
constexpr uint64_t kMaxDrained = 64u << 20;
constexpr milliseconds kAcceptPause{100};

// One thread that runs a context, and can be waited for by a deadline.
class Worker {
 public:
  explicit Worker(asio::io_context* context) : context_(context) {
    const SignalsBlocked blocked;
    thread_ = std::thread([this] {
      context_->run();
      const std::lock_guard lock(mutex_);
      ended_ = true;
      changed_.notify_all();
    });
  }
  ~Worker() { thread_.join(); }
  bool wait(Deadline deadline) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, deadline.when(), [this] { return ended_; });
  }

 private:
  asio::io_context* context_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::thread thread_;
};

// The connections of all servers of the process.
std::atomic<size_t> open_connections{0};

size_t half_of_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return SIZE_MAX;
  return std::max<size_t>(limit.rlim_cur / 2, 1);
}

struct Connection : std::enable_shared_from_this<Connection> {
  explicit Connection(tcp::socket socket) : stream(std::move(socket)), news(stream.get_executor()) {
    ++open_connections;
  }
  ~Connection() { --open_connections; }
  beast::tcp_stream stream;
  beast::flat_buffer buffer;
  asio::steady_timer news;  // of a stream: cancelled when there may be more to send
  bool gone = false;        // of a stream: the client has left
  bool introduced = false;  // the head of an authorised request has come
};
using ConnectionPtr = std::shared_ptr<Connection>;

// g++ 12 miscompiles co_await inside a condition, and temporaries with destructors in a co_await
// expression: awaited values go into a variable of their own, arguments are references to what the
// awaiting frame holds.
class Server final : public HttpServer {
 public:
  Server(HttpServerOptions options, HttpHandler handler)
      : options_(std::move(options)), handler_(std::move(handler)), acceptor_(io_) {}

  ~Server() override {
    stop();
    // Joined before members go: handlers and coroutines refer to them. A handler that never
    // returns holds this up; its captures would dangle otherwise.
    io_worker_.reset();
    handler_worker_.reset();
  }

  Status start(const ResolvedAddress& where) {
    const tcp::endpoint endpoint(asio::ip::make_address(where.ip), where.port);
    error_code failure;
    const auto failed = [&](std::string_view what) {
      return errno_status(failure.value(), std::string(what) + " " + options_.host + ":" +
                                               std::to_string(options_.port));
    };
    acceptor_.open(endpoint.protocol(), failure);
    if (!failure) close_on_exec(acceptor_.native_handle());
    if (failure) return failed("opening a socket for");
    acceptor_.set_option(tcp::acceptor::reuse_address(true), failure);
    if (failure) return failed("setting up");
    acceptor_.bind(endpoint, failure);
    if (failure) return failed("listening on");
    acceptor_.listen(1024, failure);
    if (failure) return failed("listening on");
    const tcp::endpoint bound = acceptor_.local_endpoint(failure);
    if (failure) return failed("asking for the port of");
    const bool v6 = options_.host.find(':') != std::string::npos;
    address_ =
        (v6 ? "[" + options_.host + "]" : options_.host) + ":" + std::to_string(bound.port());

    asio::co_spawn(io_, accept_loop(), asio::detached);
    io_worker_.emplace(&io_);
    if (options_.handler_thread) handler_worker_.emplace(&handlers_);
    return Status();
  }

  std::string address() const override { return address_; }

  void every(milliseconds period, std::function<bool()> task) override {
    asio::post(io_, [this, period, task = std::move(task)]() mutable {
      asio::co_spawn(io_, repeat(period, std::move(task)), asio::detached);
    });
  }

  Status close(Deadline deadline) override {
    stop();
    const bool io_ended = io_worker_->wait(deadline);
    const bool handlers_ended = !handler_worker_ || handler_worker_->wait(deadline);
    if (io_ended && handlers_ended) return Status();
    return Status(Code::kDeadline,
                  "closing the server at " + address_ + ": a handler has not returned in time");
  }

 private:
  // Idempotent. Closes the sockets and ends the threads after what they run now.
  void stop() {
    if (stopping_.exchange(true)) return;
    handlers_.stop();
    asio::post(io_, [this] {
      error_code ignored;
      acceptor_.close(ignored);
      for (const ConnectionPtr& connection : connections_) connection->stream.close();
      io_.stop();
    });
  }

  void wake_streams() {
    for (const ConnectionPtr& connection : streaming_) connection->news.cancel();
  }

  awaitable<void> repeat(milliseconds period, std::function<bool()> task) {
    asio::steady_timer timer(io_);
    for (;;) {
      timer.expires_after(period);
      const auto [failure] = co_await timer.async_wait(kAwait);
      if (failure) co_return;
      if (task()) wake_streams();
    }
  }

  awaitable<void> accept_loop() {
    asio::steady_timer pause(io_);
    for (;;) {
      auto [failure, socket] = co_await acceptor_.async_accept(kAwait);
      if (failure == asio::error::operation_aborted) co_return;
      if (failure) {
        // Out of descriptors, or the client left before it was accepted: both pass.
        pause.expires_after(kAcceptPause);
        co_await pause.async_wait(kAwait);
        continue;
      }
      close_on_exec(socket.native_handle());
      // The socket closes here.
      if (connections_.size() >= options_.max_connections || open_connections >= max_in_process_) {
        continue;
      }
      socket.set_option(tcp::no_delay(true), failure);
      set_liveness(socket.native_handle());
      admit(std::move(socket));
    }
  }

  void admit(tcp::socket socket) {
    try {
      const auto connection = std::make_shared<Connection>(std::move(socket));
      asio::co_spawn(io_, serve(connection), [this, connection](const std::exception_ptr&) {
        // What can be thrown is std::bad_alloc (here or in a handler): it costs its own connection.
        connections_.erase(connection);
        streaming_.erase(connection);
      });
      connections_.insert(connection);
    } catch (const std::bad_alloc&) {
      // The client sees a closed connection and may come again; the others stay.
    }
  }

  awaitable<void> serve(ConnectionPtr connection) {
    for (;;) {
      const bool keep = co_await serve_one(*connection);
      if (!keep) co_return;
    }
  }

  // One request; false when the connection must close.
  awaitable<bool> serve_one(Connection& connection) {
    beast::tcp_stream& stream = connection.stream;
    http::request_parser<http::string_body> parser;
    parser.header_limit(kMaxHeader);
    parser.body_limit(options_.max_body);
    stream.expires_after(connection.introduced
                             ? options_.patience
                             : std::min(options_.introduction, options_.patience));
    auto [failure, head_bytes] =
        co_await http::async_read_header(stream, connection.buffer, parser, kAwait);
    if (failure) {
      if (failure == http::error::body_limit) {
        co_await refuse(connection, 413, "the request is too large");
      } else if (is_malformed(failure)) {
        co_await refuse(connection, 400, "not an HTTP request");
      }
      co_return false;
    }
    if (!authorised(parser.get()[http::field::authorization])) {
      co_await refuse(connection, 401, "the token is missing or wrong");
      co_return false;
    }
    if (!connection.introduced) stream.expires_after(options_.patience);
    connection.introduced = true;
    if (parser.get().method() != http::verb::post) {
      co_await refuse(connection, 405, "only POST is served");
      co_return false;
    }
    const bool may_send = co_await approve_body(connection, parser.get()[http::field::expect]);
    if (!may_send) co_return false;
    auto [body_failure, body_bytes] =
        co_await http::async_read(stream, connection.buffer, parser, kAwait);
    if (body_failure) {
      if (body_failure == http::error::body_limit) {
        co_await refuse(connection, 413, "the request is too large");
      }
      co_return false;
    }
    const bool keep = parser.get().keep_alive();
    const std::string target(parser.get().target());
    HttpAnswer answer = co_await run_handler(target, parser.get().body());
    if (answer.wake_streams) wake_streams();
    if (answer.stream) {
      const ConnectionPtr self = connection.shared_from_this();
      co_await send_stream(self, *answer.stream);
      co_return false;
    }
    const bool sent = co_await send(connection, answer, keep);
    co_return sent;
  }

  static bool is_malformed(const error_code& failure) {
    return failure.category() == http::make_error_code(http::error::end_of_stream).category() &&
           failure != http::error::end_of_stream && failure != http::error::partial_message;
  }

  bool authorised(std::string_view header) const {
    if (options_.token.empty()) return true;
    constexpr std::string_view kScheme = "Bearer ";
    if (header.substr(0, kScheme.size()) != kScheme) return false;
    return token_equal(header.substr(kScheme.size()), options_.token);
  }

  awaitable<bool> approve_body(Connection& connection, std::string_view expect) {
    if (expect != "100-continue") co_return true;
    http::response<http::empty_body> go_on(http::status::continue_, 11);
    const auto [failure, bytes] = co_await http::async_write(connection.stream, go_on, kAwait);
    co_return !failure;
  }

  // The arguments outlive the call: they belong to the frame of serve_one.
  awaitable<HttpAnswer> run_handler(const std::string& target, std::string& body) {
    if (!options_.handler_thread) {
      HttpAnswer answer = handler_(target, std::move(body));
      co_return answer;
    }
    HttpAnswer answer =
        co_await asio::co_spawn(handlers_, on_handler_thread(target, body), asio::use_awaitable);
    co_return answer;
  }

  awaitable<HttpAnswer> on_handler_thread(const std::string& target, std::string& body) {
    HttpAnswer answer;
    answer.status = 503;
    if (!stopping_) answer = handler_(target, std::move(body));
    co_return answer;
  }

  awaitable<bool> send(Connection& connection, const HttpAnswer& answer, bool keep) {
    http::response<http::string_body> response(static_cast<http::status>(answer.status), 11);
    response.set(http::field::content_type, answer.content_type);
    response.keep_alive(keep);
    response.body() = answer.body;
    response.prepare_payload();
    connection.stream.expires_after(options_.patience);
    const auto [failure, bytes] = co_await http::async_write(connection.stream, response, kAwait);
    co_return !failure && keep;
  }

  // Answers before the request was read to its end. What the client still sends is read away for a
  // bounded time: closing over unread bytes would reset the connection, and the client would see
  // the reset instead of the answer.
  awaitable<void> refuse(Connection& connection, int status, std::string_view sentence) {
    HttpAnswer answer;
    answer.status = status;
    answer.body =
        options_.error_body ? options_.error_body(status, sentence) : std::string(sentence);
    co_await send(connection, answer, false);
    error_code ignored;
    connection.stream.socket().shutdown(tcp::socket::shutdown_send, ignored);
    std::string sink(16u << 10, '\0');
    uint64_t drained = 0;
    connection.stream.expires_after(std::min(options_.patience, milliseconds(2000)));
    while (drained < kMaxDrained) {
      const auto [failure, bytes] =
          co_await connection.stream.async_read_some(asio::buffer(sink), kAwait);
      if (failure) break;
      drained += bytes;
    }
  }

  awaitable<void> send_stream(const ConnectionPtr& connection, HttpStream& body) {
    http::response<http::empty_body> head(http::status::ok, 11);
    head.set(http::field::content_type, "application/json");
    head.chunked(true);
    http::response_serializer<http::empty_body> serializer(head);
    connection->stream.expires_after(options_.patience);
    const auto [failure, bytes] =
        co_await http::async_write_header(connection->stream, serializer, kAwait);
    if (failure) co_return;
    streaming_.insert(connection);
    asio::co_spawn(io_, notice_leaving(connection), asio::detached);
    co_await send_chunks(*connection, body);
    streaming_.erase(connection);
    error_code ignored;
    connection->stream.socket().shutdown(tcp::socket::shutdown_both, ignored);
  }

  awaitable<void> send_chunks(Connection& connection, HttpStream& body) {
    bool last = false;
    while (!connection.gone) {
      const std::string piece = last ? std::string() : body.next(&last);
      if (piece.empty() && !last) {
        connection.news.expires_at(asio::steady_timer::time_point::max());
        co_await connection.news.async_wait(kAwait);
        continue;
      }
      connection.stream.expires_after(options_.patience);
      if (!piece.empty()) {
        const auto [failure, bytes] = co_await asio::async_write(
            connection.stream, http::make_chunk(asio::buffer(piece)), kAwait);
        if (failure) co_return;
      }
      if (last) {
        co_await asio::async_write(connection.stream, http::make_chunk_last(), kAwait);
        co_return;
      }
    }
  }

  // The end of the connection shows as readability; a client that sends during its stream breaks
  // the protocol and is treated as gone. Reads the socket itself, for the stream's timer belongs to
  // the writer.
  awaitable<void> notice_leaving(ConnectionPtr connection) {
    char byte = 0;
    co_await connection->stream.socket().async_read_some(asio::buffer(&byte, 1), kAwait);
    connection->gone = true;
    connection->news.cancel();
  }

  const HttpServerOptions options_;
  const HttpHandler handler_;
  const size_t max_in_process_ = half_of_descriptors();
  std::string address_;
  std::atomic<bool> stopping_{false};
  // What waits in handlers_ holds coroutines whose sockets belong to io_: io_ is destroyed last.
  asio::io_context io_{1};
  asio::io_context handlers_{1};
  const asio::executor_work_guard<asio::io_context::executor_type> handler_guard_{
      handlers_.get_executor()};
  std::set<ConnectionPtr> connections_;
  std::set<ConnectionPtr> streaming_;
  tcp::acceptor acceptor_;
  std::optional<Worker> io_worker_;
  std::optional<Worker> handler_worker_;
};

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::listen(HttpServerOptions options,
                                                       HttpHandler handler) {
  // Start-up only; a name service that hangs is no reason to hang with it.
  const Deadline deadline = Deadline::after(std::chrono::seconds(10));
  WB_ASSIGN_OR_RETURN(const auto addresses,
                      resolve(options.host, std::to_string(options.port), deadline));
  try {
    auto server = std::make_unique<Server>(std::move(options), std::move(handler));
    WB_RETURN_IF_ERROR(server->start(addresses.front()));
    return std::unique_ptr<HttpServer>(std::move(server));
  } catch (const std::system_error& failure) {
    return errno_status(failure.code().value(), "starting a server");
  } catch (const boost::system::system_error& failure) {
    return errno_status(failure.code().value(), "starting a server");
  }
}

}  // namespace wb
