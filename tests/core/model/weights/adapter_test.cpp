// Factors of an adapter: their start, targets and scale, and the merged weight.

#include "core/model/weights/adapter.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "core/base/error.h"
#include "core/model/model.h"
#include "core/model/ops/linear.h"
#include "core/model/ops/moe_routing.h"
#include "tests/core/model/load_model.h"
#include "tests/golden_models.h"
#include "tests/gradient_check.h"
#include "tests/tree.h"

namespace xrun::adapter_test {
namespace {

std::filesystem::path model_dir(const std::string& name) {
  return std::filesystem::path(source_path("tests/golden/models")) / name;
}

PackInput three_sequences() {
  return pack_sequences({{5, 6, 7, 8, 9, 10, 11}, {12, 20, 21}, {40, 41, 42, 43, 44}});
}

std::shared_ptr<Model> with_fresh(const std::string& name, const AdapterOptions& options,
                                  bool recompute = false) {
  LoadOptions load{.trainable = true, .recompute = recompute};
  load.adapter = make_adapter(options, read_model_config(model_dir(name)), 7);
  return Model::load(model_dir(name), load);
}

std::string refusal(const AdapterOptions& options) {
  try {
    make_adapter(options, read_model_config(model_dir("untied")), 7);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST(Adapter, AFreshAdapterChangesNoBitOfTheForward) {
  for (const std::string& name : golden_models()) {
    const auto base = load_model(model_dir(name), at::kFloat, false);
    const at::Tensor want = base->forward(three_sequences());
    for (const bool zero_a : {true, false}) {
      const auto model = with_fresh(name, {.rank = 3, .zero_a = zero_a});
      EXPECT_TRUE(at::equal(model->forward(three_sequences()).detach(), want)) << name;
      EXPECT_EQ(Model::with_adapter(*model, nullptr)->digest(), base->digest()) << name;
    }
  }
}

TEST(Adapter, OnlyItsFactorsAreTrained) {
  const auto model = with_fresh("untied", {.rank = 3, .targets = {"q_proj", "down_proj"}});
  model->forward(three_sequences()).sum().backward();
  ASSERT_EQ(model->trained_parameters().size(), 8u);  // two maps of two layers
  for (const Parameter& parameter : model->parameters()) {
    const bool factor = parameter.name.find(".lora_") != std::string::npos;
    EXPECT_EQ(parameter.master.grad().defined(), factor) << parameter.name;
    if (!factor) continue;
    const bool zero = parameter.master.grad().abs().max().item<float>() == 0;
    EXPECT_EQ(zero, parameter.name.ends_with("lora_A.weight")) << parameter.name;  // B is zero
  }
}

TEST(Adapter, AllMeansEveryLinearMapOfTheBlocks) {
  const auto names = [](const char* model) {
    std::string list;
    const auto adapter = make_adapter({.rank = 1}, read_model_config(model_dir(model)), 1);
    for (const AdapterFactors& factors : adapter->factors) {
      if (factors.module.find(".0.") != std::string::npos) list += factors.module + " ";
    }
    return list;
  };
  const std::string at = "model.layers.0.";
  EXPECT_EQ(names("qwen3"), at + "self_attn.q_proj " + at + "self_attn.k_proj " + at +
                                "self_attn.v_proj " + at + "self_attn.o_proj " + at +
                                "mlp.gate_proj " + at + "mlp.up_proj " + at + "mlp.down_proj ");
  EXPECT_EQ(names("qwen3_moe").find("mlp.gate "), std::string::npos);  // the router
  EXPECT_EQ(names("gpt2"),
            "transformer.h.0.attn.c_attn transformer.h.0.attn.c_proj transformer.h.0.mlp.c_fc "
            "transformer.h.0.mlp.c_proj ");
}

TEST(Adapter, MergedWeightsGiveTheSameForward) {
  const auto model = with_fresh("gpt2", {.rank = 3});
  const at::NoGradGuard no_grad;
  for (Parameter& parameter : model->trained_parameters()) {
    parameter.master.detach().copy_(random_tensor(parameter.master.sizes().vec(), 5, 0.3));
  }
  const at::Tensor want = model->forward(three_sequences());
  const auto merged = load_model(model_dir("gpt2"), at::kFloat, false);
  EXPECT_GT((merged->forward(three_sequences()) - want).abs().max().item<float>(), 0.01f);
  for (size_t i = 0; i < merged->parameters().size(); ++i) {
    merged->parameters()[i].master.copy_(model->merged(i));
  }
  EXPECT_LT((merged->forward(three_sequences()) - want).abs().max().item<float>(), 1e-5f);
}

TEST(Adapter, InBf16ItsFactorsStayInFp32) {
  LoadOptions options{.dtype = at::kBFloat16, .trainable = true};
  options.adapter = make_adapter({.rank = 2}, read_model_config(model_dir("untied")), 1);
  const auto model = Model::load(model_dir("untied"), options);
  for (const Parameter& parameter : model->parameters()) {
    const bool factor = parameter.name.find(".lora_") != std::string::npos;
    EXPECT_EQ(parameter.master.scalar_type(), factor ? at::kFloat : at::kBFloat16);
  }
  model->forward(three_sequences()).sum().backward();
  EXPECT_EQ(model->trained_parameters()[0].master.grad().scalar_type(), at::kFloat);
}

TEST(Adapter, OptionsOutOfRangeAreNamed) {
  EXPECT_EQ(refusal({.rank = 0}), "lora.rank is 0, wanted 1 to 65536");
  EXPECT_EQ(refusal({.alpha = -1}), "lora.alpha is -1, wanted a positive number");
  EXPECT_EQ(refusal({.dropout = 1}), "lora.dropout is 1, wanted at least 0 and below 1");
  EXPECT_EQ(refusal({.targets = {}}),
            "lora.targets is empty; name linear maps, or \"all\" for all of them");
  EXPECT_EQ(refusal({.targets = {"q_porj"}}),
            "lora.targets: no linear map of the blocks is called 'q_porj'; did you mean `q_proj`?; "
            "there are q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, or \"all\" "
            "for all of them");
  EXPECT_NE(refusal({.targets = {"lm_head"}}).find("'lm_head'"), std::string::npos);
}

TEST(Dropped, IsAFunctionOfKeyLayerAndElement) {
  const at::Tensor x = random_tensor({50, 41}, 1).abs().add(0.1);
  const DropoutKey key{.seed = 1, .step = 2, .micro = 3};
  const at::Tensor y = dropped(x, 0.25, key, 4);
  EXPECT_TRUE(at::equal(y, dropped(x, 0.25, key, 4)));
  for (const auto& [other, layer] :
       {std::pair{DropoutKey{2, 2, 3}, 4}, std::pair{DropoutKey{1, 3, 3}, 4},
        std::pair{DropoutKey{1, 2, 4}, 4}, std::pair{key, 5}}) {
    EXPECT_FALSE(at::equal(y, dropped(x, 0.25, other, layer)));
  }
  const at::Tensor kept = y.ne(0);
  EXPECT_NEAR(kept.to(at::kFloat).mean().item<float>(), 0.75, 0.03);
  EXPECT_LT((y - x.mul(kept).div(0.75)).abs().max().item<float>(), 1e-6f);
}

TEST(Dropped, AnEvaluationDropsNothing) {
  const auto model = with_fresh("untied", {.rank = 3, .dropout = 0.5, .zero_a = false});
  const at::NoGradGuard no_grad;
  for (Parameter& parameter : model->trained_parameters()) {
    parameter.master.detach().copy_(random_tensor(parameter.master.sizes().vec(), 5, 0.3));
  }
  const at::Tensor plain = model->forward(three_sequences());
  EXPECT_TRUE(at::equal(plain, model->forward(three_sequences())));
  EXPECT_FALSE(at::equal(plain, model->forward(three_sequences(), {.dropout = DropoutKey{}})));
}

TEST(LowRank, GradientsMatchFiniteDifferences) {
  expect_gradients(
      [](const std::vector<at::Tensor>& in) {
        return low_rank(in[0], in[1], in[2], 0.7, GemmType::kStorage);
      },
      {random_tensor({6, 5}, 1), random_tensor({3, 5}, 2), random_tensor({4, 3}, 3)});
}

// Bits of values and gradients: with adapters (the first block reads frozen embeddings), with
// dropout, and with all weights trained.
TEST(Recompute, MatchesAPlainRunBitForBit) {
  const auto gradients = [](Model& model, const ForwardOptions& options) {
    std::vector<at::Tensor> all{model.forward(three_sequences(), options)};
    all[0].square().sum().backward();
    for (const Parameter& parameter : model.trained_parameters()) {
      all.push_back(parameter.master.grad());
    }
    return all;
  };
  const auto expect_same = [&](Model& plain, Model& again, const ForwardOptions& options) {
    const auto want = gradients(plain, options), got = gradients(again, options);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_EQ(got[i].defined(), want[i].defined()) << i;
      if (!want[i].defined()) continue;  // the head's, which a forward does not reach
      EXPECT_TRUE(at::equal(got[i].detach(), want[i].detach())) << i;
    }
  };
  for (const std::string& name : golden_models({"longrope"})) {
    const auto plain = Model::load(model_dir(name), {.trainable = true});
    const auto again = Model::load(model_dir(name), {.trainable = true, .recompute = true});
    expect_same(*plain, *again, {});
    const AdapterOptions adapter{.rank = 2, .dropout = 0.3};
    expect_same(*with_fresh(name, adapter), *with_fresh(name, adapter, true),
                {.dropout = DropoutKey{1, 2, 3}});
  }
}

TEST(Recompute, RouterStatisticsKeepTheirGraph) {
  const auto gradient = [](bool recompute) {
    const auto model =
        Model::load(model_dir("qwen3_moe"), {.trainable = true, .recompute = recompute});
    RouterRecord record;
    const at::Tensor hidden = model->forward(three_sequences(), {.router = &record});
    RouterTotals totals;
    totals.add(record);
    (hidden.sum() + balance_share(record, totals)).backward();
    std::vector<at::Tensor> found;
    for (const Parameter& parameter : model->parameters()) {
      if (parameter.name.ends_with("mlp.gate.weight")) found.push_back(parameter.master.grad());
    }
    found.push_back(totals.count.at(0));
    return found;
  };
  const auto want = gradient(false), got = gradient(true);
  ASSERT_EQ(got.size(), want.size());
  ASSERT_GT(want.size(), 1u);
  for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(at::equal(got[i], want[i])) << i;
}

TEST(Recompute, MatchesInBf16BitForBit) {
  const auto grad = [](bool recompute) {
    const auto model = Model::load(
        model_dir("untied"), {.dtype = at::kBFloat16, .trainable = true, .recompute = recompute});
    model->forward(three_sequences()).square().sum().backward();
    return model->parameters()[3].master.grad();
  };
  EXPECT_TRUE(at::equal(grad(false), grad(true)));
}

}  // namespace xrun::adapter_test
