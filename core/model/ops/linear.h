#pragma once
// y = x W^T + b in a chosen compute type, whatever the operands are stored in; the op xrun::linear.

#include <ATen/core/Tensor.h>

namespace xrun {

// kStorage: in the operands' own type. kFloat: operands are widened to fp32 for the product, the
// result is rounded to x's type once; the backward alike.
enum class GemmType { kStorage, kFloat };

// Returns x weight^T + bias, in the type of x.
//   x       [T, in] fp32, bf16 or fp16
//   weight  [out, in], bias [out] or undefined, in the type of x
// With kStorage or fp32 operands this is at::linear. Widened copies live in scratch memory and end
// with the call. T = 0 is legal.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                  GemmType gemm);

const char* gemm_name(GemmType gemm);  // "storage", "fp32"

}  // namespace xrun
