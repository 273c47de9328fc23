#pragma once
// Makes c10d's process group over Gloo, which exchanges tensors and texts in host memory.

#include <cstdint>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace xrun {

// Connects to all other ranks; `store` exchanges their addresses.
//   rank, size  this rank, of 0 to size - 1
//   address     of this machine, on which it listens; the network interface that the variable
//               GLOO_SOCKET_IFNAME names replaces it
// Throws c10::Error if a rank cannot be reached.
c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int64_t rank, int64_t size,
                                                    const std::string& address);

}  // namespace xrun
