// Connections are attempted without blocking, so that a host that drops packets costs seconds, not
// minutes.

#include "core/dist/watch/socket.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "core/base/error.h"
#include "core/base/process_usage.h"

namespace xrun {

namespace {

constexpr int kBacklog = 1024;
constexpr int kAttemptMs = 3000;  // for one connection
constexpr double kNoRouteS = 30;  // names and routes of a starting cluster appear late
constexpr int kFirstPauseMs = 5;  // between attempts; doubles up to kLastPauseMs
constexpr int kLastPauseMs = 500;

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// Returns nothing and sets `why` if the name is unknown.
Addresses addresses_of(const std::string& host, int port, int type, std::string& why) {
  addrinfo hints{};
  hints.ai_socktype = type;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (code != 0) why = ::gai_strerror(code);
  return Addresses(code == 0 ? found : nullptr, &freeaddrinfo);
}

// Returns 0 or an errno.
int attempt(const addrinfo& address, Socket& out) {
  Socket socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.open()) return errno;
  if (::connect(socket.fd(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return errno;
    pollfd ready = {socket.fd(), POLLOUT, 0};
    if (::poll(&ready, 1, kAttemptMs) <= 0) return ETIMEDOUT;
    int code = 0;
    socklen_t size = sizeof code;
    ::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &code, &size);
    if (code != 0) return code;
  }
  const int on = 1;
  ::setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  out = std::move(socket);
  return 0;
}

bool try_listen(const sockaddr* address, socklen_t size, Socket& out) {
  Socket socket(::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.open()) return false;
  // Without SO_REUSEADDR a restarted run could not listen for a minute (TIME_WAIT). Without V6ONLY
  // = 0 the socket would refuse IPv4.
  const int on = 1, off = 0;
  ::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address->sa_family == AF_INET6) {
    ::setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  }
  if (::bind(socket.fd(), address, size) != 0 || ::listen(socket.fd(), kBacklog) != 0) return false;
  out = std::move(socket);
  return true;
}

// Returns "10.0.0.7", or "" if the address has no numeric form.
std::string numeric_text(const sockaddr* address, socklen_t size) {
  char name[NI_MAXHOST] = "";
  const int code = ::getnameinfo(address, size, name, sizeof name, nullptr, 0, NI_NUMERICHOST);
  return code == 0 ? name : "";
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

// An IPv6 socket takes both families; kernels without IPv6 need the second attempt.
Socket listen_on(int port, bool loopback) {
  Socket out;
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_port = htons(static_cast<uint16_t>(port));
  if (!loopback && try_listen(reinterpret_cast<sockaddr*>(&any), sizeof any, out)) return out;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(loopback ? INADDR_LOOPBACK : INADDR_ANY);
  if (try_listen(reinterpret_cast<sockaddr*>(&address), sizeof address, out)) return out;
  XRUN_CHECK(errno != EADDRINUSE,
             "port {} is in use by another process of this machine; set MASTER_PORT to a free one",
             port);
  throw Error(fmt::format("cannot listen on port {}: {}", port, std::strerror(errno)));
}

int port_of(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  XRUN_CHECK(::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &size) == 0,
             "a socket has no port: {}", std::strerror(errno));
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

Socket connect_to(const std::string& host, int port, double timeout_s,
                  const std::function<void(const std::string& why)>& waiting) {
  const SteadyClock::time_point begin = SteadyClock::now();
  for (int pause_ms = kFirstPauseMs;; pause_ms = std::min(2 * pause_ms, kLastPauseMs)) {
    std::string why;
    int code = 0;
    const Addresses addresses = addresses_of(host, port, SOCK_STREAM, why);
    for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
      Socket out;
      code = attempt(*at, out);
      if (code == 0) return out;
    }
    if (why.empty()) why = std::strerror(code);
    // Rank 0 has not started to listen yet, so waiting helps. An unknown name or route may be wrong
    // for good.
    const bool listens_later = code == ECONNREFUSED || code == ECONNRESET;
    const double limit_s = listens_later ? timeout_s : std::min(timeout_s, kNoRouteS);
    const double waited_s = seconds_since(begin);
    if (waited_s >= limit_s) {
      throw Error(fmt::format("{}:{} cannot be reached: {} (tried for {:.0f} s)", host, port, why,
                              waited_s));
    }
    if (waiting) waiting(why);
    ::poll(nullptr, 0, pause_ms);
  }
}

std::string address_towards(const std::string& host) {
  std::string why;
  const Addresses addresses = addresses_of(host, 9, SOCK_DGRAM, why);
  for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
    // Connecting a datagram socket sends nothing; it only chooses the route.
    const Socket socket(::socket(at->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!socket.open() || ::connect(socket.fd(), at->ai_addr, at->ai_addrlen) != 0) continue;
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    if (::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&own), &size) == 0) {
      return numeric_text(reinterpret_cast<sockaddr*>(&own), size);
    }
  }
  return "";
}

std::string outer_address() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return "";
  std::string out;
  for (const ifaddrs* at = list; at != nullptr && out.empty(); at = at->ifa_next) {
    const bool up = (at->ifa_flags & IFF_UP) != 0 && (at->ifa_flags & IFF_LOOPBACK) == 0;
    if (up && at->ifa_addr != nullptr && at->ifa_addr->sa_family == AF_INET) {
      out = numeric_text(at->ifa_addr, sizeof(sockaddr_in));
    }
  }
  ::freeifaddrs(list);
  return out;
}

}  // namespace xrun
