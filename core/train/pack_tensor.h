#pragma once
// Columns of a pack as tensors on the CPU, copies that outlive it.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace xrun {

at::Tensor ids(const std::vector<int64_t>& values);   // [n] int64
at::Tensor ids(const std::vector<int32_t>& values);   // [n] int64, which is what ATen indexes by
at::Tensor floats(const std::vector<float>& values);  // [n] float32

}  // namespace xrun
