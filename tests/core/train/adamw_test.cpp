// AdamW against torch.optim.AdamW, its clipping, and its saved state.

#include "core/train/adamw.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "core/base/json.h"
#include "kernels/cpu/adamw.h"
#include "tests/core/train/stub_trainable.h"
#include "tests/error_of.h"
#include "tests/parity.h"
#include "tests/tree.h"

namespace xrun::adamw_test {
namespace {

Json golden() { return read_json(source_path("tests/golden/adamw.json")); }

std::vector<float> floats(const Json& list) {
  std::vector<float> out;
  for (const Json& value : list.as_array()) out.push_back(static_cast<float>(value.as_double()));
  return out;
}

std::vector<int64_t> shape_of(const Json& list) {
  std::vector<int64_t> out;
  for (const Json& value : list.as_array()) out.push_back(value.as_int());
  return out;
}

AdamWOptions options_of(const Json& run) {
  AdamWOptions options;
  options.lr = run.at("lr").as_double();
  options.beta1 = run.at("betas").as_array()[0].as_double();
  options.beta2 = run.at("betas").as_array()[1].as_double();
  options.eps = run.at("eps").as_double();
  options.weight_decay = run.at("weight_decay").as_double();
  options.clip = run.at("clip").as_double();
  return options;
}

std::shared_ptr<StubTrainable> weights_of(const Json& golden, const Json& run) {
  auto weights = std::make_shared<StubTrainable>();
  for (const auto& [name, shape] : golden.at("shapes").as_object()) {
    weights->add(name, floats(run.at("start").at(name)), shape_of(shape));
  }
  return weights;
}

void set_gradients(StubTrainable& weights, const Json& grads) {
  for (Parameter& parameter : weights.parameters()) {
    const Json* grad = grads.find(parameter.name);
    if (grad == nullptr) continue;
    parameter.master.mutable_grad() = at::tensor(floats(*grad)).view(parameter.master.sizes());
  }
}

TEST(AdamW, MatchesTorchWithDecayAndClipping) {
  const Json all = golden();
  for (const Json& run : all.at("runs").as_array()) {
    const auto weights = weights_of(all, run);
    AdamW adamw({weights}, options_of(run));
    for (const Json& step : run.at("steps").as_array()) {
      set_gradients(*weights, step.at("grads"));
      const double norm = adamw.grad_norm().item().toDouble();
      const double wanted = step.at("grad_norm").as_double();
      expect_parity(norm, wanted, 1e-6 * wanted);
      adamw.update(step.at("lr").as_double(), norm);
      for (const Parameter& parameter : weights->parameters()) {
        const at::Tensor got = parameter.master.detach().view(-1);
        const std::vector<float> after = floats(step.at("after").at(parameter.name));
        for (size_t i = 0; i < after.size(); ++i) {
          SCOPED_TRACE(fmt::format("{}[{}]", parameter.name, i));
          expect_parity(got[static_cast<int64_t>(i)].item().toDouble(), after[i], 2e-6);
        }
      }
    }
    EXPECT_EQ(adamw.update_count(), 6);
    EXPECT_EQ(weights->updates, 6);
  }
}

TEST(AdamW, LeavesAWeightWithoutGradientUnchanged) {
  auto weights = std::make_shared<StubTrainable>();
  weights->add("a", {1, 2, 3, 4}, {2, 2});
  weights->add("b", {1, 2, 3, 4}, {2, 2});
  AdamWOptions options;
  options.lr = 0.1;
  options.weight_decay = 0.5;
  AdamW adamw({weights}, options);
  const at::Tensor before = weights->parameters()[1].master.detach().clone();
  weights->parameters()[0].master.mutable_grad() = at::tensor({1.f, 1.f, 1.f, 1.f}).view({2, 2});
  adamw.update(0.1, 2.0);
  EXPECT_TRUE(at::equal(weights->parameters()[1].master, before));
  EXPECT_FALSE(at::equal(weights->parameters()[0].master, before));
  for (const Parameter& parameter : weights->parameters()) {
    EXPECT_FALSE(parameter.master.grad().defined()) << "gradients are freed by the update";
  }
}

TEST(AdamW, AnUpdateWithoutAnyGradientChangesNoByte) {
  auto weights = std::make_shared<StubTrainable>();
  weights->add("a", {1, 2, 3, 4}, {2, 2});
  AdamWOptions options;
  options.lr = 0.1;
  options.weight_decay = 0.5;
  AdamW adamw({weights}, options);
  const at::Tensor before = weights->parameters()[0].master.detach().clone();
  adamw.update(0.1, adamw.grad_norm().item().toDouble());
  EXPECT_TRUE(at::equal(weights->parameters()[0].master, before));
}

TEST(AdamW, AWeightWithoutATensorIsRefused) {
  auto weights = std::make_shared<StubTrainable>();
  weights->add("a", {1, 2}, {2});
  weights->add("b", {1, 2}, {2});
  weights->parameters()[1].master = at::Tensor();
  AdamWOptions options;
  options.lr = 0.1;
  AdamW adamw({weights}, options);
  EXPECT_EQ(message_of<Error>([&] { adamw.update(0.1, 1.0); }),
            "b cannot be trained: wanted an fp32 weight that requires a gradient");
}

TEST(AdamW, StateIsTwoMomentsPerWeight) {
  const Json all = golden();
  const auto weights = weights_of(all, all.at("runs").as_array()[0]);
  AdamW adamw({weights}, options_of(all.at("runs").as_array()[0]));
  EXPECT_TRUE(adamw.tensors().empty());
  adamw.update(0.1, 1.0);
  const std::vector<NamedTensor> tensors = adamw.tensors();
  ASSERT_EQ(tensors.size(), 6u);
  EXPECT_EQ(tensors[0].name, "exp_avg.matrix");
  EXPECT_EQ(tensors[1].name, "exp_avg_sq.matrix");
  int64_t bytes = 0;
  for (const NamedTensor& one : tensors) bytes += static_cast<int64_t>(one.tensor.nbytes());
  EXPECT_EQ(bytes, 2 * 4 * (15 + 7 + 4));
}

TEST(AdamW, ComputesTheSameBitsAfterARestore) {
  const Json all = golden();
  const Json& run = all.at("runs").as_array()[1];
  const auto weights = weights_of(all, run);
  AdamW adamw({weights}, options_of(run));
  const Json::Array& steps = run.at("steps").as_array();
  const auto take = [&](StubTrainable& w, AdamW& optimizer, size_t k) {
    set_gradients(w, steps[k].at("grads"));
    optimizer.update(steps[k].at("lr").as_double(), optimizer.grad_norm().item().toDouble());
  };
  for (size_t k = 0; k < 3; ++k) take(*weights, adamw, k);
  auto twin = std::make_shared<StubTrainable>();
  for (const Parameter& p : weights->parameters()) {
    const at::Tensor flat = p.master.detach().contiguous().view(-1);
    twin->add(p.name, {flat.const_data_ptr<float>(), flat.const_data_ptr<float>() + flat.numel()},
              p.master.sizes().vec());
  }
  AdamW resumed({twin}, options_of(run));
  std::map<std::string, at::Tensor> saved;
  for (const NamedTensor& one : adamw.tensors()) saved[one.name] = one.tensor.clone();
  const Json state = parse_json(dump_json(adamw.state()), "state");
  resumed.restore([&](const std::string& name) { return saved.at(name); }, state);
  for (size_t k = 3; k < steps.size(); ++k) {
    take(*weights, adamw, k);
    take(*twin, resumed, k);
  }
  for (size_t i = 0; i < weights->parameters().size(); ++i) {
    EXPECT_TRUE(at::equal(weights->parameters()[i].master, twin->parameters()[i].master));
  }
}

TEST(AdamW, RefusesSavedStateOfAnotherShape) {
  auto weights = std::make_shared<StubTrainable>();
  weights->add("a", {1, 2, 3, 4}, {2, 2});
  AdamWOptions options;
  options.lr = 0.1;
  AdamW adamw({weights}, options);
  adamw.update(0.1, 1.0);
  const Json state = adamw.state();
  EXPECT_EQ(
      message_of<Error>([&] {
        adamw.restore([](const std::string&) { return at::tensor({1.f, 2.f, 3.f, 4.f}); }, state);
      }),
      "the saved tensor exp_avg.a has shape [4], wanted [2, 2]: it belongs to another "
      "model");
}

class FailsToCount : public StubTrainable {
 public:
  void count_update() override {
    if (updates == 1) throw Error("no luck");
    ++updates;
  }
};

TEST(AdamW, RefusesToSaveHalfAnUpdate) {
  const auto weights = std::make_shared<FailsToCount>();
  weights->add("weight", {1, 2}, {2});
  AdamW adamw({weights}, {.lr = 0.1});
  weights->parameters()[0].master.mutable_grad() = at::tensor({1.0f, 1.0f});
  adamw.update(0.1, 1);
  EXPECT_EQ(adamw.state().at("updates").as_int(), 1);
  weights->parameters()[0].master.mutable_grad() = at::tensor({1.0f, 1.0f});
  EXPECT_EQ(error_of([&] { adamw.update(0.1, 1); }), "no luck");
  EXPECT_EQ(error_of([&] { adamw.state(); }),
            "cannot save the optimizer: an error stopped it in the middle of an update");
}

TEST(AdamW, NamesAnOptionOutOfRange) {
  auto weights = std::make_shared<StubTrainable>();
  AdamWOptions options;
  EXPECT_EQ(message_of<UsageError>([&] { AdamW adamw({weights}, options); }),
            "optim.lr is 0, wanted a number above 0");
  options.lr = 1;
  options.beta2 = 1;
  EXPECT_EQ(message_of<UsageError>([&] { AdamW({weights}, options); }),
            "optim.betas[2] is 1, wanted a number of at least 0 and below 1");
}

TEST(AdamW, SaysThatAWarmupIsNotShorterThanTheRun) {
  const auto text = [](double warmup, int64_t steps) {
    AdamWOptions options;
    options.lr = 1e-5;
    options.warmup = warmup;
    return AdamW({std::make_shared<StubTrainable>()}, options).short_run_text(steps);
  };
  EXPECT_EQ(text(100, 16),
            "optim.warmup is 100 steps and the run has 16, so the learning rate reaches 1.5e-06 at "
            "most and never optim.lr = 1e-05; a number below 1 is a share of the steps: --set "
            "optim.warmup=0.1");
  EXPECT_NE(text(16, 16), "");
  EXPECT_EQ(text(15, 16), "");
  EXPECT_EQ(text(0.1, 16), "");
  EXPECT_EQ(text(0, 1), "");
  EXPECT_EQ(text(0.1, 1),
            "optim.warmup covers the only step, whose learning rate is 0; nothing is trained: set "
            "optim.warmup=0");
}

TEST(AdamW, TheKernelGivesTheSameBitsHoweverTheRangeIsSplit) {
  const int64_t n = 100003;
  const at::Tensor g = at::randn({n}), p0 = at::randn({n});
  const at::Tensor m0 = at::randn({n}), v0 = at::randn({n}).square();
  const kernels::AdamWFactors f{0.999f, 0.1f, 0.999f, 0.001f, 1e-3f, 0.5f, 1e-8f, 0.7f};
  const auto run = [&](int64_t piece) {
    at::Tensor p = p0.clone(), m = m0.clone(), v = v0.clone();
    for (int64_t i = 0; i < n; i += piece) {
      kernels::adamw_update(p.mutable_data_ptr<float>() + i, g.const_data_ptr<float>() + i,
                            m.mutable_data_ptr<float>() + i, v.mutable_data_ptr<float>() + i,
                            std::min(piece, n - i), f);
    }
    return p;
  };
  EXPECT_TRUE(at::equal(run(n), run(7)));
  EXPECT_TRUE(at::equal(run(n), run(1001)));
}

TEST(AdamW, TheGradientNormDoesNotDependOnThreads) {
  auto weights = std::make_shared<StubTrainable>();
  weights->add("a", std::vector<float>(300007, 0.f), {300007});
  AdamWOptions options;
  options.lr = 0.1;
  AdamW adamw({weights}, options);
  const at::Tensor gradient = at::randn({300007});
  weights->parameters()[0].master.mutable_grad() = gradient;
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const double one = adamw.grad_norm().item().toDouble();
  at::set_num_threads(2);
  const double two = adamw.grad_norm().item().toDouble();
  at::set_num_threads(threads);
  EXPECT_EQ(one, two);
  EXPECT_NEAR(one, gradient.to(at::kDouble).norm().item().toDouble(), 1e-9);
}

}  // namespace
}  // namespace xrun::adamw_test
