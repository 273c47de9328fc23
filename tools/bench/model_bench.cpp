// Times the head, a training step and sampling of a small Llama. Checked first: the head's
// gradients are those of eager PyTorch; a packed sequence, and a sampled one, has the bits of one
// computed alone.
//   model_bench [head] [step] [sample] [small]     (default: all; small: without the largest head)
// Uses OMP_NUM_THREADS threads. Runs alternate with those of a peer, eager PyTorch for the head and
// a plain fp32 GEMM for the step.

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>

#include "core/base/temporary_dir.h"
#include "core/model/model.h"
#include "core/model/ops/allocator.h"
#include "core/model/ops/linear_head.h"
#include "core/model/weights/init_model.h"
#include "core/rollout/generate.h"
#include "tools/bench/spread.h"

namespace xrun {

namespace {

// 1e9 floating-point operations of one plain product; dividing by seconds gives GF/s.
constexpr double kPlainGflop = 2 * 1.024 * 1.024 * 1.024;

// 16 plain products of 1024 x 1024 x 1024, which measure the machine's peak.
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

// Prints `units` per second of a run that takes `gflop`, and its share of the machine's peak in
// each pair.
void print_share(const std::string& name, const Pairs& against_gemm, double gflop, double units,
                 const std::string& unit) {
  std::vector<double> rates, shares;
  for (const double ms : against_gemm.a_ms) rates.push_back(units / ms * 1e3);
  for (const double ratio : against_gemm.ratio) {
    shares.push_back(gflop / PlainGemm::gflop() / ratio);
  }
  print_figure({name, rates, unit, shares, "of a plain GEMM's rate"});
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

// Checks that all three give the same gradients.
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
  // 6 operations for each weight and row: 2 forward, 4 backward.
  const double gflop = 6.0 * static_cast<double>(rows * width * vocab) / 1e9;
  // A few seconds a shape: from some 60 pairs of the smallest to 9 of the largest.
  const int pairs = static_cast<int>(std::clamp(600 / gflop, 9.0, 61.0));
  const Pairs eager = interleave(
      pairs, [&] { head.ours(); }, [&] { head.eager(); });
  const std::string name =
      fmt::format("head T {} D {} V {}, {} loss rows", tokens, width, vocab, rows);
  print_figure({name, eager.a_ms, "ms", eager.ratio, "of eager's time"});
  const Pairs general = interleave(
      5, [&] { head.general(); }, [&] { head.ours(); });
  print_figure({name + ", with lse", general.a_ms, "ms", general.ratio, "of targets alone"});
  PlainGemm gemm;
  print_share(name,
              interleave(
                  5, [&] { head.ours(); }, [&] { gemm(); }),
              gflop, gflop, "GF/s");
}

// Returns a trainable model of the shape of SmolLM2-135M.
std::shared_ptr<Model> smollm_shape() {
  const TemporaryDir folder("model_bench");
  init_model(folder.path() / "model", {.layers = 30,
                                       .hidden = 576,
                                       .heads = 9,
                                       .kv_heads = 3,
                                       .ffn = 1536,
                                       .vocab = 49152,
                                       .max_length = 8192,
                                       .rope_theta = 100000});
  return Model::load(folder.path() / "model", {.trainable = true});
}

std::vector<std::vector<int32_t>> prompts(int64_t count, int64_t length) {
  std::vector<std::vector<int32_t>> all(static_cast<size_t>(count));
  int32_t id = 1;
  for (auto& one : all) {
    for (int64_t t = 0; t < length; ++t) one.push_back(id = (id * 7919 + 13) % 49152);
  }
  return all;
}

// Checks that the first log-probs are those of `alone` (docs/numerics.md: a sample against the
// training forward, fp32).
void check_close(const at::Tensor& logprobs, const at::Tensor& alone, const char* what) {
  constexpr double kRounding = 1e-4;
  const double off = (logprobs.narrow(0, 0, alone.size(0)) - alone).abs().max().item<double>();
  if (!(off < kRounding)) {
    throw std::runtime_error(
        fmt::format("{} are off by {} from those of one computed alone", what, off));
  }
}

void check_step(Model& model, const std::vector<std::vector<int32_t>>& sequences,
                const at::Tensor& index, const at::Tensor& target, int64_t trained) {
  const at::NoGradGuard no_grad;
  const at::Tensor first = index.narrow(0, 0, trained), ids = target.narrow(0, 0, trained);
  check_close(model.token_logprob(pack_sequences(sequences), index, target),
              model.token_logprob(pack_sequences({sequences[0]}), first, ids),
              "log-probs of a packed sequence");
}

void bench_step(Model& model, int64_t sequences, int64_t length, int64_t trained) {
  const PackInput input = pack_sequences(prompts(sequences, length));
  const at::Tensor all = at::arange(sequences * length, at::kLong).view({sequences, length});
  const at::Tensor index = all.narrow(1, length - trained - 1, trained).reshape({-1});
  const at::Tensor target = input.tokens.index_select(0, index + 1);
  check_step(model, prompts(sequences, length), index, target, trained);
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
  // Per layer 2 x 576 x 576 + 2 x 576 x 192 + 3 x 576 x 1536, 30 layers; the head 576 x 49152.
  const double body = 106.2e6, head = 28.3e6;  // weights that each token, each loss row meets
  print_share(fmt::format("forward and backward of {} x {} tokens, {} loss rows", sequences, length,
                          index.size(0)),
              pairs, (6 * body * tokens + 6 * head * static_cast<double>(index.size(0))) / 1e9,
              tokens, "tokens/s");
}

void check_sample(Model& model, std::vector<int32_t> sequence, const Generation& made) {
  const at::NoGradGuard no_grad;
  const auto prompt = static_cast<int64_t>(sequence.size());
  const auto count = static_cast<int64_t>(made.ids.size());
  sequence.insert(sequence.end(), made.ids.begin(), made.ids.end());
  const PackInput input = pack_sequences({sequence});
  const at::Tensor index = at::arange(prompt - 1, prompt - 1 + count, at::kLong);
  at::Tensor sampled = at::empty({count});
  std::copy(made.logprobs.begin(), made.logprobs.end(), sampled.mutable_data_ptr<float>());
  check_close(sampled, model.token_logprob(input, index, input.tokens.index_select(0, index + 1)),
              "log-probs of a sampled answer");
}

// Samples each prompt once, with a draft of its answer if there are drafts.
std::vector<Generation> sample_with(Model& model, const std::vector<std::vector<int32_t>>& prompts,
                                    const std::vector<Generation>& drafts) {
  Sampler sampler(model, {.batch = static_cast<int64_t>(prompts.size())});
  for (size_t p = 0; p < prompts.size(); ++p) {
    SampleRequest request{.prompt = prompts[p],
                          .max_new_tokens = 32,
                          .sampling = {.temperature = 1},
                          .prompt_key = p};
    if (!drafts.empty()) request.drafts = {drafts[p].ids};
    sampler.submit(std::move(request));
  }
  while (sampler.step()) {
  }
  std::vector<Generation> answers;
  while (auto group = sampler.poll()) answers.push_back(std::move(group->samples[0]));
  return answers;
}

// Times sampling with drafts. `right` of every ten are the answer; the others differ from its
// middle on.
void bench_drafts(Model& model, int64_t batch, int64_t right) {
  const auto given = prompts(batch, 40);
  const std::vector<Generation> answers = sample_with(model, given, {});
  std::vector<Generation> drafts = answers;
  for (size_t p = 0; p < drafts.size(); ++p) {
    std::vector<int32_t>& ids = drafts[p].ids;
    if (static_cast<int64_t>(p % 10) < right) continue;
    for (size_t t = ids.size() / 2; t < ids.size(); ++t) ids[t] = (ids[t] + 1) % 49152;
  }
  const std::vector<Generation> again = sample_with(model, given, drafts);
  for (size_t p = 0; p < answers.size(); ++p) {
    if (again[p].ids != answers[p].ids || again[p].logprobs != answers[p].logprobs)
      throw std::runtime_error("a draft changed an answer");
  }
  const Pairs pairs = interleave(
      3, [&] { sample_with(model, given, drafts); }, [&] { sample_with(model, given, {}); });
  print_figure(
      {fmt::format("sampling, batch {}, 40 + 32 tokens, {} of 10 drafts right", batch, right),
       pairs.a_ms, "ms", pairs.ratio, "of the time without drafts"});
}

void bench_sample(Model& model, int64_t batch) {
  const GenerateOptions options{.max_new_tokens = 32, .batch = batch};
  check_sample(model, prompts(batch, 40)[0], generate(model, prompts(batch, 40), options)[0]);
  const double tokens = static_cast<double>(batch * options.max_new_tokens);
  std::vector<double> rates;
  for (int i = 0; i < 3; ++i) {
    Stopwatch watch;
    generate(model, prompts(batch, 40), options);
    rates.push_back(tokens / watch.lap_ms() * 1e3);
  }
  print_figure({fmt::format("sampling, batch {}, 40 + 32 tokens", batch), rates, "tokens/s"});
}

int run(const std::vector<std::string_view>& names) {
  const auto given = [&](std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const auto wanted = [&](std::string_view name) { return names.empty() || given(name); };
  tune_allocator();
  double load = 0;
  getloadavg(&load, 1);
  print_note("{} threads, load {:.2f}\n", at::get_num_threads(), load);
  if (wanted("head")) {
    for (const double fraction : {1.0, 0.2}) {
      bench_head(2048, 64, 8192, fraction);
      bench_head(1024, 256, 32000, fraction);
      if (!given("small")) bench_head(1024, 768, 50304, fraction);
    }
  }
  if (!wanted("step") && !wanted("sample")) return 0;
  const auto model = smollm_shape();
  if (wanted("step")) bench_step(*model, 16, 60, 35);
  if (wanted("sample")) {
    for (const int64_t batch : {8, 30}) bench_sample(*model, batch);
    for (const int64_t right : {10, 5}) bench_drafts(*model, 8, right);
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  print_note("peak memory {} MB\n", usage.ru_maxrss / 1024);
  return 0;
}

}  // namespace

}  // namespace xrun

int main(int argc, char** argv) {
  try {
    return xrun::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    fmt::print(stderr, "model_bench: {}\n", error.what());
    return 1;
  }
}
