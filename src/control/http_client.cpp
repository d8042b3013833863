#include "control/http_client.h"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <cerrno>
#include <optional>
#include <vector>

#include "base/cancel.h"
#include "base/good_guest.h"
#include "control/liveness.h"
#include "control/resolve.h"

namespace wb {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;
using tcp = asio::ip::tcp;
using TlsStream = asio::ssl::stream<tcp::socket>;

constexpr uint32_t kMaxHeader = 16u << 10;
// How long a cancelled call may go on.
constexpr std::chrono::milliseconds kCancelLook{20};

class TlsTrustImpl final : public TlsTrust {
 public:
  TlsTrustImpl() : context(asio::ssl::context::tls_client) {}
  asio::ssl::context context;
};

tcp::socket& socket_of(tcp::socket& stream) { return stream; }
tcp::socket& socket_of(TlsStream& stream) { return stream.next_layer(); }

// Members are ordered so that streams and parsers die before the context that runs their handlers.
template <typename Stream>
class Connection final : public HttpConnection {
 public:
  Connection(const HttpEndpoint& endpoint, std::shared_ptr<TlsTrustImpl> trust)
      : endpoint_(endpoint), trust_(std::move(trust)), stream_(make_stream()) {}

  ~Connection() override {
    // The handlers of a pending read refer to members: let them run out first. They end at once,
    // for a closed socket has no operation that waits.
    close();
    context_.restart();
    context_.run();
  }

  Status connect(const std::vector<ResolvedAddress>& addresses, Deadline deadline) {
    Status last(Code::kUnavailable, "no address");
    for (size_t i = 0; i < addresses.size(); ++i) {
      // An address that swallows packets must not eat the time of those after it.
      const auto rest = static_cast<int64_t>(addresses.size() - i);
      last = connect_one(addresses[i], deadline.capped(deadline.remaining() / rest));
      if (last.ok() || deadline.expired()) break;
    }
    if (!last.ok()) return last;
    if constexpr (std::is_same_v<Stream, TlsStream>) return handshake(deadline);
    return Status();
  }

  Result<HttpReply> call(const HttpCall& call, Deadline deadline) override {
    WB_RETURN_IF_ERROR(send_and_read_head(call, call.max_reply, deadline));
    bool done = false;
    error_code error;
    if (!parser_->is_done()) {
      http::async_read(stream_, buffer_, *parser_, [&](error_code e, size_t) {
        error = e;
        done = true;
      });
      if (!run(done, deadline)) return timed_out("waiting for the rest of the answer");
      if (error) return read_error(error);
    }
    open_ = parser_->get().keep_alive();
    HttpReply reply{static_cast<int>(parser_->get().result_int()),
                    std::move(parser_->get().body())};
    if (!open_) close();
    return reply;
  }

  Result<int> open_stream(const HttpCall& call, Deadline deadline) override {
    WB_RETURN_IF_ERROR(send_and_read_head(call, 0, deadline));
    // The parser reserves memory for a length that the server states.
    if (const auto length = parser_->content_length(); length && *length > call.max_reply) {
      return read_error(http::make_error_code(http::error::body_limit));
    }
    return static_cast<int>(parser_->get().result_int());
  }

  Result<std::string> read_stream(Deadline deadline) override {
    if (stream_error_) return read_error(stream_error_);
    for (;;) {
      if (!reading_) {
        if (parser_->is_done()) return std::string();
        reading_ = true;
        read_done_ = false;
        http::async_read_some(stream_, buffer_, *parser_, [this](error_code e, size_t) {
          stream_error_ = e;
          read_done_ = true;
        });
      }
      // On a timeout the read stays pending: the next call goes on waiting for it.
      if (!run(read_done_, deadline)) {
        if (CancelScope::cancelled()) return error(Code::kCancelled, "the call was cancelled");
        return error(Code::kDeadline, "nothing came from the stream");
      }
      reading_ = false;
      std::string& body = parser_->get().body();
      if (!body.empty()) {
        std::string out;
        out.swap(body);
        return out;
      }
      if (stream_error_) return read_error(stream_error_);
    }
  }

  bool reusable() override {
    if (!open_ || buffer_.size() != 0) return false;
    char byte = 0;
    const ssize_t got =
        ::recv(socket_of(stream_).native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  }

  bool reply_begun() const override { return reply_begun_; }

 private:
  using Request = http::request<http::string_body>;
  using Parser = http::response_parser<http::string_body>;

  Stream make_stream() {
    if constexpr (std::is_same_v<Stream, TlsStream>) {
      return Stream(context_, trust_->context);
    } else {
      return Stream(context_);
    }
  }

  Status error(Code code, std::string_view what) const {
    return Status(code, std::string(what) + " (" + endpoint_.address() + ")")
        .with_peer(endpoint_.address());
  }
  Status timed_out(std::string_view what) {
    abandon();
    if (CancelScope::cancelled()) return error(Code::kCancelled, "the call was cancelled");
    return error(Code::kDeadline, what);
  }
  Status read_error(const error_code& e) {
    close();
    if (e == http::error::body_limit) return error(Code::kBadData, "the answer is too large");
    if (e == http::error::header_limit) {
      return error(Code::kBadData, "the header of the answer is too large");
    }
    const bool malformed =
        e.category() == http::make_error_code(http::error::end_of_stream).category();
    if (malformed && e != http::error::end_of_stream && e != http::error::partial_message) {
      return error(Code::kBadData, "the answer is not HTTP: " + e.message());
    }
    return error(Code::kUnavailable, "the connection ended: " + e.message());
  }

  // Runs handlers until `done`, the deadline or a cancellation. What is ready is run even after the
  // deadline, so a zero deadline asks "has anything come?".
  bool run(const bool& done, Deadline deadline) {
    context_.restart();
    context_.poll();
    while (!done) {
      if (CancelScope::cancelled()) return false;
      const Deadline slice = CancelScope::possible() ? deadline.capped(kCancelLook) : deadline;
      context_.restart();
      if (context_.run_one_until(slice.when()) == 0 && deadline.expired()) return done;
    }
    return true;
  }

  void close() {
    open_ = false;
    error_code ignored;  // closing cannot be refused in a way that matters
    socket_of(stream_).close(ignored);
  }

  // Ends pending operations, whose handlers refer to the stack of the caller.
  void abandon() {
    close();
    context_.restart();
    context_.run();
  }

  Status connect_one(const ResolvedAddress& address, Deadline deadline) {
    tcp::socket& socket = socket_of(stream_);
    close();
    const tcp::endpoint to(asio::ip::make_address(address.ip), address.port);
    bool done = false;
    error_code failure;
    socket.open(to.protocol(), failure);
    if (failure) return error(Code::kUnavailable, "cannot connect: " + failure.message());
    close_on_exec(socket.native_handle());
    socket.async_connect(to, [&](error_code e) {
      failure = e;
      done = true;
    });
    if (!run(done, deadline)) return timed_out("connecting took too long");
    if (failure) {
      close();
      return error(Code::kUnavailable, "cannot connect: " + failure.message())
          .with_errno(failure.value());
    }
    socket.set_option(tcp::no_delay(true), failure);
    set_liveness(socket.native_handle());
    open_ = true;
    return Status();
  }

  Status handshake(Deadline deadline) requires std::is_same_v<Stream, TlsStream> {
    stream_.set_verify_mode(asio::ssl::verify_peer);
    stream_.set_verify_callback(asio::ssl::host_name_verification(endpoint_.host));
    error_code not_an_ip;
    asio::ip::make_address(endpoint_.host, not_an_ip);
    if (not_an_ip &&
        SSL_set_tlsext_host_name(stream_.native_handle(), endpoint_.host.c_str()) != 1) {
      return error(Code::kInvalidArgument, "the host name cannot be sent in a TLS handshake");
    }
    bool done = false;
    error_code failure;
    stream_.async_handshake(asio::ssl::stream_base::client, [&](error_code e) {
      failure = e;
      done = true;
    });
    if (!run(done, deadline)) return timed_out("the TLS handshake took too long");
    if (!failure) return Status();
    const long verdict = SSL_get_verify_result(stream_.native_handle());
    close();
    if (verdict != X509_V_OK) {
      return error(Code::kUnauthenticated, std::string("the server's certificate is refused: ") +
                                               X509_verify_cert_error_string(verdict))
          .with_vendor(verdict);
    }
    return error(Code::kUnavailable, "the TLS handshake failed: " + failure.message());
  }

  Status send_and_read_head(const HttpCall& call, uint64_t max_reply, Deadline deadline) {
    if (!open_) return error(Code::kFailedPrecondition, "the connection is closed");
    reply_begun_ = false;
    Request request(http::verb::post, std::string(call.target), 11);
    request.set(http::field::host, endpoint_.address());
    request.set(http::field::content_type, std::string(call.content_type));
    if (!call.authorization.empty()) {
      request.set(http::field::authorization, std::string(call.authorization));
    }
    request.body() = call.body;
    request.prepare_payload();

    bool done = false;
    error_code write_failure;
    http::async_write(stream_, request, [&](error_code e, size_t) {
      write_failure = e;
      done = true;
    });
    if (!run(done, deadline)) return timed_out("sending the request took too long");

    // A server that refuses a request early (token, size) answers and closes while we still write:
    // the reason is in the answer, so it is read in spite of a failed write.
    parser_.emplace();
    parser_->header_limit(kMaxHeader);
    if (max_reply == 0) {
      parser_->body_limit(boost::none);  // a stream: its reader bounds what it keeps
    } else {
      parser_->body_limit(max_reply);
    }
    done = false;
    error_code failure;
    http::async_read_header(stream_, buffer_, *parser_, [&](error_code e, size_t got) {
      failure = e;
      reply_begun_ = got != 0 || buffer_.size() != 0;
      done = true;
    });
    if (!run(done, deadline)) {
      reply_begun_ = buffer_.size() != 0;
      return timed_out("the server accepted the request and did not answer");
    }
    if (failure) {
      Status status = read_error(failure);
      if (!write_failure) return status;
      return error(status.code(),
                   "the connection ended in the middle of the request: " + write_failure.message());
    }
    if (write_failure) open_ = false;
    return Status();
  }

  const HttpEndpoint endpoint_;
  std::shared_ptr<TlsTrustImpl> trust_;
  asio::io_context context_{1};
  Stream stream_;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  error_code stream_error_;
  bool open_ = false;
  bool reading_ = false;
  bool read_done_ = false;
  bool reply_begun_ = false;
};

}  // namespace

Result<std::shared_ptr<TlsTrust>> TlsTrust::load(const std::string& ca_file) {
  try {
    auto trust = std::make_shared<TlsTrustImpl>();
    error_code failure;
    if (SSL_CTX_set_min_proto_version(trust->context.native_handle(), TLS1_2_VERSION) != 1) {
      return Status(Code::kUnsupported, "this OpenSSL has no TLS 1.2");
    }
    if (ca_file.empty()) {
      trust->context.set_default_verify_paths(failure);
    } else {
      trust->context.load_verify_file(ca_file, failure);
    }
    if (failure) {
      return Status(Code::kInvalidArgument, "no certificates could be read from " +
                                                (ca_file.empty() ? "the system" : ca_file) + ": " +
                                                failure.message());
    }
    return std::shared_ptr<TlsTrust>(std::move(trust));
  } catch (const boost::system::system_error& failure) {
    return Status(Code::kUnsupported, std::string("TLS cannot be used: ") + failure.what());
  }
}

Result<std::unique_ptr<HttpConnection>> HttpConnection::open(const HttpEndpoint& endpoint,
                                                             std::shared_ptr<TlsTrust> trust,
                                                             Deadline deadline) {
  WB_ASSIGN_OR_RETURN(const auto addresses, resolve(endpoint.host, endpoint.port, deadline));
  const auto connect = [&](auto connection) -> Result<std::unique_ptr<HttpConnection>> {
    WB_RETURN_IF_ERROR(connection->connect(addresses, deadline));
    return std::unique_ptr<HttpConnection>(std::move(connection));
  };
  try {
    if (!endpoint.tls) return connect(std::make_unique<Connection<tcp::socket>>(endpoint, nullptr));
    if (trust == nullptr) return Status(Code::kInvalidArgument, "https without certificates");
    return connect(std::make_unique<Connection<TlsStream>>(
        endpoint, std::static_pointer_cast<TlsTrustImpl>(std::move(trust))));
  } catch (const boost::system::system_error& failure) {
    // Making the context or the TLS session: descriptors or memory are exhausted.
    return errno_status(failure.code().value(), "opening a connection");
  }
}

}  // namespace wb
