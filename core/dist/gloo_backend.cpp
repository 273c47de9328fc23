// The only file that includes Gloo's process group, whose headers take 12 s to compile.

#include "core/dist/gloo_backend.h"

#include <chrono>
#include <cstdlib>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace xrun {

namespace {

// A rank may wait for hours while another builds a cache. The watchdog finds ranks that hang.
constexpr std::chrono::hours kNoGlooTimeout{24 * 365};

// c10d keeps one trace of collectives per process, which two groups in a process corrupt. Ours is
// in core/dist/watch.
void turn_traces_off() {
  static const int done = ::setenv("TORCH_FR_BUFFER_SIZE", "0", 0);
  static_cast<void>(done);
}

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int64_t rank, int64_t size,
                                                    const std::string& address) {
  turn_traces_off();
  const auto options = c10d::ProcessGroupGloo::Options::create(kNoGlooTimeout);
  const char* const interface = std::getenv("GLOO_SOCKET_IFNAME");
  options->devices = {interface != nullptr && *interface != 0
                          ? c10d::ProcessGroupGloo::createDeviceForInterface(interface)
                          : c10d::ProcessGroupGloo::createDeviceForHostname(address)};
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, static_cast<int>(rank),
                                                     static_cast<int>(size), options);
}

}  // namespace xrun
