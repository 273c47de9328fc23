// Times training steps with folded against unfolded prefixes, after checking that the log-probs of
// both have the same bits and the gradients agree within 1e-5.
//   fold_step_bench [SHAPE...] [--mid] [--vocab N] [--steps N]
// SHAPE is PROMPTxRESPONSExGROUP in tokens and sequences per prompt, or "agent": six calls, each of
// which repeats the history of 256 + 128 k tokens and answers 32; the default shapes are below. A
// step has four pairs (group 2, DPO against a constant reference), or two groups (SFT), in one
// micro-batch. Steps alternate in this process, and so does their order. Ratios are those of a pair
// of neighbouring steps: wall time, CPU time of all threads, which other programs disturb less, and
// for comparison the model's FLOPs. Uses OMP_NUM_THREADS threads. Memory is the tensors' peak.

#include <ATen/ops/log_sigmoid.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/base/temporary_dir.h"
#include "core/model/flops.h"
#include "core/model/ops/allocator.h"
#include "core/model/ops/scratch.h"
#include "core/model/weights/init_model.h"
#include "core/train/adamw.h"
#include "core/train/batches/batch.h"
#include "core/train/models/policy.h"
#include "core/train/step.h"
#include "tools/bench/spread.h"

namespace xrun {
namespace {

constexpr int64_t kAgentCalls = 6;

struct FoldBench {
  std::vector<std::string> shapes;
  std::string preset = "tiny";
  int64_t vocab = 0;  // 0: the preset's
  int steps = 9;
};

std::vector<int32_t> random_tokens(int64_t stream, int64_t count, int64_t vocab) {
  std::vector<int32_t> ids;
  for (int64_t t = 0; t < count; ++t) {
    ids.push_back(static_cast<int32_t>(
        philox_u64(17, static_cast<uint64_t>(stream), static_cast<uint64_t>(t), 0) %
        static_cast<uint64_t>(vocab)));
  }
  return ids;
}

// Appends a prompt and its answer, whose tokens are trained.
void append_answer(PackedBatch& pack, PackedBatch::Segment segment, std::vector<int32_t> ids,
                   const std::vector<int32_t>& answer) {
  std::vector<uint8_t> trained(ids.size(), 0);
  ids.insert(ids.end(), answer.begin(), answer.end());
  trained.resize(ids.size(), 1);
  segment.segment_id = segment.row_id = pack.segment_count();
  pack.append(segment, ids, trained);
}

// Returns the groups of one step. In a pair the chosen answer comes first.
PackedBatch pack_of(int64_t prompt, int64_t response, int64_t group, int64_t vocab) {
  PackedBatch pack;
  for (int64_t g = 0; g < (group == 2 ? 4 : 2); ++g) {
    for (int64_t a = 0; a < group; ++a) {
      PackedBatch::Segment segment;
      segment.group_id = g;
      if (group == 2) segment.pair_id = g, segment.side = a == 0 ? 1 : -1;
      const int64_t stream = (g + 1) * 1000;
      append_answer(pack, segment, random_tokens(stream, prompt, vocab),
                    random_tokens(stream + a + 1, response, vocab));
    }
  }
  return pack;
}

PackedBatch agent_pack(int64_t vocab) {
  PackedBatch pack;
  for (int64_t g = 0; g < 2; ++g) {
    for (int64_t call = 0; call < kAgentCalls; ++call) {
      append_answer(pack, {}, random_tokens(g, 256 + 128 * call, vocab),
                    random_tokens(100 + g * kAgentCalls + call, 32, vocab));
    }
  }
  return pack;
}

std::shared_ptr<Batch> batch_of(PackedBatch pack, FoldMode mode) {
  BatchInfo info;
  info.unit = pack.pair_count() > 0 ? Unit::kPair : Unit::kToken;
  info.total_steps = 1000;
  info.fold.mode = mode;
  std::vector<PackedBatch> packs;
  packs.push_back(std::move(pack));
  return std::make_shared<Batch>(std::move(info), std::move(packs));
}

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

// The cost of a step: seconds of the clock and of CPU time, FLOPs.
struct StepCost {
  double wall, cpu, flops;
};

class FoldSteps {
 public:
  explicit FoldSteps(const std::filesystem::path& folder) : policy_(Policy::open(folder)) {
    AdamWOptions optim;
    optim.lr = 1e-6;
    adamw_ = std::make_unique<AdamW>(std::vector<std::shared_ptr<Trainable>>{policy_}, optim);
  }

  StepCost step(Batch& batch, const StepOptions& options = {}) {
    const Objective objective = [this, pairs = batch.unit() == Unit::kPair](MicroBatch& micro) {
      ObjectiveResult result;
      logprob_ = policy_->token_logprob(micro.all());
      if (!pairs) {
        result.losses.emplace_back(Unit::kToken, logprob_.neg());
        return result;
      }
      const at::Tensor margin =
          policy_->logprob(micro.chosen()).sub(policy_->logprob(micro.rejected())).mul(0.1);
      result.losses.emplace_back(Unit::kPair, at::log_sigmoid(margin).neg());
      return result;
    };
    const double flops = counted_flops(), cpu = cpu_seconds();
    Stopwatch watch;
    train_step({{&batch, objective}}, adamw_.get(), options);
    const double wall = watch.lap_ms() / 1e3, took = cpu_seconds() - cpu;
    logprob_ = logprob_.detach();
    return {wall, took, counted_flops() - flops};
  }

  // Returns the peak of one step in MB.
  double peak_mb(Batch& batch) {
    free_scratch();  // buffers that another batch needed are not this batch's memory
    reset_memory_peak();
    step(batch);
    return static_cast<double>(memory_count().peak) / 1e6;
  }

  // Returns the gradients, followed by the log-probs of all loss rows.
  std::vector<at::Tensor> results(Batch& batch) {
    std::vector<at::Tensor> all;
    StepOptions options;
    options.read_gradients = [&] {
      for (const NamedTensor& one : adamw_->gradients()) all.push_back(one.tensor.clone());
    };
    step(batch, options);
    all.push_back(logprob_);
    return all;
  }

 private:
  std::shared_ptr<Policy> policy_;
  std::unique_ptr<AdamW> adamw_;
  at::Tensor logprob_;  // of the last step
};

void check_results(const std::string& shape, const std::vector<at::Tensor>& folded,
                   const std::vector<at::Tensor>& plain) {
  XRUN_CHECK(folded.back().equal(plain.back()), "{}: the log-probs differ", shape);
  double difference = 0, size = 0;
  for (size_t i = 0; i + 1 < plain.size(); ++i) {
    difference += folded[i].sub(plain[i]).square().sum().item().toDouble();
    size += plain[i].square().sum().item().toDouble();
  }
  const double off = std::sqrt(difference / size);
  XRUN_CHECK(off < 1e-5, "{}: the gradients differ by {}", shape, off);
}

PackedBatch pack_of_shape(const std::string& shape, int64_t vocab) {
  if (shape == "agent") return agent_pack(vocab);
  int prompt = 0, response = 0, group = 0;
  XRUN_CHECK(std::sscanf(shape.c_str(), "%dx%dx%d", &prompt, &response, &group) == 3 &&
                 prompt > 0 && response > 0 && group > 1,
             "\"{}\" is not a shape, such as 1024x64x8", shape);
  return pack_of(prompt, response, group, vocab);
}

void bench_shape(const FoldBench& bench, const std::string& shape, FoldSteps& steps) {
  const PackedBatch pack = pack_of_shape(shape, bench.vocab);
  const std::shared_ptr<Batch> plain = batch_of(pack, FoldMode::kNever);
  const std::shared_ptr<Batch> folded = batch_of(pack, FoldMode::kAuto);
  check_results(shape, steps.results(*folded), steps.results(*plain));
  const double folded_mb = steps.peak_mb(*folded), plain_mb = steps.peak_mb(*plain);
  std::vector<double> wall, cpu, ms;
  StepCost of_plain{}, of_folded{};
  for (int i = -1; i < bench.steps; ++i) {
    if (i % 2 == 0) of_plain = steps.step(*plain);
    of_folded = steps.step(*folded);
    if (i % 2 != 0) of_plain = steps.step(*plain);
    if (i < 0) continue;  // the first steps allocate what all of them reuse
    ms.push_back(1e3 * of_folded.cpu);
    wall.push_back(of_plain.wall / of_folded.wall);
    cpu.push_back(of_plain.cpu / of_folded.cpu);
  }
  print_figure({bench.preset + " " + shape + ": step", wall, "times"});
  print_figure({bench.preset + " " + shape + ": CPU time", cpu, "times"});
  print_figure({bench.preset + " " + shape + ": folded CPU time", ms, "ms"});
  print_note("{} {}: FLOPs {:.2f} times, memory {:.2f} of the unfolded\n", bench.preset, shape,
             of_plain.flops / of_folded.flops, folded_mb / plain_mb);
}

FoldBench read_arguments(int argc, char** argv) {
  FoldBench bench;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--mid") {
      bench.preset = "mid";
    } else if (word == "--vocab" && i + 1 < argc) {
      bench.vocab = std::atoll(argv[++i]);
    } else if (word == "--steps" && i + 1 < argc) {
      bench.steps = std::atoi(argv[++i]);
    } else {
      bench.shapes.push_back(word);
    }
  }
  XRUN_CHECK(bench.steps > 0, "--steps is {}, wanted at least 1", bench.steps);
  if (bench.shapes.empty()) {
    bench.shapes = {"70x500x2", "100x250x2", "400x200x2", "600x100x2",
                    "256x64x8", "1024x64x8", "agent"};
  }
  return bench;
}

void bench_all(FoldBench bench, const std::filesystem::path& folder) {
  install_memory_count();
  tune_allocator();
  InitOptions init = init_preset(bench.preset);
  if (bench.vocab > 0) init.vocab = bench.vocab;
  bench.vocab = init.vocab;
  init_model(folder, init);
  FoldSteps steps(folder);
  for (const std::string& shape : bench.shapes) bench_shape(bench, shape, steps);
}

}  // namespace
}  // namespace xrun

int main(int argc, char** argv) {
  try {
    const xrun::TemporaryDir folder("fold_step_bench");
    xrun::bench_all(xrun::read_arguments(argc, argv), folder.path() / "model");
  } catch (const std::exception& error) {
    fmt::print(stderr, "fold_step_bench: {}\n", error.what());
    return 1;
  }
  return 0;
}
