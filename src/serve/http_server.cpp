#include "serve/http_server.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <csignal>
#include <deque>
#include <mutex>
#include <set>

#include "base/error.h"

namespace satformer::serve {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using Seconds = std::chrono::duration<double>;

constexpr auto watch_interval = std::chrono::milliseconds(40);  // how soon a client's leaving is seen
constexpr double linger_seconds = 2;                            // for a refused client to read its answer

std::chrono::steady_clock::duration ticks(double seconds) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(Seconds(seconds));
}

std::string head_text(HttpCounts& counts, const HttpReply& reply, bool http10, bool keep_alive,
                      std::optional<std::size_t> length) {
  ++counts.responses[static_cast<std::size_t>(std::clamp(reply.status / 100, 0, 5))];
  std::string text =
      concat("HTTP/1.", http10 ? 0 : 1, " ", reply.status, " ",
             std::string(http::obsolete_reason(http::int_to_status(static_cast<unsigned>(reply.status)))),
             "\r\nServer: satformer\r\nContent-Type: ", reply.content_type, "\r\n");
  for (const auto& [name, value] : reply.headers) text += name + ": " + value + "\r\n";
  if (length) {
    text += concat("Content-Length: ", *length, "\r\n");
  } else if (!http10) {
    text += "Transfer-Encoding: chunked\r\n";
  }
  return text + (keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n");
}

std::string chunk(const std::string& text) {
  char size[32];
  std::snprintf(size, sizeof size, "%zx\r\n", text.size());
  return size + text + "\r\n";
}

// What the handlers write and the connection's coroutine sends.
class Exchange : public HttpExchange, public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(asio::io_context& io, HttpCounts& counts, std::uint64_t max_unsent, HttpRequest request, bool head_only,
           bool http10, bool keep_alive)
      : io_(io),
        counts_(counts),
        max_unsent_(max_unsent),
        timer_(io),
        request_(std::move(request)),
        head_only_(head_only),
        http10_(http10),
        keep_alive_(keep_alive) {}

  HttpRequest& request() override { return request_; }
  void reply(HttpReply reply) override {
    put([&] {
      if (began_) return;
      began_ = ended_ = true;
      out_ += head_text(counts_, reply, http10_, keep_alive_, reply.body.size());
      if (!head_only_) out_ += reply.body;
    });
  }
  void begin_stream(HttpReply head) override {
    put([&] {
      if (began_) return;
      began_ = true;
      chunked_ = !http10_;
      if (!chunked_) keep_alive_ = false;
      out_ += head_text(counts_, head, http10_, keep_alive_, std::nullopt);
      append(head.body);
    });
  }
  // Also while an earlier part waits for its reader: what is unsent is bounded however fast it is written.
  void write(std::string text) override {
    put([&] { append(text); });
    if (unsent() > max_unsent_) mark_gone();
  }
  void end_stream() override {
    put([&] {
      if (ended_) return;
      ended_ = true;
      if (chunked_) out_ += "0\r\n\r\n";
    });
  }
  void on_gone(std::function<void()> callback) override {
    {
      const std::lock_guard lock(mutex_);
      if (!gone_) {
        if (!ended_) callback_ = std::move(callback);
        return;
      }
    }
    callback();
  }

  // The rest is the connection's.
  void mark_gone() {
    std::function<void()> callback;
    {
      const std::lock_guard lock(mutex_);
      gone_ = true;
      out_.clear();
      callback.swap(callback_);
    }
    if (callback) callback();
  }
  // What is to be sent; true: nothing will follow.
  bool take(std::string& text) {
    std::function<void()> unused;
    const std::lock_guard lock(mutex_);
    text.swap(out_);
    out_.clear();
    if (ended_) unused.swap(callback_);
    return ended_;
  }
  std::size_t unsent() const {
    const std::lock_guard lock(mutex_);
    return out_.size();
  }
  bool gone() const {
    const std::lock_guard lock(mutex_);
    return gone_;
  }
  bool keep_alive() const {
    const std::lock_guard lock(mutex_);
    return keep_alive_;
  }
  bool ready() const {
    const std::lock_guard lock(mutex_);
    return !out_.empty() || ended_ || gone_;
  }
  // Until there is something to send, or for a watch interval.
  asio::awaitable<void> wait() {
    timer_.expires_after(watch_interval);
    if (ready()) co_return;
    error_code ignored;
    co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }

 private:
  void append(const std::string& text) {
    if (text.empty() || ended_ || head_only_) return;
    out_ += chunked_ ? chunk(text) : text;
  }
  template <class Body>
  void put(const Body& body) {
    {
      const std::lock_guard lock(mutex_);
      if (gone_) return;
      body();
    }
    asio::post(io_, [self = shared_from_this()] { self->timer_.cancel(); });
  }

  asio::io_context& io_;
  HttpCounts& counts_;
  const std::uint64_t max_unsent_;
  asio::steady_timer timer_;
  HttpRequest request_;
  const bool head_only_, http10_;
  mutable std::mutex mutex_;  // of what follows
  bool keep_alive_, began_ = false, ended_ = false, gone_ = false, chunked_ = false;
  std::string out_;
  std::function<void()> callback_;
};

// The peer has closed its side, or the connection is broken.
bool peer_gone(int descriptor) {
  pollfd state{descriptor, POLLRDHUP, 0};
  return ::poll(&state, 1, 0) > 0 && (state.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0;
}

int status_of(const error_code& error) {
  if (error == http::error::header_limit || error == http::error::buffer_overflow) return 431;
  if (error == http::error::body_limit) return 413;
  if (error == beast::error::timeout) return 408;
  return 400;
}

}  // namespace

struct HttpServer::Impl {
  struct Connection {
    explicit Connection(tcp::socket socket) : stream(std::move(socket)) {}
    beast::tcp_stream stream;
    bool idle = true;     // waits for a request
    bool served = false;  // had one
  };

  Impl(const HttpOptions& o, HttpHandlers h)
      : options(o), handlers(std::move(h)), acceptor(io), signals(io, SIGTERM, SIGINT), drain_timer(io) {}

  asio::awaitable<void> accept();
  asio::awaitable<void> serve(std::shared_ptr<Connection> connection);
  asio::awaitable<bool> exchange(Connection& connection, beast::flat_buffer& buffer);
  asio::awaitable<void> answer_error(Connection& connection, HttpReply reply, bool head_only);
  asio::awaitable<bool> send(Connection& connection, const std::string& text);
  void wait_signal();
  void drain();
  void break_off();

  const HttpOptions options;
  const HttpHandlers handlers;
  HttpCounts counts;
  asio::io_context io{1};
  tcp::acceptor acceptor;
  asio::signal_set signals;
  asio::steady_timer drain_timer;
  std::set<std::shared_ptr<Connection>> connections;
  bool draining = false, broken = false;
  int signal = 0;
};

asio::awaitable<void> HttpServer::Impl::accept() {
  while (!draining) {
    error_code error;
    tcp::socket socket(io);
    co_await acceptor.async_accept(socket, asio::redirect_error(asio::use_awaitable, error));
    if (draining) co_return;
    if (error) {
      // Out of descriptors, most likely: those in use come back.
      asio::steady_timer pause(io, std::chrono::milliseconds(50));
      co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
      continue;
    }
    ++counts.accepted;
    socket.set_option(tcp::no_delay(true), error);
    // What a slow reader leaves unread waits here, where it is counted, rather than in the system.
    socket.set_option(asio::socket_base::send_buffer_size(128 << 10), error);
    if (std::ssize(connections) >= options.max_connections) {
      ++counts.refused;
      const std::string text = [&] {
        HttpReply reply = handlers.error(503, "too many connections");
        return head_text(counts, reply, false, false, reply.body.size()) + reply.body;
      }();
      socket.non_blocking(true, error);
      socket.write_some(asio::buffer(text), error);
      continue;
    }
    const auto connection = std::make_shared<Connection>(std::move(socket));
    connections.insert(connection);
    counts.connections = std::ssize(connections);
    asio::co_spawn(io, serve(connection), asio::detached);
  }
}

asio::awaitable<void> HttpServer::Impl::serve(std::shared_ptr<Connection> connection) {
  try {
    beast::flat_buffer buffer(options.max_head_bytes + (64 << 10));
    while (!draining && co_await exchange(*connection, buffer)) {
      connection->idle = true;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "satformer: connection: %s\n", error.what());
  }
  error_code ignored;
  connection->stream.socket().shutdown(tcp::socket::shutdown_both, ignored);
  connection->stream.socket().close(ignored);
  connections.erase(connection);
  counts.connections = std::ssize(connections);
}

asio::awaitable<bool> HttpServer::Impl::send(Connection& connection, const std::string& text) {
  error_code error;
  connection.stream.expires_after(ticks(options.write_seconds));
  co_await asio::async_write(connection.stream, asio::buffer(text), asio::redirect_error(asio::use_awaitable, error));
  if (error == beast::error::timeout) ++counts.timeouts;
  co_return !error;
}

// The answer, and then what the client still sends is read for a moment: closing at once would reset the connection
// under the answer.
asio::awaitable<void> HttpServer::Impl::answer_error(Connection& connection, HttpReply reply, bool head_only) {
  std::string text = head_text(counts, reply, false, false, reply.body.size());
  if (!head_only) text += reply.body;
  error_code error;
  connection.stream.expires_after(ticks(linger_seconds));
  co_await asio::async_write(connection.stream, asio::buffer(text), asio::redirect_error(asio::use_awaitable, error));
  if (error) co_return;
  connection.stream.socket().shutdown(tcp::socket::shutdown_send, error);
  std::string sink(64 << 10, '\0');
  while (!error) {
    co_await connection.stream.async_read_some(asio::buffer(sink), asio::redirect_error(asio::use_awaitable, error));
  }
}

// One request and its answer. False: the connection is done with.
asio::awaitable<bool> HttpServer::Impl::exchange(Connection& connection, beast::flat_buffer& buffer) {
  beast::tcp_stream& stream = connection.stream;
  http::request_parser<http::string_body> parser;
  parser.header_limit(static_cast<std::uint32_t>(options.max_head_bytes));
  parser.body_limit(options.max_body_bytes);
  error_code error;
  stream.expires_after(ticks(connection.served ? options.idle_seconds : options.head_seconds));
  if (connection.served && buffer.size() == 0) {
    const std::size_t size =
        co_await stream.async_read_some(buffer.prepare(4096), asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return false;
    buffer.commit(size);
  }
  if (connection.served) stream.expires_after(ticks(options.head_seconds));
  connection.served = true;
  co_await http::async_read_header(stream, buffer, parser, asio::redirect_error(asio::use_awaitable, error));
  if (error == http::error::end_of_stream || error == asio::error::operation_aborted) co_return false;
  if (error == beast::error::timeout && !parser.got_some()) co_return false;  // a connection that sends nothing
  connection.idle = false;
  const auto refuse = [&](int status, std::string message) {
    if (status == 408)
      ++counts.timeouts;
    else
      ++counts.bad_requests;
    return handlers.error(status, message);
  };
  const auto readable = [](const error_code& e) {
    return e == asio::error::connection_reset || e == asio::error::broken_pipe || e == asio::error::eof ||
           e == http::error::partial_message;
  };
  if (error) {
    if (readable(error)) co_return false;
    const int status = status_of(error);
    const std::string message =
        status == 431   ? concat("the request's head has more than ", options.max_head_bytes, " bytes")
        : status == 413 ? concat("the request's body has more than ", options.max_body_bytes, " bytes")
        : status == 408 ? concat("the request's head did not come within ", options.head_seconds, " s")
                        : concat("not an HTTP request: ", error.message());
    co_await answer_error(connection, refuse(status, message), false);
    co_return false;
  }
  const auto& head = parser.get();
  const bool http10 = head.version() < 11, head_only = head.method() == http::verb::head;
  HttpRequest request;
  request.method = head_only ? "GET" : std::string(head.method_string());
  const std::string target(head.target());
  request.path = target.substr(0, target.find_first_of("?#"));
  request.content_type = std::string(head[http::field::content_type]);
  request.authorization = std::string(head[http::field::authorization]);
  if (std::optional<HttpReply> refusal = handlers.admit(request)) {
    if (parser.is_done() || (!parser.chunked() && parser.content_length_remaining().value_or(0) == 0)) {
      // Nothing more to read: the connection may live on.
      const bool keep_alive = parser.keep_alive() && !draining;
      std::string text = head_text(counts, *refusal, http10, keep_alive, refusal->body.size());
      if (!head_only) text += refusal->body;
      co_return co_await send(connection, text) && keep_alive;
    }
    co_await answer_error(connection, std::move(*refusal), head_only);
    co_return false;
  }
  if (beast::iequals(head[http::field::expect], "100-continue")) {
    if (!co_await send(connection, "HTTP/1.1 100 Continue\r\n\r\n")) co_return false;
  }
  stream.expires_after(ticks(options.body_seconds));
  co_await http::async_read(stream, buffer, parser, asio::redirect_error(asio::use_awaitable, error));
  if (error) {
    if (readable(error)) co_return false;
    const int status = status_of(error);
    const std::string message =
        status == 413   ? concat("the request's body has more than ", options.max_body_bytes, " bytes")
        : status == 408 ? concat("the request's body did not come within ", options.body_seconds, " s")
                        : concat("not an HTTP request: ", error.message());
    co_await answer_error(connection, refuse(status, message), false);
    co_return false;
  }
  const bool keep_alive = parser.keep_alive();
  request.body = std::move(parser.get().body());
  const auto current = std::make_shared<Exchange>(io, counts, options.max_unsent_bytes, std::move(request), head_only,
                                                  http10, keep_alive && !draining);
  stream.expires_never();
  handlers.handle(current);
  for (;;) {
    std::string text;
    const bool last = current->take(text);
    if (!text.empty() && !co_await send(connection, text)) break;
    if (last) co_return current->keep_alive() && !draining;
    if (current->gone() || broken || peer_gone(stream.socket().native_handle())) break;
    co_await current->wait();
  }
  ++counts.clients_gone;
  current->mark_gone();
  co_return false;
}

void HttpServer::Impl::wait_signal() {
  signals.async_wait([this](const error_code& error, int number) {
    if (error) return;
    if (draining) {
      break_off();
    } else {
      signal = number;
      wait_signal();  // before drain(), which ends the waiting when nothing is left
      drain();
    }
  });
}

void HttpServer::Impl::drain() {
  draining = true;
  error_code ignored;
  acceptor.close(ignored);
  for (const auto& connection : connections) {
    if (connection->idle) connection->stream.cancel();
  }
  drain_timer.expires_after(ticks(options.drain_seconds));
  drain_timer.async_wait([this](const error_code& error) {
    if (!error) break_off();
  });
  // Its own timers and signals keep the context running until the last connection is gone.
  asio::co_spawn(
      io,
      [this]() -> asio::awaitable<void> {
        asio::steady_timer pause(io);
        error_code error;
        while (!connections.empty()) {
          pause.expires_after(std::chrono::milliseconds(10));
          co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
        }
        drain_timer.cancel();
        signals.cancel(error);
      },
      asio::detached);
}

void HttpServer::Impl::break_off() {
  for (const auto& connection : connections) {
    if (!connection->idle) broken = true;
    connection->stream.cancel();
  }
}

HttpServer::HttpServer(const HttpOptions& options, HttpHandlers handlers)
    : impl_(std::make_unique<Impl>(options, std::move(handlers))) {
  error_code error;
  const asio::ip::address address =
      asio::ip::make_address(options.host == "localhost" ? "127.0.0.1" : options.host, error);
  if (error)
    fail(ExitCode::usage, "host '", options.host, "' is not an IP address (127.0.0.1, 0.0.0.0, ::1) or localhost");
  // Each connection is a descriptor.
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  const tcp::endpoint endpoint(address, options.port);
  const auto check = [&](const char* action) {
    if (error) fail(ExitCode::system, "cannot ", action, " ", options.host, ":", options.port, ": ", error.message());
  };
  impl_->acceptor.open(endpoint.protocol(), error);
  check("open a socket for");
  impl_->acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  impl_->acceptor.bind(endpoint, error);
  check("bind to");
  impl_->acceptor.listen(1024, error);
  check("listen on");
}

HttpServer::~HttpServer() = default;

int HttpServer::run() {
  impl_->wait_signal();
  asio::co_spawn(impl_->io, impl_->accept(), asio::detached);
  impl_->io.run();
  return impl_->signal;
}

void HttpServer::stop() {
  asio::post(impl_->io, [this] {
    if (!impl_->draining) impl_->drain();
    impl_->break_off();
  });
}

bool HttpServer::broke_off() const { return impl_->broken; }
std::uint16_t HttpServer::port() const { return impl_->acceptor.local_endpoint().port(); }
const HttpCounts& HttpServer::counts() const { return impl_->counts; }

}  // namespace satformer::serve
