#include "distributed/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "base/error.h"
#include "base/json.h"

namespace satformer {
namespace {

constexpr std::uint32_t largest_message = 1u << 30;

int milliseconds_left(Deadline deadline) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1000));
}

bool passed(Deadline deadline) { return std::chrono::steady_clock::now() >= deadline; }

void make_nonblocking(int descriptor) {
  fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
  const int on = 1;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

[[noreturn]] void closed(const std::string& peer) { fail(ExitCode::system, peer, " closed its connection"); }

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

void send_bytes(int descriptor, const char* data, std::size_t size, Deadline deadline, const std::string& peer) {
  while (size > 0) {
    const ssize_t sent = ::send(descriptor, data, size, MSG_NOSIGNAL);
    if (sent > 0) {
      data += sent;
      size -= static_cast<std::size_t>(sent);
      continue;
    }
    if (sent < 0 && !would_block()) closed(peer);
    if (passed(deadline)) fail(ExitCode::system, peer, " takes no messages");
    pollfd entry{descriptor, POLLOUT, 0};
    poll(&entry, 1, milliseconds_left(deadline));
  }
}

void receive_bytes(int descriptor, char* data, std::size_t size, Deadline deadline, const std::string& peer) {
  while (size > 0) {
    const ssize_t got = ::recv(descriptor, data, size, 0);
    if (got > 0) {
      data += got;
      size -= static_cast<std::size_t>(got);
      continue;
    }
    if (got == 0 || !would_block()) closed(peer);
    if (passed(deadline)) fail(ExitCode::system, peer, " did not answer in time");
    pollfd entry{descriptor, POLLIN, 0};
    poll(&entry, 1, milliseconds_left(deadline));
  }
}

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> list;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return list;
  for (const ifaddrs* entry = all; entry; entry = entry->ifa_next) {
    if (!entry->ifa_addr || entry->ifa_addr->sa_family != AF_INET) continue;
    if ((entry->ifa_flags & IFF_UP) == 0 || (entry->ifa_flags & IFF_LOOPBACK) != 0) continue;
    char text[INET_ADDRSTRLEN] = {};
    const auto* address = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
    if (inet_ntop(AF_INET, &address->sin_addr, text, sizeof text)) list.emplace_back(text);
  }
  freeifaddrs(all);
  return list;
}

// A connection, or none if this address does not answer within two seconds.
Socket try_connect(const std::string& address, std::uint16_t port, Deadline deadline) {
  sockaddr_in target{};
  target.sin_family = AF_INET;
  target.sin_port = htons(port);
  if (inet_pton(AF_INET, address.c_str(), &target.sin_addr) != 1) return {};
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.open()) return {};
  make_nonblocking(socket.descriptor());
  if (connect(socket.descriptor(), reinterpret_cast<const sockaddr*>(&target), sizeof target) == 0) return socket;
  if (errno != EINPROGRESS) return {};
  const Deadline until = std::min(deadline, after_seconds(2));
  while (!passed(until)) {
    pollfd entry{socket.descriptor(), POLLOUT, 0};
    if (poll(&entry, 1, milliseconds_left(until)) <= 0) continue;
    int error = 0;
    socklen_t length = sizeof error;
    getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &error, &length);
    return error == 0 ? std::move(socket) : Socket();
  }
  return {};
}

}  // namespace

Deadline after_seconds(double seconds) {
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
}

Socket::Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    close();
    descriptor_ = std::exchange(other.descriptor_, -1);
  }
  return *this;
}

Socket::~Socket() { close(); }

void Socket::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

void Socket::send(const std::string& message, Deadline deadline, const std::string& peer) const {
  const std::uint32_t length = htonl(static_cast<std::uint32_t>(message.size()));
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
  bytes += message;
  send_bytes(descriptor_, bytes.data(), bytes.size(), deadline, peer);
}

std::string Socket::receive(Deadline deadline, const std::string& peer) const {
  std::uint32_t length = 0;
  receive_bytes(descriptor_, reinterpret_cast<char*>(&length), sizeof length, deadline, peer);
  length = ntohl(length);
  if (length > largest_message) fail(ExitCode::system, peer, " sent no message of satformer");
  std::string message(length, '\0');
  receive_bytes(descriptor_, message.data(), message.size(), deadline, peer);
  return message;
}

Listener::Listener() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (!socket_.open() || bind(socket_.descriptor(), generic, length) != 0 ||
      listen(socket_.descriptor(), 1024) != 0 || getsockname(socket_.descriptor(), generic, &length) != 0) {
    fail_errno("listen for the other ranks", "a TCP port", errno);
  }
  make_nonblocking(socket_.descriptor());
  port_ = ntohs(address.sin_port);
}

Socket Listener::accept(Deadline deadline, const std::string& whom) const {
  for (;;) {
    Socket socket(accept4(socket_.descriptor(), nullptr, nullptr, SOCK_CLOEXEC));
    if (socket.open()) {
      make_nonblocking(socket.descriptor());
      return socket;
    }
    if (!would_block() && errno != ECONNABORTED) fail_errno("accept a connection from", whom, errno);
    if (passed(deadline)) fail(ExitCode::system, whom, " did not arrive in time");
    pollfd entry{socket_.descriptor(), POLLIN, 0};
    poll(&entry, 1, milliseconds_left(deadline));
  }
}

std::string Endpoint::to_text() const {
  return Json{{"host", host}, {"addresses", addresses}, {"port", port}, {"token", token}}.dump();
}

Endpoint Endpoint::from_text(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    return {json.at("host").get<std::string>(), json.at("addresses").get<std::vector<std::string>>(),
            json.at("port").get<std::uint16_t>(), json.at("token").get<std::string>()};
  } catch (const Json::exception&) {
    fail(ExitCode::system, "another rank's address cannot be read: are all ranks of the same version of satformer?");
  }
}

Endpoint endpoint_of(const Listener& listener) {
  std::random_device device;
  std::string token;
  for (int i = 0; i < 16; ++i) token += "0123456789abcdef"[device() % 16];
  return {host_name(), own_addresses(), listener.port(), token};
}

Socket connect_to(const Endpoint& endpoint, Deadline deadline, const std::string& peer) {
  std::vector<std::string> addresses = endpoint.addresses;
  if (endpoint.host == host_name()) addresses.insert(addresses.begin(), "127.0.0.1");
  for (;;) {
    for (const std::string& address : addresses) {
      Socket socket = try_connect(address, endpoint.port, deadline);
      if (socket.open()) return socket;
    }
    if (passed(deadline)) {
      std::string list;
      for (const std::string& address : addresses) list += (list.empty() ? "" : ", ") + address;
      fail(ExitCode::system, peer, " on ", endpoint.host, " cannot be reached at ", list, ", TCP port ",
           endpoint.port);
    }
    poll(nullptr, 0, 100);
  }
}

void exchange(const Socket& to, std::span<const std::byte> sent, const Socket& from, std::span<std::byte> received,
              const std::function<void()>& check) {
  while (!sent.empty() || !received.empty()) {
    pollfd entries[2] = {{sent.empty() ? -1 : to.descriptor(), POLLOUT, 0},
                         {received.empty() ? -1 : from.descriptor(), POLLIN, 0}};
    if (poll(entries, 2, 50) <= 0) {
      check();
      continue;
    }
    if (entries[0].revents != 0) {
      const ssize_t done = ::send(to.descriptor(), sent.data(), sent.size(), MSG_NOSIGNAL);
      if (done > 0) sent = sent.subspan(static_cast<std::size_t>(done));
      if (done < 0 && !would_block()) closed("the next rank");
    }
    if (entries[1].revents != 0) {
      const ssize_t done = ::recv(from.descriptor(), received.data(), received.size(), 0);
      if (done > 0) received = received.subspan(static_cast<std::size_t>(done));
      if (done == 0 || (done < 0 && !would_block())) closed("the previous rank");
    }
  }
}

}  // namespace satformer
