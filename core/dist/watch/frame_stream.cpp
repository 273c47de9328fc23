// A frame is a header, kMagic | kind and the size of the body, both uint32 in the machine's byte
// order, then the body.

#include "core/dist/watch/frame_stream.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace xrun {

namespace {

constexpr uint32_t kMagic = 0x58524e00;  // in every kind: another program's bytes are refused
// A table of 2,000 ranks has under 1 MB; a larger size is garbage, and must not be allocated.
constexpr uint32_t kMostBytes = 64u << 20;

struct Header {
  uint32_t kind;
  uint32_t size;
};

}  // namespace

// Non-blocking: the watchdog's thread must never wait for one peer.
FrameStream::FrameStream(Socket socket) : socket_(std::move(socket)) {
  ::fcntl(socket_.fd(), F_SETFL, ::fcntl(socket_.fd(), F_GETFL) | O_NONBLOCK);
}

void FrameStream::send(FrameKind kind, std::string_view body) {
  const Header header = {kMagic | static_cast<uint32_t>(kind), static_cast<uint32_t>(body.size())};
  unsent_.append(reinterpret_cast<const char*>(&header), sizeof header);
  unsent_.append(body);
  flush();
}

// Bytes that the kernel does not take stay in unsent_; the next flush() sends them.
void FrameStream::flush() {
  while (!unsent_.empty()) {
    const ssize_t count = ::send(socket_.fd(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count < 0) {
      unsent_.clear();  // receive() sees the end
      return;
    }
    unsent_.erase(0, static_cast<size_t>(count));
  }
}

bool FrameStream::receive(std::vector<Frame>& out) {
  bool open = true;
  char bytes[65536];
  while (open) {
    const ssize_t count = ::recv(socket_.fd(), bytes, sizeof bytes, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) break;
    open = count > 0;
    if (open) received_.append(bytes, static_cast<size_t>(count));
  }
  size_t at = 0;
  while (received_.size() - at >= sizeof(Header)) {
    Header header;
    std::memcpy(&header, received_.data() + at, sizeof header);
    if ((header.kind & ~0xffu) != kMagic || header.size > kMostBytes) return false;
    if (received_.size() - at - sizeof header < header.size) break;
    out.push_back({static_cast<FrameKind>(header.kind & 0xffu),
                   received_.substr(at + sizeof header, header.size)});
    at += sizeof header + header.size;
  }
  // The rest is the beginning of a frame whose end has not arrived.
  received_.erase(0, at);
  return open;
}

}  // namespace xrun
