#pragma once
// A tensor as text, for print and for the prompt.

#include <ATen/core/Tensor.h>

#include <string>

namespace xrun {

// "f32[4,8] cpu grad", and "closed Tensor".
std::string describe_tensor(const at::Tensor& tensor);

// Returns describe_tensor() with the values below it; a dimension longer than eight shows three
// values at each end.
std::string tensor_text(const at::Tensor& tensor);

// One line: "f32[4,8] cpu grad", followed by the value if there is one element.
std::string tensor_line(const at::Tensor& tensor);

// The header, values in columns that fit `width`, and, where values are left out, min, mean, max,
// standard deviation, the numbers of NaN and infinite values, and a histogram of one line. Above
// 64 MB they are of a sample, and the text says so. No newline at the end.
std::string tensor_summary(const at::Tensor& tensor, int width = 80);

}  // namespace xrun
