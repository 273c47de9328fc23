#pragma once
// Vectors of XRUN_VECTOR_BYTES bytes through the compiler's vector extension, and the arithmetic
// that the kernels share.
//
// A kernel file has two halves: its arguments, which every includer sees, and its code, which only
// instruction_set.cpp compiles, once for each instruction set (XRUN_VECTOR_BYTES is defined only
// there). The code has internal linkage, so that no function of one instruction set can be linked
// into another; for the same reason it includes no header with inline functions.

#include <cstdint>

namespace xrun::kernels {

using Bf16 = uint16_t;  // the bits of a bf16: a float32 without its lower half

}  // namespace xrun::kernels

#ifdef XRUN_VECTOR_BYTES

namespace xrun::kernels {

namespace {

template <class E, int N>
struct VectorOf {
  typedef E type __attribute__((vector_size(sizeof(E) * N)));
};

constexpr int kLanes = XRUN_VECTOR_BYTES / 4;
using VF = VectorOf<float, kLanes>::type;
using VI = VectorOf<int32_t, kLanes>::type;
using VU = VectorOf<uint32_t, kLanes>::type;
using VH = VectorOf<uint16_t, kLanes>::type;

#define XRUN_INLINE static inline __attribute__((always_inline))

XRUN_INLINE VF splat(float x) { return VF{} + x; }

// memcpy, since rows need no alignment; the compiler makes it one unaligned load.
XRUN_INLINE VF load(const float* p) {
  VF v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

XRUN_INLINE VF load(const Bf16* p) {
  VH bits;
  __builtin_memcpy(&bits, p, sizeof bits);
  return (VF)(__builtin_convertvector(bits, VU) << 16);
}

XRUN_INLINE void store(float* p, VF v) { __builtin_memcpy(p, &v, sizeof v); }

// Rounds to nearest, ties to even; a NaN stays a NaN.
XRUN_INLINE VU bf16_bits(VF v) {
  const VU bits = (VU)v;
  const VU rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  // A NaN whose payload is in the lower half would round to infinity.
  return v != v ? VU{} + 0x7fc0u : rounded;
}

XRUN_INLINE void store(Bf16* p, VF v) {
  const VH bits = __builtin_convertvector(bf16_bits(v), VH);
  __builtin_memcpy(p, &bits, sizeof bits);
}

// Returns the value as the type stores it.
XRUN_INLINE VF round_to(const float*, VF v) { return v; }
XRUN_INLINE VF round_to(const Bf16*, VF v) { return (VF)(bf16_bits(v) << 16); }

// Loads n <= kLanes elements at p; the other lanes are zero, and store_some does not write them.
template <class T>
XRUN_INLINE VF load_some(const T* p, int n) {
  if (n == kLanes) return load(p);
  // Never reads beyond the row.
  T part[kLanes] = {};
  for (int i = 0; i < n; ++i) part[i] = p[i];
  return load(part);
}

template <class T>
XRUN_INLINE void store_some(T* p, VF v, int n) {
  if (n == kLanes) return store(p, v);
  T part[kLanes];
  store(part, v);
  for (int i = 0; i < n; ++i) p[i] = part[i];
}

// Calls f(i, n) for each vector of n elements of a row.
template <class F>
XRUN_INLINE void each_vector(int64_t width, F f) {
  int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) f(i, kLanes);
  if (i < width) f(i, static_cast<int>(width - i));
}

XRUN_INLINE VF larger(VF a, VF b) { return a > b ? a : b; }

// Adds lane after lane, since the order is part of the result.
XRUN_INLINE float sum_of(VF v) {
  float sum = 0;
  for (int i = 0; i < kLanes; ++i) sum += v[i];
  return sum;
}

// The numbers 0, 1, ... N - 1 as template arguments.
template <int... I>
struct Numbers {};
template <int N, int... I>
struct Counted : Counted<N - 1, N - 1, I...> {};
template <int... I>
struct Counted<0, I...> {
  typedef Numbers<I...> type;
};
using LaneNumbers = Counted<kLanes>::type;

template <int... I>
XRUN_INLINE VI lane_numbers(Numbers<I...>) {
  return VI{I...};
}

template <int S, int... I>
XRUN_INLINE VF rotated(VF v, Numbers<I...>) {
  return __builtin_shufflevector(v, v, (I + S) % kLanes...);
}

template <int S = kLanes / 2>
XRUN_INLINE float max_of(VF v) {
  if constexpr (S == 0) {
    return v[0];
  } else {
    return max_of<S / 2>(larger(v, rotated<S>(v, LaneNumbers())));
  }
}

// Exchanges the odd blocks of S lanes of a with the even ones of b.
template <int S, int... I>
XRUN_INLINE void exchange(VF& a, VF& b, Numbers<I...>) {
  const VF low = __builtin_shufflevector(a, b, (I & S ? kLanes + I - S : I)...);
  b = __builtin_shufflevector(a, b, (I & S ? kLanes + I : I + S)...);
  a = low;
}

// Transposes kLanes vectors: lane j of row i becomes lane i of row j.
template <int S = 1>
XRUN_INLINE void transpose(VF* row) {
  if constexpr (S < kLanes) {
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) {
      if ((i & S) == 0) exchange<S>(row[i], row[i + S], LaneNumbers());
    }
    transpose<S * 2>(row);
  }
}

constexpr float kRounds = 12582912.0f;  // 1.5 * 2^23: adding it to a float rounds to an integer

// Returns e^r for r = y - n ln 2, with |r| at most ln 2 / 2, by the polynomial of degree 6 of
// Cephes expf. ln 2 is subtracted in two parts, since n ln 2 rounded once would lose the last bits
// of r. The first part, 355 / 512, has 9 bits, so its product with n is exact (Cody and Waite).
XRUN_INLINE VF exp_of_rest(VF y, VF n) {
  const VF r = (y - n * 0.693359375f) - n * -2.12194440e-4f;
  VF p = splat(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  return p * r * r + r + 1.0f;
}

// Returns e^x with a relative error below 2e-7; 0 below -87.3, infinity above 88.7, NaN for NaN.
// e^x = 2^n e^(x - n ln 2) with n = round(x log2 e).
XRUN_INLINE VF exp_of(VF x) {
  const VF top = splat(88.7f), low = splat(-87.3f);
  VF y = x > top ? top : x;
  y = y < low ? low : y;
  const VF magic = splat(kRounds);
  const VF n = (y * 1.44269504088896341f + magic) - magic;
  VF p = exp_of_rest(y, n);
  // 2^n in two factors, so that n = 128 does not overflow the exponent field
  const VI whole = __builtin_convertvector(n, VI);
  const VI half = whole >> 1;
  const VF scale1 = (VF)((half + 127) << 23);
  const VF scale2 = (VF)((whole - half + 127) << 23);
  p = p * scale1 * scale2;
  p = x < low ? VF{} : p;
  p = x > top ? splat(__builtin_inff()) : p;
  return x != x ? x : p;
}

// Returns e^x for x <= 0 or NaN, with the error of exp_of. n is at most 0, so 2^n needs one factor.
XRUN_INLINE VF exp_of_nonpositive(VF x) {
  const VF low = splat(-87.3f);
  const VF y = x < low ? low : x;
  const VF magic = splat(kRounds);
  const VF shifted = y * 1.44269504088896341f + magic;
  const VF n = shifted - magic;
  VF p = exp_of_rest(y, n);
  // The low bits of `shifted` are n, which the shift moves into the exponent of p.
  p = (VF)((VI)p + ((VI)shifted << 23));
  p = x < low ? VF{} : p;
  return x != x ? x : p;
}

}  // namespace

}  // namespace xrun::kernels

#endif
