// An HTTP/1.1 server: one thread, a coroutine for each connection. Every read and write has an absolute deadline, and
// heads, bodies, connections and unsent output have limits.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "serve/http.h"

namespace satformer::serve {

struct HttpOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8000;  // 0: any free one
  std::int64_t max_connections = 1024;
  std::uint64_t max_head_bytes = 16 << 10, max_body_bytes = 8 << 20;
  std::uint64_t max_unsent_bytes = 4 << 20;  // of a stream whose client reads slowly; with more it is closed
  double head_seconds = 10;                  // for a whole head, from its first byte or the connection's start
  double idle_seconds = 60;                  // between an answer and the next request
  double body_seconds = 20;                  // for a whole body
  double write_seconds = 20;                 // for an answer, or one write of a stream
  double drain_seconds = 30;                 // for running requests after the first signal
};

struct HttpHandlers {
  // Asked when the head has come: an answer refuses the request before its body is read.
  std::function<std::optional<HttpReply>(const HttpRequest& head)> admit;
  // Called on the server's thread with the whole request; must not block.
  std::function<void(const std::shared_ptr<HttpExchange>& exchange)> handle;
  // The answer to what cannot be read: 400, 408, 413, 431, 503.
  std::function<HttpReply(int status, const std::string& message)> error;
};

struct HttpCounts {
  std::atomic<std::int64_t> connections{0}, accepted{0}, refused{0}, timeouts{0}, bad_requests{0}, clients_gone{0};
  std::array<std::atomic<std::int64_t>, 6> responses = {};  // by the first digit of the status
};

class HttpServer {
 public:
  // Binds and listens: Error(system) naming the address and why not. Error(usage) for a host that is no address.
  HttpServer(const HttpOptions& options, HttpHandlers handlers);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Serves until SIGTERM or SIGINT, or stop(). The first one stops accepting and lets running requests end, a second
  // one (or drain_seconds) breaks them off. Returns the signal (0: stop()).
  int run();
  void stop();             // from any thread: as the second signal
  bool broke_off() const;  // requests were cut off at the end
  std::uint16_t port() const;
  const HttpCounts& counts() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace satformer::serve
