// Takes random nodes as an attention layout: an Error, or each row of the kernel sees its path and
// nothing else, forward and backward, which sums in double confirm. The bytes are flags, the window
// and a shape, then two for each node: its length or boundary, and its parent.

#include "core/model/ops/attention_layout.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/base/error.h"
#include "core/base/philox.h"
#include "kernels/cpu/kernels.h"
#include "tools/fuzz/fuzz_target.h"

namespace xrun {

namespace {

using Floats = std::vector<float>;

constexpr int64_t kMostRows = 512;
constexpr float kScale = 0.3f;

struct LayoutInput {
  std::vector<int64_t> cu_seqlens, parent;
  int64_t window, rows;
  int64_t heads, kv_heads, head_dim;
};

int64_t signed_byte(char byte) { return static_cast<signed char>(byte); }

LayoutInput layout_input(std::string_view bytes) {
  const auto flags = static_cast<unsigned char>(bytes[0]);
  const auto shape = static_cast<unsigned char>(bytes[2]);
  constexpr int64_t kHeadDims[] = {1, 4, 16, 24};
  LayoutInput in{.cu_seqlens = {},
                 .parent = {},
                 .window = signed_byte(bytes[1]),
                 .rows = 0,
                 .heads = 0,
                 .kv_heads = 1 + shape % 2,
                 .head_dim = kHeadDims[shape / 8 % 4]};
  in.heads = in.kv_heads * (1 + shape / 2 % 3);
  // Bit 0: the bytes are boundaries, else lengths below 64; bit 1: no parents; bit 2: a row too
  // many.
  const bool boundaries = (flags & 1) != 0, roots = (flags & 2) != 0;
  if (!boundaries) in.cu_seqlens.push_back(0);
  for (size_t i = 3; i + 1 < bytes.size() && in.cu_seqlens.size() < 65; i += 2) {
    const int64_t number = signed_byte(bytes[i]);
    in.cu_seqlens.push_back(boundaries ? number : in.cu_seqlens.back() + (number & 63));
    if (!roots) in.parent.push_back(signed_byte(bytes[i + 1]));
  }
  if (boundaries && !in.parent.empty()) in.parent.pop_back();  // one boundary more than nodes
  in.rows = (in.cu_seqlens.empty() ? 0 : in.cu_seqlens.back()) + ((flags & 4) != 0 ? 1 : 0);
  return in;
}

// Returns the rows that one row sees, found by walking up from its node.
std::vector<int64_t> seen_rows(const LayoutInput& in, int64_t row) {
  size_t node = 0;
  while (in.cu_seqlens[node + 1] <= row) ++node;
  std::vector<int64_t> path;
  for (int64_t last = row;; last = in.cu_seqlens[node + 1] - 1) {
    for (int64_t r = last; r >= in.cu_seqlens[node]; --r) path.push_back(r);
    if (in.parent.empty() || in.parent[node] < 0) break;
    node = static_cast<size_t>(in.parent[node]);
  }
  // The row itself comes first, so the window keeps the nearest rows.
  if (in.window > 0 && std::ssize(path) > in.window) path.resize(static_cast<size_t>(in.window));
  return path;
}

Floats random_values(int64_t count, uint64_t seed, double size) {
  Floats values;
  for (int64_t i = 0; i < count; ++i) {
    const double unit = philox_unit(seed, 0, 0, static_cast<uint64_t>(i));
    values.push_back(static_cast<float>((2 * unit - 1) * size));
  }
  return values;
}

// Outputs, log-sum-exps and gradients, each in the shape of its tensor.
template <class T>
struct AttentionValues {
  // out, dq [T, H, K]; lse [H, T]; dk, dv [T, J, K].
  std::vector<T> out, lse, dq, dk, dv;

  AttentionValues(const LayoutInput& in)
      : out(static_cast<size_t>(in.rows * in.heads * in.head_dim)),
        lse(static_cast<size_t>(in.rows * in.heads)),
        dq(out.size()),
        dk(static_cast<size_t>(in.rows * in.kv_heads * in.head_dim)),
        dv(dk.size()) {}
};

// q and grad are [T, H, K], k and v [T, J, K].
struct AttentionInputs {
  Floats q, k, v, grad;

  explicit AttentionInputs(const LayoutInput& in)
      : q(random_values(in.rows * in.heads * in.head_dim, 1, 2)),
        k(random_values(in.rows * in.kv_heads * in.head_dim, 2, 2)),
        v(random_values(std::ssize(k), 3, 1)),
        grad(random_values(std::ssize(q), 4, 1)) {}
};

AttentionValues<float> by_kernel(const LayoutInput& in, const AttentionInputs& x) {
  AttentionValues<float> y(in);
  const auto paths = layout_paths(in.cu_seqlens, in.parent);
  const kernels::AttentionNodes nodes{paths->cu_seqlens.data(), paths->parent.data(),
                                      paths->position.data(),   paths->end.data(),
                                      paths->nodes(),           in.window};
  const kernels::AttentionSizes sizes{in.rows, in.heads, in.kv_heads, in.head_dim, kScale};
  const int64_t share = in.heads / in.kv_heads, block = kernels::query_block(share);
  // NaN, so that a read of unwritten scratch shows.
  Floats scratch(static_cast<size_t>(kernels::attention_scratch(share, in.head_dim)),
                 std::numeric_limits<float>::quiet_NaN());
  const auto& table = kernels::cpu_kernels();
  for (int64_t g = 0; g < in.kv_heads; ++g) {
    for (int64_t first = 0; first < in.rows; first += block) {
      table.run(kernels::PathAttention<float>{x.q.data(), x.k.data(), x.v.data(), y.out.data(),
                                              y.lse.data(), scratch.data(), nodes, sizes, first,
                                              std::min(in.rows, first + block), g});
    }
    for (size_t tree = 0; tree + 1 < paths->roots.size(); ++tree) {
      table.run(kernels::PathAttentionBackward<float>{
          x.grad.data(), x.q.data(), x.k.data(), x.v.data(), y.out.data(), y.lse.data(),
          y.dq.data(), y.dk.data() + g * in.head_dim, y.dv.data() + g * in.head_dim,
          in.kv_heads * in.head_dim, scratch.data(), nodes, sizes, paths->roots[tree],
          paths->roots[tree + 1], g, g * share, share});
    }
  }
  return y;
}

// With p = softmax(scale q k): out = p v, dv = p g, ds = p (g v - g out), dq = ds k, dk = ds q.
AttentionValues<double> by_sums(const LayoutInput& in, const AttentionInputs& x) {
  AttentionValues<double> y(in);
  const int64_t K = in.head_dim;
  for (int64_t row = 0; row < in.rows; ++row) {
    const std::vector<int64_t> keys = seen_rows(in, row);
    for (int64_t h = 0; h < in.heads; ++h) {
      const int64_t at = (row * in.heads + h) * K, g = h / (in.heads / in.kv_heads);
      const auto key_at = [&](size_t j) { return (keys[j] * in.kv_heads + g) * K; };
      const auto dot = [&](const Floats& a, int64_t i, const Floats& b, int64_t j) {
        double sum = 0;
        for (int64_t d = 0; d < K; ++d) {
          sum += double{a[static_cast<size_t>(i + d)]} * b[static_cast<size_t>(j + d)];
        }
        return sum;
      };
      std::vector<double> p(keys.size()), dp(keys.size());
      double most = -std::numeric_limits<double>::infinity(), sum = 0, delta = 0;
      for (size_t j = 0; j < keys.size(); ++j) {
        p[j] = kScale * dot(x.q, at, x.k, key_at(j));
        dp[j] = dot(x.grad, at, x.v, key_at(j));
        most = std::max(most, p[j]);
      }
      for (double& one : p) sum += one = std::exp(one - most);
      for (size_t j = 0; j < keys.size(); ++j) delta += (p[j] /= sum) * dp[j];
      y.lse[static_cast<size_t>(h * in.rows + row)] = most + std::log(sum);
      for (size_t j = 0; j < keys.size(); ++j) {
        const double ds = p[j] * (dp[j] - delta) * kScale;
        for (int64_t d = 0; d < K; ++d) {
          const auto own = static_cast<size_t>(at + d), key = static_cast<size_t>(key_at(j) + d);
          y.out[own] += p[j] * x.v[key];
          y.dv[key] += p[j] * x.grad[own];
          y.dq[own] += ds * x.k[key];
          y.dk[key] += ds * x.q[own];
        }
      }
    }
  }
  return y;
}

void check_near(const Floats& got, const std::vector<double>& want, const char* what) {
  double size = 1;
  for (const double one : want) size = std::max(size, std::abs(one));
  for (size_t i = 0; i < want.size(); ++i) {
    fuzz_check(std::abs(got[i] - want[i]) <= 1e-5 * size, what);
  }
}

}  // namespace

void fuzz_attention_layout(std::string_view input) {
  if (input.size() < 3) return;
  const LayoutInput in = layout_input(input);
  try {
    check_layout("fuzz", in.cu_seqlens, in.parent, in.window, in.rows);
  } catch (const Error&) {
    return;
  }
  if (in.rows > kMostRows) return;
  const AttentionInputs x(in);
  const AttentionValues<float> got = by_kernel(in, x);
  const AttentionValues<double> want = by_sums(in, x);
  check_near(got.out, want.out, "the output differs");
  check_near(got.lse, want.lse, "the log-sum-exp differs");
  check_near(got.dq, want.dq, "the gradient of q differs");
  check_near(got.dk, want.dk, "the gradient of k differs");
  check_near(got.dv, want.dv, "the gradient of v differs");
}

}  // namespace xrun
