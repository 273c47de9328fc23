// Times the head and a training step of a small Llama; checks the head's output before it does.
//   model_bench [head] [step] [sample]     (all of them if none is named)
// Best of several runs, in OMP_NUM_THREADS threads; GF/s count 6 R D V for the head's forward and
// backward, and ratios are to a plain fp32 GEMM timed in the same process.

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <ctime>
#include <functional>

#include "core/model/allocator.h"
#include "core/model/generate.h"
#include "core/model/init_model.h"
#include "core/model/linear_logprob.h"
#include "core/model/model.h"

namespace xrun {

namespace {

struct Seconds {
  double wall = 1e30;
  double cpu = 1e30;  // of the process: what one thread takes on a busy machine too
};

Seconds best_seconds(int runs, const std::function<void()>& work) {
  Seconds best;
  work();  // first touches and caches
  for (int i = 0; i < runs; ++i) {
    const std::clock_t cpu = std::clock();
    const auto begin = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    best.wall = std::min(best.wall, took.count());
    best.cpu = std::min(best.cpu, static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC);
  }
  return best;
}

// 1e9 floating-point operations of one plain product; dividing by seconds gives GF/s.
constexpr double kPlainGflop = 2 * 1.024 * 1.024 * 1.024;

Seconds plain_gemm() {
  const at::Tensor a = at::randn({1024, 1024}), b = at::randn({1024, 1024});
  at::Tensor c = at::empty({1024, 1024});
  return best_seconds(8, [&] { at::mm_out(c, a, b); });
}

void bench_head(int64_t rows, int64_t width, int64_t vocab, const Seconds& plain) {
  const at::Tensor hidden = at::randn({rows, width}).set_requires_grad(true);
  const at::Tensor weight = (at::randn({vocab, width}) * 0.05).set_requires_grad(true);
  const at::Tensor index = at::arange(rows, at::kLong);
  const at::Tensor target = at::randint(0, vocab, {rows}, at::kLong);
  const at::Tensor coefficient = at::randn({rows});
  const auto run = [&] {
    hidden.mutable_grad() = at::Tensor();
    weight.mutable_grad() = at::Tensor();
    linear_logprob(hidden, weight, index, target).backward(coefficient);
  };
  run();
  {
    const at::NoGradGuard no_grad;
    const at::Tensor z = hidden.narrow(0, 0, 4).to(at::kDouble).mm(weight.to(at::kDouble).t());
    const at::Tensor want =
        at::log_softmax(z, 1).gather(1, target.narrow(0, 0, 4).unsqueeze(1)).squeeze(1);
    const at::Tensor got = linear_logprob(hidden, weight, index, target).narrow(0, 0, 4);
    const double off = (got.to(at::kDouble) - want).abs().max().item<double>();
    if (!(off < 1e-5)) throw std::runtime_error(fmt::format("the head is off by {}", off));
  }
  const Seconds seconds = best_seconds(4, run);
  const double gflop = 6.0 * static_cast<double>(rows * width * vocab) / 1e9;
  fmt::print(
      "head R {} D {} V {}: {:.1f} ms, {:.0f} GF/s, {:.2f} of the GEMM; CPU {:.1f} ms, {:.2f} "
      "of the GEMM\n",
      rows, width, vocab, seconds.wall * 1e3, gflop / seconds.wall,
      gflop / seconds.wall / (kPlainGflop / plain.wall), seconds.cpu * 1e3,
      gflop / seconds.cpu / (kPlainGflop / plain.cpu));
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

void bench_step(Model& model, int64_t sequences, int64_t length, int64_t trained,
                const Seconds& plain) {
  const PackInput input = pack_sequences(prompts(sequences, length));
  std::vector<at::Tensor> rows;
  const at::Tensor all = at::arange(sequences * length, at::kLong).view({sequences, length});
  const at::Tensor index = all.narrow(1, length - trained - 1, trained).reshape({-1});
  const at::Tensor target = input.tokens.index_select(0, index + 1);
  const at::Tensor coefficient = at::randn({index.size(0)});
  double forward = 1e30;
  const Seconds seconds = best_seconds(3, [&] {
    const std::clock_t begin = std::clock();
    for (Parameter& p : model.parameters()) p.master.mutable_grad() = at::Tensor();
    const at::Tensor logprob = model.token_logprob(input, index, target);
    forward = std::min(forward, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
    logprob.backward(coefficient);
  });
  const double tokens = static_cast<double>(sequences * length);
  const double body = 106.2e6, head = 28.3e6;  // weights that each token, each loss row meets
  const double gflop = (6 * body * tokens + 6 * head * static_cast<double>(index.size(0))) / 1e9;
  fmt::print(
      "step {} x {} tokens, {} loss rows: {:.2f} s, {:.0f} tokens/s, {:.0f} GF/s; CPU {:.2f} s "
      "(forward {:.2f}), {:.2f} of the GEMM\n",
      sequences, length, index.size(0), seconds.wall, tokens / seconds.wall, gflop / seconds.wall,
      seconds.cpu, forward, gflop / seconds.cpu / (kPlainGflop / plain.cpu));
}

void bench_sample(Model& model, int64_t batch) {
  const GenerateOptions options{.max_new_tokens = 32, .batch = batch};
  const Seconds seconds = best_seconds(1, [&] { generate(model, prompts(batch, 40), options); });
  const double tokens = static_cast<double>(batch * options.max_new_tokens);
  fmt::print("sample batch {}: 40 + 32 tokens, {:.0f} tokens/s; {:.0f} tokens per CPU second\n",
             batch, tokens / seconds.wall, tokens / seconds.cpu);
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
  const xrun::Seconds plain = xrun::plain_gemm();
  fmt::print("{} threads, load {:.2f}, fp32 GEMM 1024^3 {:.0f} GF/s, {:.0f} GF per CPU second\n",
             at::get_num_threads(), load, xrun::kPlainGflop / plain.wall,
             xrun::kPlainGflop / plain.cpu);
  if (wanted("head")) {
    xrun::bench_head(1024, 256, 32000, plain);
    xrun::bench_head(1024, 768, 50304, plain);
  }
  if (!wanted("step") && !wanted("sample")) return 0;
  const auto dir = xrun::smollm_shape();
  const auto model = xrun::Model::load(dir, at::kFloat, true);
  std::filesystem::remove_all(dir);
  if (wanted("step")) xrun::bench_step(*model, 16, 60, 35, plain);
  if (wanted("sample")) xrun::bench_sample(*model, 30);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  fmt::print("peak memory {} MB\n", usage.ru_maxrss / 1024);
}
