// Times the head and a training step of a small Llama; checks the head's output before it does.
//   model_bench [head] [step] [sample]     (default: all)
// Uses OMP_NUM_THREADS threads. Runs alternate with those of a peer, eager PyTorch for the head and
// a plain fp32 GEMM for the step; prints the median (lowest to highest) and the ratio of each pair.

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "core/model/generate.h"
#include "core/model/model.h"
#include "core/model/ops/allocator.h"
#include "core/model/ops/linear_head.h"
#include "core/model/weights/init_model.h"
#include "tools/bench/spread.h"

namespace xrun {

namespace {

// 1e9 floating-point operations of one plain product; dividing by seconds gives GF/s.
constexpr double kPlainGflop = 2 * 1.024 * 1.024 * 1.024;

// Some plain products, for the machine's peak: 16 of 1024 x 1024 x 1024.
class PlainGemm {
 public:
  void operator()() {
    for (int i = 0; i < 16; ++i) at::mm_out(c_, a_, b_);
  }
  static double gflop() { return 16 * kPlainGflop; }

 private:
  at::Tensor a_ = at::randn({1024, 1024}), b_ = at::randn({1024, 1024}),
             c_ = at::empty({1024, 1024});
};

// Prints the rates of `gflop` of work, and its share of the machine's peak in each pair.
void print_share(const Pairs& against_gemm, double gflop) {
  std::vector<double> rates, shares;
  for (const double ms : against_gemm.a_ms) rates.push_back(gflop / ms * 1e3);
  for (const double ratio : against_gemm.ratio) {
    shares.push_back(gflop / PlainGemm::gflop() / ratio);
  }
  fmt::print("  {}; of a plain GEMM's rate {}\n", spread_of(rates, "GF/s"), spread_of(shares, ""));
}

// The peer is what a plain loop would write: one linear over the chosen rows, then cross-entropy.
struct Head {
  at::Tensor hidden, weight, index, target;

  void clear() {
    hidden.mutable_grad() = at::Tensor();
    weight.mutable_grad() = at::Tensor();
  }
  void ours() {
    clear();
    linear_head(hidden, weight, index, target).logprob.mean().neg().backward();
  }
  // The general form, which keeps logits: the log-sum-exp is wanted as well.
  void general() {
    clear();
    linear_head(hidden, weight, index, target, {.lse = true}).logprob.mean().neg().backward();
  }
  void eager() {
    clear();
    const bool all = index.size(0) == hidden.size(0);
    const at::Tensor rows = all ? hidden : hidden.index_select(0, index);
    at::cross_entropy_loss(at::linear(rows, weight), target).backward();
  }
};

// All must give the same gradients.
void check_head(Head& head) {
  head.eager();
  const at::Tensor hidden = head.hidden.grad().clone(), weight = head.weight.grad().clone();
  const auto expect_same = [&](const char* what) {
    const double size =
        std::max(hidden.abs().max().item<double>(), weight.abs().max().item<double>());
    const double off = std::max((hidden - head.hidden.grad()).abs().max().item<double>(),
                                (weight - head.weight.grad()).abs().max().item<double>());
    if (!(off < 1e-5 * size)) {
      throw std::runtime_error(
          fmt::format("{}: gradients of size {} are off by {}", what, size, off));
    }
  };
  head.ours();
  expect_same("targets alone");
  head.general();
  expect_same("with lse");
}

// `fraction` of the tokens have a loss; they are spread evenly.
void bench_head(int64_t tokens, int64_t width, int64_t vocab, double fraction) {
  const auto rows = static_cast<int64_t>(std::llround(fraction * static_cast<double>(tokens)));
  Head head{at::randn({tokens, width}).set_requires_grad(true),
            (at::randn({vocab, width}) * 0.05).set_requires_grad(true),
            at::arange(rows, at::kLong).mul(tokens).floor_divide(rows),
            at::randint(0, vocab, {rows}, at::kLong)};
  check_head(head);
  // A few seconds a shape: from some 60 pairs of the smallest to 9 of the largest.
  const double gflop = 6.0 * static_cast<double>(rows * width * vocab) / 1e9;
  const int pairs = static_cast<int>(std::clamp(600 / gflop, 9.0, 61.0));
  const Pairs eager = interleave(
      pairs, [&] { head.ours(); }, [&] { head.eager(); });
  fmt::print(
      "head T {} D {} V {}, {} loss rows, forward and backward\n  ours  {}\n  eager {}\n"
      "  ratio {}\n",
      tokens, width, vocab, rows, spread_of(eager.a_ms, "ms"), spread_of(eager.b_ms, "ms"),
      spread_of(eager.ratio, "of eager"));
  const Pairs general = interleave(
      5, [&] { head.general(); }, [&] { head.ours(); });
  fmt::print("  with lse {}\n", spread_of(general.ratio, "of targets alone"));
  PlainGemm gemm;
  print_share(interleave(
                  5, [&] { head.ours(); }, [&] { gemm(); }),
              6.0 * static_cast<double>(rows * width * vocab) / 1e9);
}

std::filesystem::path smollm_shape() {
  const std::filesystem::path dir =
      std::filesystem::temp_directory_path() / fmt::format("xrun_bench_{}", ::getpid());
  init_model(dir, {.layers = 30,
                   .hidden = 576,
                   .heads = 9,
                   .kv_heads = 3,
                   .ffn = 1536,
                   .vocab = 49152,
                   .max_length = 8192,
                   .rope_theta = 100000});
  return dir;
}

std::vector<std::vector<int32_t>> prompts(int64_t count, int64_t length) {
  std::vector<std::vector<int32_t>> all(static_cast<size_t>(count));
  int32_t id = 1;
  for (auto& one : all) {
    for (int64_t t = 0; t < length; ++t) one.push_back(id = (id * 7919 + 13) % 49152);
  }
  return all;
}

void bench_step(Model& model, int64_t sequences, int64_t length, int64_t trained) {
  const PackInput input = pack_sequences(prompts(sequences, length));
  const at::Tensor all = at::arange(sequences * length, at::kLong).view({sequences, length});
  const at::Tensor index = all.narrow(1, length - trained - 1, trained).reshape({-1});
  const at::Tensor target = input.tokens.index_select(0, index + 1);
  const at::Tensor coefficient = at::randn({index.size(0)});
  PlainGemm gemm;
  const Pairs pairs = interleave(
      5,
      [&] {
        for (Parameter& p : model.parameters()) p.master.mutable_grad() = at::Tensor();
        model.token_logprob(input, index, target).backward(coefficient);
      },
      [&] { gemm(); });
  const double tokens = static_cast<double>(sequences * length);
  const double body = 106.2e6, head = 28.3e6;  // weights that each token, each loss row meets
  std::vector<double> rates;
  for (const double ms : pairs.a_ms) rates.push_back(tokens / ms * 1e3);
  fmt::print("forward and backward of {} x {} tokens, {} loss rows\n  {}\n", sequences, length,
             index.size(0), spread_of(rates, "tokens/s"));
  print_share(pairs, (6 * body * tokens + 6 * head * static_cast<double>(index.size(0))) / 1e9);
}

void bench_sample(Model& model, int64_t batch) {
  const GenerateOptions options{.max_new_tokens = 32, .batch = batch};
  const double tokens = static_cast<double>(batch * options.max_new_tokens);
  std::vector<double> rates;
  for (int i = 0; i < 4; ++i) {
    Stopwatch watch;
    generate(model, prompts(batch, 40), options);
    const double ms = watch.lap_ms();
    if (i > 0) rates.push_back(tokens / ms * 1e3);
  }
  fmt::print("sample batch {}, 40 + 32 tokens\n  {}\n", batch, spread_of(rates, "tokens/s"));
}

}  // namespace

}  // namespace xrun

int main(int argc, char** argv) {
  const auto wanted = [&](const char* name) {
    bool found = argc == 1;
    for (int i = 1; i < argc; ++i) found |= std::strcmp(argv[i], name) == 0;
    return found;
  };
  xrun::tune_allocator();
  double load = 0;
  getloadavg(&load, 1);
  fmt::print("{} threads, load {:.2f}\n", at::get_num_threads(), load);
  if (wanted("head")) {
    for (const double fraction : {1.0, 0.2}) {
      xrun::bench_head(2048, 64, 8192, fraction);
      xrun::bench_head(1024, 256, 32000, fraction);
      xrun::bench_head(1024, 768, 50304, fraction);
    }
  }
  if (!wanted("step") && !wanted("sample")) return 0;
  const auto dir = xrun::smollm_shape();
  const auto model = xrun::Model::load(dir, at::kFloat, true);
  std::filesystem::remove_all(dir);
  if (wanted("step")) xrun::bench_step(*model, 16, 60, 35);
  if (wanted("sample")) xrun::bench_sample(*model, 30);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  fmt::print("peak memory {} MB\n", usage.ru_maxrss / 1024);
}
