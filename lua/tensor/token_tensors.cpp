// Copies token ids, masks and offsets into tensors, and reads lists or tensors back as numbers.

#include "lua/tensor/token_tensors.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <limits>

#include "core/base/error.h"
#include "lua/state/args.h"
#include "lua/tensor/tensor.h"

namespace xrun {

// [n] int64, as embeddings and index operators take ids.
at::Tensor ids_tensor(std::span<const int32_t> ids) {
  at::Tensor tensor = at::empty({std::ssize(ids)}, at::kLong);
  std::copy(ids.begin(), ids.end(), tensor.mutable_data_ptr<int64_t>());
  return tensor;
}

at::Tensor mask_tensor(std::span<const uint8_t> mask) {
  at::Tensor tensor = at::empty({std::ssize(mask)}, at::kBool);
  std::transform(mask.begin(), mask.end(), tensor.mutable_data_ptr<bool>(),
                 [](uint8_t trained) { return trained != 0; });
  return tensor;
}

// [n, 2] int64, begin and end in bytes.
at::Tensor offsets_tensor(std::span<const ByteRange> offsets) {
  at::Tensor tensor = at::empty({std::ssize(offsets), 2}, at::kLong);
  int64_t* out = tensor.mutable_data_ptr<int64_t>();
  for (const ByteRange& range : offsets) {
    *out++ = range.begin;
    *out++ = range.end;
  }
  return tensor;
}

std::vector<int64_t> read_whole_numbers(lua_State* L, int i, const char* what) {
  const at::Tensor* tensor = tensor_if(L, i);
  if (tensor == nullptr) return arg<std::vector<int64_t>>(L, i, what);
  XRUN_CHECK(tensor->dim() == 1 && c10::isIntegralType(tensor->scalar_type(), false),
             "argument {} ({}): got {}, wanted a list or a tensor [n] of whole numbers", i, what,
             describe_tensor(*tensor));
  // One copy to the host, whatever the device and the stride.
  const at::Tensor whole = tensor->to(at::kCPU, at::kLong).contiguous();
  return {whole.const_data_ptr<int64_t>(), whole.const_data_ptr<int64_t>() + whole.numel()};
}

std::vector<int32_t> read_ids(lua_State* L, int i, const char* what) {
  std::vector<int32_t> ids;
  for (const int64_t id : read_whole_numbers(L, i, what)) {
    XRUN_CHECK(id >= 0 && id <= std::numeric_limits<int32_t>::max(),
               "argument {} ({}): {} is not a token id", i, what, id);
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

}  // namespace xrun
