// Times attention over packs against ATen's flash call per segment, and trees against their
// unfolded sequences. Checked first: outputs and gradients of both agree.
//   attention_bench [heads kv_heads head_dim]     (default: several shapes)
// Uses OMP_NUM_THREADS threads. Runs alternate. The peer takes views of the pack, so it copies no
// key; segments of fewer than 512 tokens run in parallel with each other, longer ones within.

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/core.h>

#include <cmath>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/model/ops/allocator.h"
#include "core/model/ops/attention_op.h"
#include "tools/bench/spread.h"

namespace xrun {
namespace {

struct Heads {
  int64_t heads, kv_heads, head_dim;
};

struct BenchOutputs {
  at::Tensor out, lse, dq, dk, dv;
};

struct BenchInputs {
  at::Tensor q, k, v, grad;
  AttentionLayout layout;
  double scale = 0;

  BenchInputs(const Heads& h, AttentionLayout of, at::ScalarType type = at::kFloat)
      : layout(std::move(of)), scale(1 / std::sqrt(static_cast<double>(h.head_dim))) {
    const int64_t rows = layout.cu_seqlens.back();
    q = at::randn({rows, h.heads, h.head_dim}).to(type), grad = at::randn(q.sizes()).to(type);
    k = at::randn({rows, h.kv_heads, h.head_dim}).to(type), v = at::randn(k.sizes()).to(type);
  }

  BenchOutputs ours(bool backward) const {
    static const auto forward_op = find_op<AttentionForward>("xrun::varlen_attention_forward");
    static const auto backward_op = find_op<AttentionBackward>("xrun::varlen_attention_backward");
    BenchOutputs y;
    std::tie(y.out, y.lse) = forward_op.call(q, k, v, layout.cu_seqlens, scale, 0, layout.parent);
    if (!backward) return y;
    std::tie(y.dq, y.dk, y.dv) =
        backward_op.call(grad, q, k, v, y.out, y.lse, layout.cu_seqlens, scale, 0, layout.parent);
    return y;
  }

  BenchOutputs flash(bool backward) const;
};

// Views of one segment: queries [T, H, K] as [J, H/J, n, K], keys [T, J, K] as H/J copies of stride
// 0.
at::Tensor query_view(const at::Tensor& q, int64_t groups, int64_t begin, int64_t n) {
  return q.narrow(0, begin, n)
      .view({n, groups, q.size(1) / groups, q.size(2)})
      .permute({1, 2, 0, 3});
}

at::Tensor key_view(const at::Tensor& k, int64_t share, int64_t begin, int64_t n) {
  return k.narrow(0, begin, n)
      .permute({1, 0, 2})
      .unsqueeze(1)
      .expand({k.size(1), share, n, k.size(2)});
}

BenchOutputs BenchInputs::flash(bool backward) const {
  const int64_t groups = k.size(1), share = q.size(1) / groups;
  BenchOutputs y{at::empty_like(q), at::empty({q.size(1), q.size(0)}), {}, {}, {}};
  if (backward) y.dq = at::empty_like(q), y.dk = at::zeros_like(k), y.dv = at::zeros_like(v);
  const auto segment = [&](int64_t s) {
    const int64_t begin = layout.cu_seqlens[static_cast<size_t>(s)];
    const int64_t n = layout.cu_seqlens[static_cast<size_t>(s) + 1] - begin;
    const at::Tensor q1 = query_view(q, groups, begin, n), k1 = key_view(k, share, begin, n);
    const at::Tensor v1 = key_view(v, share, begin, n);
    const auto [out, lse] =
        at::_scaled_dot_product_flash_attention_for_cpu(q1, k1, v1, 0.0, true, {}, scale);
    query_view(y.out, groups, begin, n).copy_(out);
    y.lse.view({groups, share, q.size(0)}).narrow(2, begin, n).copy_(lse);
    if (!backward) return;
    const auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        query_view(grad, groups, begin, n), q1, k1, v1, out, lse, 0.0, true, {}, scale);
    query_view(y.dq, groups, begin, n).copy_(dq);
    // [J, H/J, n, K] -> [n, J, K]: a key's gradient is the sum over the heads that share the key.
    y.dk.narrow(0, begin, n).add_(dk.sum(1).permute({1, 0, 2}));
    y.dv.narrow(0, begin, n).add_(dv.sum(1).permute({1, 0, 2}));
  };
  const auto count = static_cast<int64_t>(layout.cu_seqlens.size()) - 1;
  if (layout.cu_seqlens[1] >= 512) {
    for (int64_t s = 0; s < count; ++s) segment(s);
    return y;
  }
  at::parallel_for(0, count, 1, [&](int64_t from, int64_t to) {
    const at::NoGradGuard no_grad;  // per thread
    for (int64_t s = from; s < to; ++s) segment(s);
  });
  return y;
}

void expect_close(const at::Tensor& a, const at::Tensor& b, double tolerance, const char* what) {
  const double size = b.abs().max().item<double>(), off = (a - b).abs().max().item<double>();
  if (!(off < tolerance * size)) {
    throw std::runtime_error(fmt::format("{} of size {} is off by {}", what, size, off));
  }
}

std::string shape_name(const Heads& h) {
  return fmt::format("{}/{} heads of {}", h.heads, h.kv_heads, h.head_dim);
}

void bench_pack(const Heads& h, int64_t segments, int64_t length,
                at::ScalarType type = at::kFloat) {
  AttentionLayout layout{{0}};
  for (int64_t s = 0; s < segments; ++s) layout.cu_seqlens.push_back((s + 1) * length);
  const BenchInputs work(h, layout, type);
  const BenchOutputs a = work.ours(true), b = work.flash(true);
  const double tolerance = type == at::kFloat ? 1e-5 : 2e-2;
  expect_close(a.out, b.out, tolerance, "the output");
  expect_close(a.lse, b.lse, tolerance, "the log-sum-exp");
  expect_close(a.dq, b.dq, tolerance, "dq");
  expect_close(a.dk, b.dk, tolerance, "dk");
  expect_close(a.dv, b.dv, tolerance, "dv");
  for (const bool backward : {false, true}) {
    const Pairs pairs = interleave(
        21, [&] { work.flash(backward); }, [&] { work.ours(backward); });
    print_figure({fmt::format("{} x {} tokens, {}, {}, {}", segments, length, shape_name(h),
                              type == at::kFloat ? "fp32" : "bf16",
                              backward ? "forward and backward" : "forward"),
                  pairs.b_ms, "ms", pairs.ratio, "times as fast as flash attention"});
  }
}

// Times a prompt that `answers` answers share against as many separate sequences.
void bench_tree(const Heads& h, int64_t prompt, int64_t answers, int64_t length) {
  AttentionLayout folded{{0, prompt}, {-1}}, unfolded{{0}};
  for (int64_t i = 0; i < answers; ++i) {
    folded.cu_seqlens.push_back(prompt + (i + 1) * length);
    folded.parent.push_back(0);
    unfolded.cu_seqlens.push_back((i + 1) * (prompt + length));
  }
  const BenchInputs tree(h, folded);
  BenchInputs plain(h, unfolded);
  for (int64_t i = 0; i < answers; ++i) {
    const auto copy = [&](at::Tensor to, const at::Tensor& from) {
      const int64_t begin = i * (prompt + length);
      to.narrow(0, begin, prompt).copy_(from.narrow(0, 0, prompt));
      to.narrow(0, begin + prompt, length).copy_(from.narrow(0, prompt + i * length, length));
    };
    copy(plain.q, tree.q), copy(plain.k, tree.k), copy(plain.v, tree.v);
  }
  const at::Tensor a = tree.ours(false).out, b = plain.ours(false).out;
  for (int64_t i = 0; i < answers; ++i) {
    if (!a.narrow(0, prompt + i * length, length)
             .equal(b.narrow(0, i * (prompt + length) + prompt, length))) {
      throw std::runtime_error("the tree does not have the bits of its sequences");
    }
  }
  const Pairs pairs = interleave(
      11, [&] { plain.ours(true); }, [&] { tree.ours(true); });
  print_figure({fmt::format("prompt of {} over {} x {}, {}, forward and backward", prompt, answers,
                            length, shape_name(h)),
                pairs.b_ms, "ms", pairs.ratio, "times as fast as unfolded"});
}

int run(const std::vector<Heads>& shapes) {
  const at::NoGradGuard no_grad;
  tune_allocator();
  double load = 0;
  getloadavg(&load, 1);
  print_note("{} threads, load {:.2f}, kernels {}\n", at::get_num_threads(), load,
             kernels::cpu_kernels().name);
  for (const Heads& h : shapes) {
    bench_pack(h, 1, 1024);
    bench_pack(h, 2, 600);
    bench_pack(h, 16, 60);
    bench_pack(h, 8, 250);
    bench_pack(h, 1, 1024, at::kBFloat16);
    bench_pack(h, 16, 60, at::kBFloat16);
    bench_tree(h, 1024, 8, 64);
    bench_tree(h, 512, 2, 256);
  }
  return 0;
}

}  // namespace
}  // namespace xrun

int main(int argc, char** argv) {
  try {
    if (argc == 4) {
      return xrun::run({{std::atoll(argv[1]), std::atoll(argv[2]), std::atoll(argv[3])}});
    }
    return xrun::run({{9, 3, 64}, {8, 8, 32}, {8, 2, 128}, {12, 12, 64}});
  } catch (const std::exception& error) {
    fmt::print(stderr, "attention_bench: {}\n", error.what());
    return 1;
  }
}
