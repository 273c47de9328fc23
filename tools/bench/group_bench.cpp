// Times a training step of one group of answers to a common prompt, and counts its peak memory: the
// group in one micro-batch, the group split with the prompt held over the micro-batches, and split
// with the prompt computed in each of them. Checked first: the gradients agree within 1e-5.
//   group_bench [PROMPT ANSWERS TOKENS PER_MICRO] [--mid] [RUNS]     (default: 2048 16 256 4, tiny,
//   5)
// Uses OMP_NUM_THREADS threads. PER_MICRO divides ANSWERS. Memory is that of the tensors, weights
// and optimizer included, above what the process held before the policy was made. "Working memory"
// leaves out what the policy and the optimizer hold between steps.

#include <fmt/core.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/base/temporary_dir.h"
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

struct GroupShape {
  int64_t prompt = 2048, answers = 16, tokens = 256, per_micro = 4;
  std::string preset = "tiny";
  int runs = 5;
};

int32_t token(int64_t stream, int64_t at) {
  return static_cast<int32_t>(
      philox_u64(17, static_cast<uint64_t>(stream), static_cast<uint64_t>(at), 0) % 30000);
}

// Answers [begin, end) of the group.
PackedBatch pack_of(const GroupShape& shape, int64_t begin, int64_t end) {
  PackedBatch pack;
  for (int64_t a = begin; a < end; ++a) {
    std::vector<int32_t> ids;
    for (int64_t t = 0; t < shape.prompt; ++t) ids.push_back(token(0, t));
    for (int64_t t = 0; t < shape.tokens; ++t) ids.push_back(token(a + 1, t));
    std::vector<uint8_t> trained(ids.size(), 0);
    std::fill(trained.begin() + shape.prompt, trained.end(), 1);
    PackedBatch::Segment segment;
    segment.row_id = segment.segment_id = a;
    pack.append(segment, ids, trained);
  }
  return pack;
}

std::shared_ptr<Batch> batch_of(std::vector<PackedBatch> packs) {
  BatchInfo info;
  info.unit = Unit::kToken;
  info.total_steps = 1000;
  info.fold.mode = FoldMode::kAuto;
  return std::make_shared<Batch>(std::move(info), std::move(packs));
}

// One of the compared ways to compute the group, as the terms of a step.
struct Arm {
  const char* name;
  std::vector<std::shared_ptr<Batch>> batches;
};

class GroupSteps {
 public:
  GroupSteps(const GroupShape& shape, const std::filesystem::path& folder) {
    install_memory_count();
    tune_allocator();
    before_ = memory_count().held;
    InitOptions init = init_preset(shape.preset);
    init.max_length = shape.prompt + shape.tokens;
    init_model(folder, init);
    policy_ = Policy::open(folder);
    AdamWOptions optim;
    optim.lr = 1e-6;
    adamw_ = std::make_unique<AdamW>(std::vector<std::shared_ptr<Trainable>>{policy_}, optim);
  }

  void step(const Arm& arm, const StepOptions& options = {}) {
    const Objective nll = [this](MicroBatch& micro) {
      ObjectiveResult result;
      result.losses.emplace_back(Unit::kToken, policy_->token_logprob(micro.all()).neg());
      return result;
    };
    std::vector<StepTerm> terms;
    // Each batch is a mean over its own tokens; equal parts average to the whole group's mean.
    for (const auto& batch : arm.batches) {
      terms.push_back({batch.get(), nll, 1.0 / static_cast<double>(arm.batches.size())});
    }
    train_step(terms, adamw_.get(), options);
  }

  std::vector<at::Tensor> gradients(const Arm& arm) {
    std::vector<at::Tensor> all;
    StepOptions options;
    options.read_gradients = [&] {
      for (const NamedTensor& one : adamw_->gradients()) all.push_back(one.tensor.clone());
    };
    step(arm, options);
    return all;
  }

  // Returns the peak of one step in MB.
  double peak_mb(const Arm& arm) {
    // Scratch is held for the next step: without this, an arm has the buffers of the one before.
    free_scratch();
    reset_memory_peak();
    step(arm);
    return static_cast<double>(memory_count().peak - before_) / 1e6;
  }

  // Returns the MB held between steps: weights and both moments.
  double held_mb() {
    free_scratch();
    return static_cast<double>(memory_count().held - before_) / 1e6;
  }

 private:
  int64_t before_ = 0;
  std::shared_ptr<Policy> policy_;
  std::unique_ptr<AdamW> adamw_;
};

double distance(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += a[i].sub(b[i]).square().sum().item().toDouble();
    size += b[i].square().sum().item().toDouble();
  }
  return std::sqrt(difference / size);
}

std::vector<Arm> arms_of(const GroupShape& shape) {
  Arm whole{"whole group", {batch_of({pack_of(shape, 0, shape.answers)})}};
  Arm held{"split, prompt held", {}}, separate{"split, prompt in each", {}};
  std::vector<PackedBatch> parts;
  for (int64_t a = 0; a < shape.answers; a += shape.per_micro) {
    parts.push_back(pack_of(shape, a, a + shape.per_micro));
    separate.batches.push_back(batch_of({parts.back()}));
  }
  held.batches.push_back(batch_of(std::move(parts)));
  return {whole, held, separate};
}

void bench(const GroupShape& shape, const std::filesystem::path& folder) {
  GroupSteps steps(shape, folder);
  const std::vector<Arm> arms = arms_of(shape);
  print_note("{}: {} answers of {} tokens to a prompt of {}, {} in a micro-batch\n", shape.preset,
             shape.answers, shape.tokens, shape.prompt, shape.per_micro);
  {
    const auto want = steps.gradients(arms[0]);
    for (const Arm& arm : arms) {
      const double off = distance(steps.gradients(arm), want);
      XRUN_CHECK(off < 1e-5, "{}: the gradients are {} from those of the whole group", arm.name,
                 off);
    }
  }
  std::vector<std::vector<double>> seconds(arms.size()), mb(arms.size());
  for (int run = -1; run < shape.runs; ++run) {
    for (size_t a = 0; a < arms.size(); ++a) {
      Stopwatch watch;
      const double peak = steps.peak_mb(arms[a]);
      if (run < 0) continue;  // the first step allocates what all of them reuse
      seconds[a].push_back(watch.lap_ms() / 1e3);
      mb[a].push_back(peak);
    }
  }
  const double held = steps.held_mb();
  print_note("weights and optimizer: {:.0f} MB\n", held);
  for (size_t a = 0; a < arms.size(); ++a) {
    std::vector<double> time_ratio, memory_ratio, working, working_ratio;
    for (int run = 0; run < shape.runs; ++run) {
      const auto r = static_cast<size_t>(run);
      time_ratio.push_back(seconds[a][r] / seconds[0][r]);
      memory_ratio.push_back(mb[a][r] / mb[0][r]);
      working.push_back(mb[a][r] - held);
      working_ratio.push_back(working.back() / (mb[0][r] - held));
    }
    const std::string name = arms[a].name;
    print_figure({name + ": step", seconds[a], "s", time_ratio, "of the whole group's"});
    print_figure({name + ": peak", mb[a], "MB", memory_ratio, "of the whole group's"});
    print_figure({name + ": working memory", working, "MB", working_ratio, "of the whole group's"});
  }
}

GroupShape shape_of(int argc, char** argv) {
  GroupShape shape;
  std::vector<int64_t> numbers;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--mid") {
      shape.preset = "mid";
    } else {
      numbers.push_back(std::atoll(argv[i]));
    }
  }
  // One number more than a shape is RUNS.
  if (numbers.size() % 4 == 1) {
    shape.runs = static_cast<int>(numbers.back());
    numbers.pop_back();
  }
  XRUN_CHECK(numbers.empty() || numbers.size() == 4,
             "usage: group_bench [PROMPT ANSWERS TOKENS PER_MICRO] [--mid] [RUNS]");
  if (!numbers.empty()) {
    shape.prompt = numbers[0], shape.answers = numbers[1];
    shape.tokens = numbers[2], shape.per_micro = numbers[3];
  }
  XRUN_CHECK(shape.per_micro > 0 && shape.answers % shape.per_micro == 0 && shape.runs > 0,
             "{} answers in micro-batches of {}, {} runs; wanted whole micro-batches and a run",
             shape.answers, shape.per_micro, shape.runs);
  return shape;
}

}  // namespace
}  // namespace xrun

int main(int argc, char** argv) {
  try {
    const xrun::TemporaryDir folder("group_bench");
    xrun::bench(xrun::shape_of(argc, argv), folder.path() / "model");
  } catch (const std::exception& error) {
    fmt::print(stderr, "group_bench: {}\n", error.what());
    return 1;
  }
  return 0;
}
