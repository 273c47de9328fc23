#pragma once
// y = x W^T + b in a chosen compute type, whatever the operands are stored in; the op xrun::linear.
// On the CPU in fp32 a token's result has the same bits whatever is computed beside it.

#include <ATen/core/Tensor.h>

#include "core/model/ops/op_memory.h"

namespace xrun {

// kStorage: products run in the operands' own type. kFloat: operands are upcast to fp32 for the
// product, and the result is rounded once, to the type of x; likewise in the backward.
enum class GemmType { kStorage, kFloat };

const char* gemm_name(GemmType gemm);  // "storage", "fp32"

// Returns x weight^T + bias, in the type of x.
//   x       [T, in] fp32, bf16 or fp16
//   weight  [out, in], bias [out] or undefined, in the type of x
// fp32 and upcast products on the CPU go row by row (matrix_product.h); all others are at::linear.
// Upcast copies are in scratch memory until the call returns. T = 0 is legal.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                  GemmType gemm);

struct PackedMatrix;

// Returns x weight^T + bias for a packed weight, with a product in fp32 that is rounded once. The
// bits are those of the function above for x in fp32 or with kFloat. On the CPU, without a graph.
at::Tensor linear(const at::Tensor& x, const PackedMatrix& weight, const at::Tensor& bias);

// Returns scale (x a^T) b^T, [T, out]: the term that a low-rank adapter adds to a linear map (Hu et
// al. 2021).
//   x  [T, in];  a  [rank, in], b  [out, rank] in the type of x
at::Tensor low_rank(const at::Tensor& x, const at::Tensor& a, const at::Tensor& b, double scale,
                    GemmType gemm);

// Declares what the backward of linear saves: its input `x`, `width` elements per token, and only
// for a trained weight, whose gradient needs it.
void linear_saves(SavedTensors& saved, const std::string& x, double width, bool trained);

// Returns the bytes of scratch memory that maps between widths `in` and `out`, in either direction,
// hold for x, W and y in fp32; 0 unless operands of `dtype` are upcast.
double linear_scratch(double tokens, double in, double out, c10::ScalarType dtype, GemmType gemm);

}  // namespace xrun
