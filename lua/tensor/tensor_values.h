#pragma once
// The values of a tensor as nested lists, long dimensions cut in the middle.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace xrun {

struct ValueLayout {
  int64_t longest = 8;  // a dimension beyond shows `edge` values at each end
  int64_t edge = 3;
  bool aligned = false;  // numbers of all lists stand in columns
};

// Begins with the first bracket; further lines stand `indent` blanks in. A tensor of no dimensions
// is its value. Reads element by element: meant for the few that are shown.
std::string tensor_values(const at::Tensor& tensor, const ValueLayout& layout = {}, int indent = 1);

// True if some of its values are left out.
bool is_cut(const at::Tensor& tensor, const ValueLayout& layout);

// True if the values can be read: dense, not on `meta`.
bool has_values(const at::Tensor& tensor);

}  // namespace xrun
