// Training on a device other than the CPU: the same numbers, and all saved tensors are on the host.

#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/log_sigmoid.h>

#include <map>

#include "core/base/error.h"
#include "core/model/weights/init_model.h"
#include "core/model/weights/safetensors.h"
#include "core/rollout/generate.h"
#include "core/train/batches/computed_pack.h"
#include "core/train/evaluate.h"
#include "core/train/models/scorer.h"
#include "tests/device/device_train.h"
#include "tests/error_of.h"

namespace xrun::train_test {
namespace {

class SameSteps : public DeviceTrain {
 protected:
  // Steps of both devices side by side.
  void expect_same_steps(const PolicyOptions& options, double tolerance) {
    const Trained here = open(device_, options), host = open(c10::kCPU, options);
    for (int64_t k = 0; k < 3; ++k) {
      const Metrics got = here.step(k), wanted = host.step(k);
      for (const auto& [name, number] : wanted) {
        if (name.starts_with("perf/")) continue;
        EXPECT_NEAR(value(got, name), number, tolerance * std::max(1.0, std::fabs(number)))
            << name << " of step " << k;
      }
    }
    const auto got = here.policy->tensors(), wanted = host.policy->tensors();
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].tensor.device(), device_);
      EXPECT_TRUE(at::allclose(got[i].tensor.cpu(), wanted[i].tensor, 0, 20 * tolerance))
          << got[i].name;
    }
  }
};

TEST_F(SameSteps, MatchesTheCpu) { expect_same_steps({}, 1e-4); }

TEST_F(SameSteps, SlowMatchesTheCpuRecomputed) { expect_same_steps({.recompute = true}, 1e-4); }

TEST_F(SameSteps, SlowMatchesTheCpuUnderAnAdapterWithDropout) {
  PolicyOptions options;
  options.lora = AdapterOptions{.rank = 4, .dropout = 0.2};
  expect_same_steps(options, 1e-4);
}

// Trees of pairs that share their prompt and the beginning of their answers.
TEST_F(SameSteps, FoldedMatchTheCpu) {
  const Trained here = open(device_), host = open(c10::kCPU);
  const auto step = [](const Trained& t, uint64_t seed) {
    BatchInfo info = fold_info(FoldMode::kAlways);
    info.device = t.policy->options().device;
    const auto batch = tiny_batch(shared_prefix_pairs(4, seed), 2, info);
    for (const auto& micro : batch->micros()) {
      EXPECT_NE(micro->computed(t.policy->model()).fold, nullptr);
    }
    return train_step({{batch.get(), t.objective()}}, t.adamw.get());
  };
  for (uint64_t k = 0; k < 3; ++k) {
    const Metrics got = step(here, k), wanted = step(host, k);
    for (const char* name : {"loss", "margin", "grad_norm"}) {
      const double number = value(wanted, name);
      // Relative for a norm above 1, as the table of docs/numerics.md has gradients.
      EXPECT_NEAR(value(got, name), number, 1e-4 * std::max(1.0, std::fabs(number)))
          << name << " of step " << k;
    }
  }
}

TEST_F(DeviceTrain, MatchesTheCpuInBf16) {
  const PolicyOptions options{.dtype = c10::ScalarType::BFloat16};
  const Trained here = open(device_, options), host = open(c10::kCPU, options);
  for (int64_t k = 0; k < 2; ++k) {
    EXPECT_NEAR(value(here.step(k), "loss"), value(host.step(k), "loss"), 3e-2);
  }
}

TEST_F(DeviceTrain, ResumesOnTheOtherDevice) {
  const Trained here = open(device_), host = open(c10::kCPU);
  here.step(0);
  std::map<std::string, at::Tensor> saved;
  const std::filesystem::path file = folder_.path() / "saved.safetensors";
  std::vector<NamedTensor> tensors = here.policy->tensors();
  for (const NamedTensor& one : here.adamw->tensors()) tensors.push_back(one);
  write_safetensors(file, tensors);
  const SafetensorsFile read(file);
  const Saveable::TensorSource source = [&](const std::string& name) { return read.read(name); };
  host.policy->restore(source, here.policy->state());
  host.adamw->restore(source, here.adamw->state());
  EXPECT_EQ(host.policy->digest(), here.policy->digest());
  EXPECT_NEAR(value(host.step(1), "loss"), value(here.step(1), "loss"), 1e-5);
  here.policy->restore(source, host.policy->state());
  EXPECT_EQ(here.policy->tensors()[0].tensor.device(), device_);
}

TEST_F(DeviceTrain, ExportsItsWeights) {
  PolicyOptions options;
  options.lora = AdapterOptions{.rank = 4};
  const Trained t = open(device_, options);
  t.step(0);
  t.step(1);
  t.policy->export_to(folder_.path() / "out");
  const auto exported = Policy::open(folder_.path() / "out");
  const auto adapted = Policy::open(folder_.path() / "out/adapter");
  const at::NoGradGuard no_grad;
  const Trained host = open(c10::kCPU);
  const at::Tensor wanted = t.policy->logprob(*t.batch(2)).cpu();
  EXPECT_TRUE(at::allclose(exported->logprob(*host.batch(2)), wanted, 1e-4, 1e-4));
  EXPECT_TRUE(at::allclose(adapted->logprob(*host.batch(2)), wanted, 1e-4, 1e-4));
}

TEST_F(DeviceTrain, SamplesOnTheDeviceAsACopyOnTheHostDoes) {
  PolicyOptions options;
  options.lora = AdapterOptions{.rank = 4};
  const Trained t = open(device_, options);
  t.step(0);
  t.step(1);
  Model& model = t.policy->model();
  const std::shared_ptr<Model> copy = model.host_copy();
  const auto answer = [](Model& of) {
    return generate(of, {{1, 2, 3}}, {.max_new_tokens = 4}).at(0).ids;
  };
  EXPECT_EQ(answer(model), answer(*copy));
  const at::NoGradGuard no_grad;
  const PackInput input = pack_sequences({{1, 2, 3, 4, 5}});
  EXPECT_TRUE(at::allclose(copy->forward(input), model.forward(input).cpu(), 1e-4, 1e-4));
}

TEST_F(DeviceTrain, FieldsAreOnTheDevice) {
  const Trained t = open(device_);
  const std::shared_ptr<Batch> batch = t.batch();
  batch->set_field("mine", at::arange(4, at::kFloat));
  MicroBatch& micro = *batch->micros()[0];
  for (const View& view : {micro.all(), micro.chosen()}) {
    for (const char* name : {"mine", "row", "weight", "length", "tokens", "pair"}) {
      EXPECT_EQ(view.field(name).device(), device_) << name;
    }
  }
  EXPECT_EQ(batch->field("row").device(), device_);
  const Trained host = open(c10::kCPU);
  const std::shared_ptr<Batch> wanted = host.batch();
  wanted->set_field("mine", at::arange(4, at::kFloat));
  EXPECT_TRUE(
      at::equal(micro.chosen().field("mine").cpu(), wanted->micros()[0]->chosen().field("mine")));
  EXPECT_TRUE(at::equal(batch->field("tokens").cpu(), wanted->field("tokens")));
}

TEST_F(DeviceTrain, HeadOutputsMatchTheCpu) {
  const Trained here = open(device_), host = open(c10::kCPU);
  const HeadOptions options{.temperature = 0.7, .entropy = true, .top_k = 3};
  const HeadResult got = here.policy->head(*here.batch(), options);
  const HeadResult wanted = host.policy->head(*host.batch(), options);
  EXPECT_EQ(got.entropy.device(), device_);
  EXPECT_TRUE(at::allclose(got.logprob.cpu(), wanted.logprob, 1e-4, 1e-4));
  EXPECT_TRUE(at::allclose(got.entropy.cpu(), wanted.entropy, 1e-4, 1e-4));
  EXPECT_TRUE(at::equal(got.top_id.cpu(), wanted.top_id));
}

TEST_F(DeviceTrain, EvaluationMatchesTheCpu) {
  const auto measure = [](const Trained& t) {
    bool done = false;
    return value(evaluate(
                     [&]() -> std::shared_ptr<Batch> {
                       return std::exchange(done, true) ? nullptr : t.batch(5, "");
                     },
                     t.objective()),
                 "loss");
  };
  const Trained here = open(device_), host = open(c10::kCPU);
  here.step(0);
  host.step(0);
  EXPECT_NEAR(measure(here), measure(host), 1e-4);
}

TEST_F(DeviceTrain, AScorerLearnsOnTheDevice) {
  const auto train = [&](const Trained& t) {
    const auto scorer = std::make_shared<Scorer>(t.policy);
    AdamWOptions optim;
    optim.lr = 1e-2;
    AdamW adamw({scorer}, optim);
    const Objective objective = [&](MicroBatch& micro) {
      const at::Tensor margin = scorer->score(micro.chosen()).sub(scorer->score(micro.rejected()));
      ObjectiveResult result;
      result.losses.emplace_back(Unit::kPair, at::log_sigmoid(margin).neg());
      return result;
    };
    double loss = 0;
    for (int64_t k = 0; k < 3; ++k)
      loss = value(train_step({{t.batch(k).get(), objective}}, &adamw), "loss");
    return loss;
  };
  const double got = train(open(device_));
  EXPECT_LT(got, 0.69);
  EXPECT_NEAR(got, train(open(c10::kCPU)), 1e-4);
}

TEST_F(DeviceTrain, RefusesAMixtureOfExperts) {
  const std::filesystem::path dir = folder_.path() / "mixture";
  init_model(dir, {.family = "qwen3_moe", .experts = 4, .top_k = 2, .expert_ffn = 32});
  PolicyOptions on_device;
  on_device.device = device_;
  EXPECT_TRUE(throws<Error>("a mixture of experts trains on the CPU only so far; use --device cpu",
                            [&] { Policy::open(dir, on_device); }));
}

}  // namespace
}  // namespace xrun::train_test
