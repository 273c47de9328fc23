// Elements of a strided tensor in row-major order: an odometer over all dimensions.

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/base/error.h"
#include "core/distill/torch_file.h"

namespace xrun {

namespace {

template <class To, class Stored>
std::vector<To> torch_elements(const TorchTensor& tensor) {
  std::vector<To> out;
  // An empty tensor ends here: the product of its other sizes may overflow.
  if (std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end()) return out;
  int64_t count = 1;
  for (const int64_t size : tensor.shape) count *= size;
  std::vector<int64_t> index(tensor.shape.size(), 0);
  int64_t at = tensor.offset;
  for (int64_t i = 0; i < count; ++i) {
    Stored value;
    std::memcpy(&value, tensor.storage.data() + at * int64_t(sizeof value), sizeof value);
    out.push_back(static_cast<To>(value));
    for (size_t d = index.size(); d-- > 0;) {
      at += tensor.stride[d];
      if (++index[d] < tensor.shape[d]) break;
      at -= tensor.stride[d] * tensor.shape[d];
      index[d] = 0;
    }
  }
  return out;
}

[[noreturn]] void throw_wrong_type(const TorchTensor& tensor, const std::string& where,
                                   const char* wanted) {
  throw Error(fmt::format("{}: got a tensor of {}, wanted one of {}", where,
                          torch_type_name(tensor.type), wanted));
}

}  // namespace

std::vector<int64_t> torch_integers(const TorchTensor& tensor, const std::string& where) {
  switch (tensor.type) {
    case TorchType::kInt64: return torch_elements<int64_t, int64_t>(tensor);
    case TorchType::kInt32: return torch_elements<int64_t, int32_t>(tensor);
    case TorchType::kInt16: return torch_elements<int64_t, int16_t>(tensor);
    case TorchType::kInt8: return torch_elements<int64_t, int8_t>(tensor);
    case TorchType::kUInt8: return torch_elements<int64_t, uint8_t>(tensor);
    default: throw_wrong_type(tensor, where, "integers");
  }
}

std::vector<float> torch_floats(const TorchTensor& tensor, const std::string& where) {
  switch (tensor.type) {
    case TorchType::kFloat64: return torch_elements<float, double>(tensor);
    case TorchType::kFloat32: return torch_elements<float, float>(tensor);
    case TorchType::kFloat16: return torch_elements<float, c10::Half>(tensor);
    case TorchType::kBFloat16: return torch_elements<float, c10::BFloat16>(tensor);
    default: throw_wrong_type(tensor, where, "floating-point numbers");
  }
}

}  // namespace xrun
