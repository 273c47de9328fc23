#pragma once
// The CPU kernels: raw pointers, row ranges, one table per instruction set.
//
// Every function works on the rows it is given, on the calling thread; the caller splits rows over
// threads at boundaries that the shape alone fixes. Rows are contiguous. `bf16` tensors are passed
// as their bits. Arithmetic is fp32 (sums longer than a row block in fp64) in every type.

#include <cstdint>

namespace xrun::kernels {

using Bf16 = uint16_t;  // the bits of a bfloat16

// Softmax of `rows` rows of x [rows, V], and the log-probability of one target in each.
struct SoftmaxRows {
  float* x;               // [rows, V] logits; probabilities afterwards if `keep`
  const int64_t* target;  // [rows] in [0, V)
  float* logprob;         // [rows] out: x[target] - lse
  float* lse;             // [rows] out: log sum exp, may be null
  int64_t rows, width;
  bool keep;              // write the probabilities, minus one at the target
};

// Turns logits into probabilities minus one at the target, given the row's log-sum-exp.
struct SoftmaxFromLse {
  float* x;               // [rows, V] in and out
  const int64_t* target;  // [rows]
  const float* lse;       // [rows]
  int64_t rows, width;
};

// y = weight * round(x * rstd), rstd = 1 / sqrt(mean(x^2) + eps); rounding is to the type of x.
template <class T>
struct RmsNorm {
  const T* x;           // [rows, D]
  const float* weight;  // [D]
  T* y;                 // [rows, D]
  float* rstd;          // [rows] out, may be null
  int64_t rows, width;
  float eps;
};

// dx = rstd (g w - xn mean(g w xn)), dweight += sum over rows of g xn, where xn = x rstd.
template <class T>
struct RmsNormBackward {
  const T* grad;        // [rows, D]
  const T* x;           // [rows, D]
  const float* weight;  // [D]
  const float* rstd;    // [rows]
  T* dx;                // [rows, D]
  float* dweight;       // [D], added to
  int64_t rows, width;
};

// y = silu(gate) * up over n elements.
template <class T>
struct SwiGlu {
  const T* gate;
  const T* up;
  T* y;
  int64_t n;
};
template <class T>
struct SwiGluBackward {
  const T* grad;
  const T* gate;
  const T* up;
  T* dgate;
  T* dup;
  int64_t n;
};

// Rotates the pairs (i, i + K/2) of every head of x [rows, heads, K] by the row's angles.
template <class T>
struct Rope {
  const T* x;
  T* y;              // may be x
  const float* cos;  // [rows, K/2]
  const float* sin;  // [rows, K/2]
  int64_t rows, heads, head_dim;
  bool inverse;      // rotate back, which is the backward
};

// One query against n cached keys: y = softmax(scale q k^T) v for each query head of one sequence.
// Query head h reads key head h / (heads / kv_heads).
template <class T>
struct DecodeAttention {
  const T* q;           // [heads, K]
  const T* k;           // [kv_heads, capacity, K], of which n rows are filled
  const T* v;           // the same
  T* y;                 // [heads, K]
  float* scratch;       // [n]
  int64_t n, capacity, heads, kv_heads, head_dim;
  float scale;
};

struct CpuKernels {
  const char* name;
  void (*softmax_rows)(const SoftmaxRows&);
  void (*softmax_from_lse)(const SoftmaxFromLse&);
  void (*rms_norm_f32)(const RmsNorm<float>&);
  void (*rms_norm_bf16)(const RmsNorm<Bf16>&);
  void (*rms_norm_backward_f32)(const RmsNormBackward<float>&);
  void (*rms_norm_backward_bf16)(const RmsNormBackward<Bf16>&);
  void (*swiglu_f32)(const SwiGlu<float>&);
  void (*swiglu_bf16)(const SwiGlu<Bf16>&);
  void (*swiglu_backward_f32)(const SwiGluBackward<float>&);
  void (*swiglu_backward_bf16)(const SwiGluBackward<Bf16>&);
  void (*rope_f32)(const Rope<float>&);
  void (*rope_bf16)(const Rope<Bf16>&);
  void (*decode_attention_f32)(const DecodeAttention<float>&);
  void (*decode_attention_bf16)(const DecodeAttention<Bf16>&);
};

// The table for this machine, chosen once: AVX-512, AVX2 or portable. XRUN_CPU=avx512, avx2 or
// portable in the environment chooses another that the machine can run.
const CpuKernels& cpu_kernels();

// The table of one instruction set, or nullptr if the machine cannot run it.
const CpuKernels* cpu_kernels_named(const char* name);

}  // namespace xrun::kernels
