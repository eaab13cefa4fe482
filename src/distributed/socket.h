// TCP connections between the processes of a run.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace satformer {

using Deadline = std::chrono::steady_clock::time_point;
Deadline after_seconds(double seconds);

// A connection; closed when it goes. Move-only.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();

  int descriptor() const { return descriptor_; }
  bool open() const { return descriptor_ >= 0; }
  void close();

  // Whole messages: a length and its bytes. Error(system) on a closed connection or after the deadline; `peer` is
  // whom the message names.
  void send(const std::string& message, Deadline deadline, const std::string& peer) const;
  std::string receive(Deadline deadline, const std::string& peer) const;

 private:
  int descriptor_ = -1;
};

// Waits for connections on a port that the system chooses, at all addresses of this machine.
class Listener {
 public:
  Listener();
  std::uint16_t port() const { return port_; }
  Socket accept(Deadline deadline, const std::string& whom) const;

 private:
  Socket socket_;
  std::uint16_t port_ = 0;
};

// Where a process can be reached: its machine's name, IPv4 addresses, a port and a word that strangers do not know.
struct Endpoint {
  std::string host;
  std::vector<std::string> addresses;
  std::uint16_t port = 0;
  std::string token;

  std::string to_text() const;
  static Endpoint from_text(const std::string& text);  // Error(system) if it is none
};
Endpoint endpoint_of(const Listener& listener);

// Connects to the first address that answers. Error(system) names the process, `peer`.
Socket connect_to(const Endpoint& endpoint, Deadline deadline, const std::string& peer);

// Sends to one and receives from another connection at the same time. `check` is called while it waits, and may
// throw.
void exchange(const Socket& to, std::span<const std::byte> sent, const Socket& from, std::span<std::byte> received,
              const std::function<void()>& check);

}  // namespace satformer
