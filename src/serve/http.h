// HTTP as the rest of the server sees it: a request that was read whole, and an exchange that answers it. Neither
// sockets nor a library's types appear here.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace satformer::serve {

struct HttpRequest {
  std::string method;  // "GET"; HEAD comes as GET, and its body is left out on the way back
  std::string path;    // without the query
  std::string content_type, authorization;
  std::string body;
};

struct HttpReply {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers = {};  // more of them
};

// One request and its answer. Safe to use from any thread; what comes after the client has gone is dropped.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;
  virtual HttpRequest& request() = 0;
  // The whole answer, once; or a stream: begin_stream (its body is the first part), any number of writes, end_stream.
  virtual void reply(HttpReply reply) = 0;
  virtual void begin_stream(HttpReply head) = 0;
  virtual void write(std::string text) = 0;
  virtual void end_stream() = 0;
  // Called at most once, on the server's thread, when the client leaves (or reads too slowly) before the answer has
  // ended; at once if it has left already.
  virtual void on_gone(std::function<void()> callback) = 0;
};

}  // namespace satformer::serve
