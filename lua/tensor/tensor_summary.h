#pragma once
// A tensor as the prompt shows it: header, values cut at their edges, statistics of a larger one.

#include <ATen/core/Tensor.h>

#include <string>

namespace xrun {

// "f32[4,8] cpu grad" alone, with the value of a tensor of one element behind it: for one line.
std::string tensor_line(const at::Tensor& tensor);

// The header, values in columns that fit `width`, and, where values are left out, min, mean, max,
// standard deviation and how many are NaN or infinite, over a histogram in one line; above 64 MB of
// a sample, which is said. No newline at the end.
std::string tensor_summary(const at::Tensor& tensor, int width = 80);

}  // namespace xrun
