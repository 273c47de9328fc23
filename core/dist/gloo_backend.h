#pragma once
// c10d's process group over Gloo, for tensors and texts in host memory.

#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace xrun {

// Connects to all other ranks, through addresses that `store` exchanges; `address` is this
// machine's, on which it listens. Throws c10::Error if a rank cannot be reached.
c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int64_t rank, int64_t size,
                                                    const std::string& address);

}  // namespace xrun
