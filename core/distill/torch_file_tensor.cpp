// Elements of a strided tensor in row-major order: an odometer over all dimensions.

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "core/base/error.h"
#include "core/distill/torch_file.h"

namespace xrun {

namespace {

template <class T>
T torch_element(const TorchTensor& tensor, int64_t at) {
  T value;
  std::memcpy(&value, tensor.storage.data() + at * int64_t(sizeof value), sizeof value);
  return value;
}

float half_to_float(uint16_t bits) {
  const uint32_t sign = uint32_t(bits & 0x8000) << 16;
  const uint32_t exponent = bits >> 10 & 0x1F, mantissa = bits & 0x3FF;
  if (exponent == 0) {  // zero and subnormals: mantissa * 2^-24
    const float value = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -value : value;
  }
  const uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
}

// Calls each(position of the element in the storage).
template <class Each>
void for_each_element(const TorchTensor& tensor, const Each& each) {
  // An empty tensor ends here: the product of its other sizes may overflow.
  if (std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end()) return;
  int64_t count = 1;
  for (const int64_t size : tensor.shape) count *= size;
  std::vector<int64_t> index(tensor.shape.size(), 0);
  int64_t at = tensor.offset;
  for (int64_t i = 0; i < count; ++i) {
    each(at);
    for (size_t d = index.size(); d-- > 0;) {
      at += tensor.stride[d];
      if (++index[d] < tensor.shape[d]) break;
      at -= tensor.stride[d] * tensor.shape[d];
      index[d] = 0;
    }
  }
}

template <class To, class Read>
std::vector<To> torch_elements(const TorchTensor& tensor, const Read& read) {
  std::vector<To> out;
  for_each_element(tensor, [&](int64_t at) { out.push_back(static_cast<To>(read(at))); });
  return out;
}

[[noreturn]] void throw_wrong_type(const TorchTensor& tensor, const std::string& where,
                                   const char* wanted) {
  throw Error(fmt::format("{}: got a tensor of {}, wanted one of {}", where,
                          torch_type_name(tensor.type), wanted));
}

}  // namespace

std::vector<int64_t> torch_integers(const TorchTensor& tensor, const std::string& where) {
  const auto as = [&]<class T>(T) {
    return torch_elements<int64_t>(tensor,
                                   [&](int64_t at) { return torch_element<T>(tensor, at); });
  };
  switch (tensor.type) {
    case TorchType::kInt64: return as(int64_t{});
    case TorchType::kInt32: return as(int32_t{});
    case TorchType::kInt16: return as(int16_t{});
    case TorchType::kInt8: return as(int8_t{});
    case TorchType::kUInt8: return as(uint8_t{});
    default: throw_wrong_type(tensor, where, "integers");
  }
}

std::vector<float> torch_floats(const TorchTensor& tensor, const std::string& where) {
  switch (tensor.type) {
    case TorchType::kFloat64:
      return torch_elements<float>(tensor,
                                   [&](int64_t at) { return torch_element<double>(tensor, at); });
    case TorchType::kFloat32:
      return torch_elements<float>(tensor,
                                   [&](int64_t at) { return torch_element<float>(tensor, at); });
    case TorchType::kFloat16:
      return torch_elements<float>(
          tensor, [&](int64_t at) { return half_to_float(torch_element<uint16_t>(tensor, at)); });
    case TorchType::kBFloat16:
      return torch_elements<float>(tensor, [&](int64_t at) {
        return std::bit_cast<float>(uint32_t{torch_element<uint16_t>(tensor, at)} << 16);
      });
    default: throw_wrong_type(tensor, where, "floating-point numbers");
  }
}

}  // namespace xrun
