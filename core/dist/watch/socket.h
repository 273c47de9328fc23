#pragma once
// TCP sockets that listen or connect, with errors in the user's terms.

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace xrun {

inline constexpr const char* kLoopback = "127.0.0.1";

// A file descriptor that is closed with its owner.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket();

  int fd() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  // Returns the descriptor, which the caller then closes.
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

// Listens on `port`, 0 for any free one, on all interfaces or on the loopback alone. Throws Error
// that names the port, for example if another process has it.
Socket listen_on(int port, bool loopback);

// Returns the port that a socket listens on.
int port_of(const Socket& socket);

// Connects to `host`:`port`. Retries for `timeout_s` while nobody listens there, and for 30 s at
// most while the name is unknown or no route leads there. Before each retry it calls `waiting` with
// the last error; `waiting` may throw to give up. Throws Error with the last error.
Socket connect_to(const std::string& host, int port, double timeout_s,
                  const std::function<void(const std::string& why)>& waiting = {});

// Returns this machine's address on the route to `host`, "" if there is none.
std::string address_towards(const std::string& host);

// Returns the address of this machine's first interface that others can reach, "" if there is none.
std::string outer_address();

}  // namespace xrun
