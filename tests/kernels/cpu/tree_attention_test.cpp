// Attention along the paths of a tree against fp64, in every instruction set; its bits under any
// split of the queries; and a decoded token against the same row of a pack.

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>

#include "tests/kernels/cpu/kernel_case.h"

namespace xrun::tree_attention_test {

namespace {

using Numbers = std::vector<int64_t>;

// A pack of nodes in preorder, with what the kernel needs to know about them.
struct Pack {
  Numbers begin, parent, position, end;
  int64_t window = 0;

  Pack(const Numbers& lengths, Numbers up, int64_t seen) : parent(std::move(up)), window(seen) {
    begin.push_back(0);
    for (const int64_t n : lengths) begin.push_back(begin.back() + n);
    for (size_t n = 0; n < parent.size(); ++n) {
      const auto above = static_cast<size_t>(parent[n]);
      position.push_back(parent[n] < 0 ? 0 : position[above] + lengths[above]);
      end.push_back(begin[n + 1]);
    }
    for (size_t n = parent.size(); n-- > 0;) {
      if (parent[n] < 0) continue;
      int64_t& last = end[static_cast<size_t>(parent[n])];
      last = std::max(last, end[n]);
    }
  }

  int64_t rows() const { return begin.back(); }
  kernels::AttentionNodes nodes() const {
    return {begin.data(),
            parent.data(),
            position.data(),
            end.data(),
            static_cast<int64_t>(parent.size()),
            window};
  }
  // The rows that the last of them sees, oldest first.
  Numbers path_to(int64_t row) const {
    size_t n = 0;
    while (begin[n + 1] <= row) ++n;
    Numbers path;
    for (int64_t last = row;; last = begin[n + 1] - 1) {
      for (int64_t r = last; r >= begin[n]; --r) path.push_back(r);
      if (parent[n] < 0) break;
      n = static_cast<size_t>(parent[n]);
    }
    if (window > 0 && static_cast<int64_t>(path.size()) > window) path.resize(window);
    std::reverse(path.begin(), path.end());
    return path;
  }
};

// Blocks of 64 that span several nodes, full ones shared by a subtree, empty nodes, two trees.
Pack forest(int64_t window) {
  return {{70, 20, 30, 0, 9, 130, 64, 1, 5, 200}, {-1, 0, 1, 1, 3, 0, 5, 6, 5, -1}, window};
}

struct AttentionShape {
  int64_t heads, kv_heads, head_dim;
};

template <class T>
struct Case {
  AttentionShape shape;
  Pack pack;
  std::vector<T> q, k, v, grad, out, dq;
  std::vector<float> lse, dk, dv, scratch;
  float scale = 0.3f;

  static std::vector<T> numbers(int64_t n, uint64_t seed, float size) {
    if constexpr (std::is_same_v<T, float>) {
      return random_floats(n, seed, size);
    } else {
      return to_bf16(random_floats(n, seed, size));
    }
  }

  Case(const AttentionShape& s, Pack p) : shape(s), pack(std::move(p)) {
    const int64_t T_ = pack.rows(), wide = T_ * s.heads * s.head_dim,
                  narrow = T_ * s.kv_heads * s.head_dim;
    q = numbers(wide, 1, 2), grad = numbers(wide, 4, 1);
    k = numbers(narrow, 2, 2), v = numbers(narrow, 3, 1);
    out.resize(wide), dq.resize(wide);
    lse.resize(s.heads * T_), dk.resize(narrow), dv.resize(narrow);
    scratch.resize(kernels::attention_scratch(s.heads / s.kv_heads, s.head_dim), NAN);
  }

  kernels::AttentionSizes sizes() const {
    return {pack.rows(), shape.heads, shape.kv_heads, shape.head_dim, scale};
  }

  // Ranges of `step` query tokens.
  void forward(const kernels::CpuKernels& table, int64_t step) {
    for (int64_t first = 0; first < pack.rows(); first += step) {
      for (int64_t g = 0; g < shape.kv_heads; ++g) {
        table.run(kernels::PathAttention<T>{q.data(), k.data(), v.data(), out.data(), lse.data(),
                                            scratch.data(), pack.nodes(), sizes(), first,
                                            std::min(pack.rows(), first + step), g});
      }
    }
  }

  void backward(const kernels::CpuKernels& table) {
    const int64_t share = shape.heads / shape.kv_heads;
    for (int64_t g = 0; g < shape.kv_heads; ++g) {
      table.run(kernels::PathAttentionBackward<T>{
          grad.data(), q.data(), k.data(), v.data(), out.data(), lse.data(), dq.data(),
          dk.data() + g * shape.head_dim, dv.data() + g * shape.head_dim,
          shape.kv_heads * shape.head_dim, scratch.data(), pack.nodes(), sizes(), 0, pack.rows(), g,
          g * share, share});
    }
  }
};

double number(float x) { return x; }
double number(kernels::Bf16 x) { return from_bf16(x); }

template <class T>
double largest(const std::vector<T>& got, const std::vector<double>& want) {
  double most = 0, size = 1;  // with a window of one key, gradients of scores are rounding alone
  for (size_t i = 0; i < want.size(); ++i) {
    const double off = std::abs(number(got[i]) - want[i]);
    most = std::isfinite(off) ? std::max(most, off) : INFINITY;
    size = std::max(size, std::abs(want[i]));
  }
  return most / size;
}

// The definition, row by row in fp64.
template <class T>
void expect_definition(const Case<T>& c, double tolerance) {
  const int64_t H = c.shape.heads, J = c.shape.kv_heads, K = c.shape.head_dim;
  std::vector<double> out(c.q.size()), lse(c.lse.size()), dq(c.q.size()), dk(c.k.size()),
      dv(c.k.size());
  for (int64_t row = 0; row < c.pack.rows(); ++row) {
    const Numbers path = c.pack.path_to(row);
    for (int64_t h = 0; h < H; ++h) {
      const int64_t at = (row * H + h) * K;
      std::vector<double> p;
      double sum = 0, delta = 0;
      const auto key = [&](int64_t r) { return (r * J + h / (H / J)) * K; };
      for (const int64_t r : path) {
        double score = 0;
        for (int64_t i = 0; i < K; ++i) score += number(c.q[at + i]) * number(c.k[key(r) + i]);
        p.push_back(std::exp(score * double{c.scale}));
        sum += p.back();
      }
      lse[h * c.pack.rows() + row] = std::log(sum);
      for (size_t j = 0; j < path.size(); ++j) {
        p[j] /= sum;
        for (int64_t i = 0; i < K; ++i) out[at + i] += p[j] * number(c.v[key(path[j]) + i]);
      }
      for (int64_t i = 0; i < K; ++i) delta += out[at + i] * number(c.grad[at + i]);
      for (size_t j = 0; j < path.size(); ++j) {
        const int64_t r = key(path[j]);
        double dp = 0;
        for (int64_t i = 0; i < K; ++i) dp += number(c.grad[at + i]) * number(c.v[r + i]);
        const double ds = p[j] * (dp - delta) * double{c.scale};
        for (int64_t i = 0; i < K; ++i) {
          dq[at + i] += ds * number(c.k[r + i]);
          dk[r + i] += ds * number(c.q[at + i]);
          dv[r + i] += p[j] * number(c.grad[at + i]);
        }
      }
    }
  }
  EXPECT_LT(largest(c.out, out), tolerance);
  EXPECT_LT(largest(c.lse, lse), 1e-6);
  EXPECT_LT(largest(c.dq, dq), tolerance);
  EXPECT_LT(largest(c.dk, dk), tolerance);
  EXPECT_LT(largest(c.dv, dv), tolerance);
}

}  // namespace

class AttentionTest : public KernelTest {};
INSTANTIATE_TEST_SUITE_P(Cpu, AttentionTest, all_instruction_sets(), instruction_set_name);

TEST_P(AttentionTest, AgreesWithDoublePrecisionOnTrees) {
  for (const int64_t window : {0, 1, 50, 130}) {
    for (const AttentionShape shape :
         {AttentionShape{4, 2, 16}, {3, 1, 20}, {5, 5, 64}, {8, 1, 4}, {2, 1, 136}}) {
      SCOPED_TRACE(fmt::format("window {}, {} heads of {}", window, shape.heads, shape.head_dim));
      Case<float> c(shape, forest(window));
      c.forward(*kernels_, 1000);
      c.backward(*kernels_);
      expect_definition(c, 5e-6);
    }
  }
}

TEST_P(AttentionTest, AgreesWithDoublePrecisionInBf16) {
  Case<kernels::Bf16> c({6, 2, 24}, forest(0));
  c.forward(*kernels_, 1000);
  c.backward(*kernels_);
  expect_definition(c, 1e-2);
}

TEST_P(AttentionTest, ATreeHasTheBitsOfItsSequences) {
  for (const int64_t window : {0, 90}) {
    const AttentionShape shape{6, 2, 24};
    Case<float> tree(shape, forest(window));
    tree.forward(*kernels_, 1000);
    for (const int64_t last : {119, 128, 258, 322, 323, 328, 528}) {  // the last row of a leaf
      const Numbers path = forest(0).path_to(last);
      const auto n = static_cast<int64_t>(path.size());
      Case<float> alone(shape, Pack({n}, {-1}, window));
      const auto copy = [&](std::vector<float>& to, const std::vector<float>& from, int64_t row) {
        for (int64_t t = 0; t < n; ++t) {
          std::copy_n(from.begin() + path[t] * row, row, to.begin() + t * row);
        }
      };
      copy(alone.q, tree.q, shape.heads * shape.head_dim);
      copy(alone.k, tree.k, shape.kv_heads * shape.head_dim);
      copy(alone.v, tree.v, shape.kv_heads * shape.head_dim);
      alone.forward(*kernels_, 1000);
      std::vector<float> want(alone.out.size());
      copy(want, tree.out, shape.heads * shape.head_dim);
      EXPECT_EQ(alone.out, want) << "window " << window << " leaf " << last;
    }
  }
}

TEST_P(AttentionTest, BitsDoNotDependOnTheRangeOfQueries) {
  Case<float> whole({6, 2, 40}, forest(100));
  whole.forward(*kernels_, 1000);
  for (const int64_t step : {1, 3, 7, 65}) {
    Case<float> cut({6, 2, 40}, forest(100));
    cut.forward(*kernels_, step);
    EXPECT_EQ(cut.out, whole.out) << step;
    EXPECT_EQ(cut.lse, whole.lse) << step;
  }
}

TEST_P(AttentionTest, RowsAfterHeldKeysHaveTheBitsOfTheWholePack) {
  for (const int64_t window : {0, 100}) {
    for (const int64_t held : {1, 40, 64, 70, 82}) {
      SCOPED_TRACE(fmt::format("window {}, {} held", window, held));
      const AttentionShape shape{6, 2, 40};
      Case<float> whole(shape, forest(window));
      whole.forward(*kernels_, 1000);
      kernels::AttentionSizes sizes = whole.sizes();
      sizes.rows -= held, sizes.held = held;
      const int64_t wide = held * shape.heads * shape.head_dim,
                    narrow = held * shape.kv_heads * shape.head_dim;
      std::vector<float> out(whole.out.size() - wide), lse(shape.heads * sizes.rows);
      for (int64_t g = 0; g < shape.kv_heads; ++g) {
        kernels_->run(kernels::PathAttention<float>{
            whole.q.data() + wide, whole.k.data() + narrow, whole.v.data() + narrow, out.data(),
            lse.data(), whole.scratch.data(), whole.pack.nodes(), sizes, held, whole.pack.rows(), g,
            whole.k.data(), whole.v.data()});
      }
      EXPECT_TRUE(std::equal(out.begin(), out.end(), whole.out.begin() + wide));
      for (int64_t h = 0; h < shape.heads; ++h) {
        EXPECT_TRUE(std::equal(lse.begin() + h * sizes.rows, lse.begin() + (h + 1) * sizes.rows,
                               whole.lse.begin() + h * whole.pack.rows() + held));
      }
    }
  }
}

TEST_P(AttentionTest, ADecodedTokenHasTheBitsOfItsRowInAPack) {
  constexpr int64_t kHeads = 6, kKvHeads = 2, kHeadDim = 20;
  for (const int64_t window : {0, 70}) {
    for (const int64_t n : {1, 15, 63, 64, 65, 128, 300}) {
      SCOPED_TRACE(n);
      Case<float> c({kHeads, kKvHeads, kHeadDim}, Pack({n}, {-1}, window));
      c.forward(*kernels_, 1000);
      const int64_t width = kernels::padded_head(kHeadDim), size = kernels::kKeyBlock * width;
      constexpr int64_t kGroup = kHeads / kKvHeads;
      std::vector<float> y(kHeads * kHeadDim);
      std::vector<float> scratch(kernels::cached_scratch(kGroup, kHeadDim), NAN);
      const auto position = static_cast<int32_t>(n - 1);
      for (int64_t g = 0; g < kKvHeads; ++g) {
        std::vector<float> keys((n + kernels::kKeyBlock) * width, NAN), values = keys;
        std::vector<kernels::CachedBlock<float>> blocks;
        for (int64_t j = 0; j < n; ++j) {
          const int64_t block = j / kernels::kKeyBlock, at = j % kernels::kKeyBlock;
          if (at == 0) {
            blocks.push_back({keys.data() + block * size, values.data() + block * size, j,
                              std::min(kernels::kKeyBlock, n - j), 0, 1});
          }
          for (int64_t i = 0; i < kHeadDim; ++i) {
            const int64_t from = (j * kKvHeads + g) * kHeadDim + i;
            keys[block * size + i * kernels::kKeyBlock + at] = c.k[from];
            values[block * size + at * width + i] = c.v[from];
          }
        }
        const int64_t head = g * kGroup * kHeadDim;
        kernels_->run(kernels::CachedAttention<float>{
            c.q.data() + (n - 1) * kHeads * kHeadDim + head, y.data() + head, &position,
            blocks.data(), scratch.data(), 1, static_cast<int64_t>(blocks.size()),
            kHeads * kHeadDim, window, kGroup, kHeadDim, c.scale});
      }
      EXPECT_TRUE(std::equal(y.begin(), y.end(), c.out.end() - kHeads * kHeadDim));
    }
  }
}

}  // namespace xrun::tree_attention_test
