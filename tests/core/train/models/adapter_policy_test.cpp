// A policy whose adapter is trained: its reference, its saved state and its export.

#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "core/model/weights/adapter_files.h"
#include "tests/core/train/trained.h"
#include "tests/error_of.h"

namespace xrun::adapter_policy_test {
namespace {

class AdapterPolicyTest : public testing::Test {
 protected:
  static PolicyOptions lora(double dropout = 0) {
    PolicyOptions options;
    options.lora = AdapterOptions{.rank = 4, .dropout = dropout};
    return options;
  }
  Trained open(const PolicyOptions& options) const { return open_trained(folder_, options); }
  static at::Tensor chosen(LogprobSource& source) {
    const at::NoGradGuard no_grad;
    return source.logprob(tiny_batch(tiny_pairs(4, 77), 2)->micros()[0]->chosen());
  }
  // The same with each pair alone in its pack, as a reference computes it.
  static at::Tensor chosen_alone(LogprobSource& source) {
    const at::NoGradGuard no_grad;
    const auto pairs = tiny_batch(tiny_pairs(4, 77), 1);
    return at::cat({source.logprob(pairs->micros()[0]->chosen()),
                    source.logprob(pairs->micros()[1]->chosen())});
  }

  TinyFolder folder_;
};

TEST_F(AdapterPolicyTest, StepZeroIsExactAndTheReferenceIsThePlainModel) {
  Trained t = open(lora(0.5));
  EXPECT_EQ(t.reference->digest(), Policy::open(folder_.model())->initial_digest());
  const at::Tensor plain = chosen_alone(*Policy::open(folder_.model()));
  EXPECT_NEAR(t.loss(), std::log(2.0), 1e-7);
  EXPECT_LT(t.loss(), std::log(2.0));
  EXPECT_TRUE(at::equal(chosen_alone(*t.reference), plain));
  EXPECT_FALSE(at::equal(chosen_alone(*t.policy), plain));
}

TEST_F(AdapterPolicyTest, TheBaseHasNoGradientNoStateAndOneCopy) {
  Trained t = open(lora());
  t.loss();
  const at::Tensor before = t.policy->model().parameters()[1].master.clone();
  t.loss();
  EXPECT_TRUE(at::equal(t.policy->model().parameters()[1].master, before));
  for (const Parameter& parameter : t.policy->parameters()) {
    EXPECT_NE(parameter.name.find(".lora_"), std::string::npos);
  }
  for (const NamedTensor& tensor : t.policy->tensors()) {
    EXPECT_NE(tensor.name.find(".lora_"), std::string::npos);
  }
  const auto frozen = t.policy->load_frozen(folder_.model());
  EXPECT_EQ(frozen->parameters()[1].master.const_data_ptr(),
            t.policy->model().parameters()[1].master.const_data_ptr());
}

TEST_F(AdapterPolicyTest, AReferenceTakenLaterKeepsItsAdapter) {
  Trained t = open(lora());
  t.policy->set_snapshot_dir(folder_.path() / "snapshots");
  t.loss();
  const auto later = t.policy->reference();
  const at::Tensor then = chosen_alone(*t.policy);
  EXPECT_TRUE(at::equal(chosen_alone(*later), then));
  t.loss();
  EXPECT_TRUE(at::equal(chosen_alone(*later), then));
  EXPECT_TRUE(is_adapter(later->dir()));
  later->check_digest();
}

TEST_F(AdapterPolicyTest, DropoutDiffersBetweenSidesAndNeverInTheReference) {
  Trained t = open(lora(0.5));
  for (int s = 0; s < 3; ++s) t.loss(s);
  std::vector<TinyPair> pairs = tiny_pairs(1);
  pairs[0].rejected = pairs[0].chosen;  // the sides say the same
  const auto same = tiny_batch(pairs, 1);
  MicroBatch& micro = *same->micros()[0];
  const at::Tensor c = t.policy->logprob(micro.chosen()), r = t.policy->logprob(micro.rejected());
  EXPECT_GT(c.sub(r).abs().item().toDouble(), 1e-4) << "both sides dropped alike";
  micro.close();
  EXPECT_TRUE(at::equal(t.policy->logprob(micro.chosen()), c)) << "another mask in the same step";
  micro.close();
  const at::NoGradGuard no_grad;
  const at::Tensor plain = t.policy->logprob(micro.chosen());
  EXPECT_NEAR(plain.sub(t.policy->logprob(micro.rejected())).item().toDouble(), 0, 1e-5);
  const at::Tensor reference = t.reference->token_logprob(micro.all());
  micro.close();
  EXPECT_TRUE(at::equal(t.reference->token_logprob(micro.all()), reference));
}

TEST_F(AdapterPolicyTest, ContinuesFromItsSavedState) {
  const auto losses = [&](int64_t saved_at) {
    Trained t = open(lora(0.3));
    std::vector<double> all;
    for (int64_t s = 0; s < 4; ++s) {
      if (s == saved_at) {
        Trained again = open(lora(0.3));
        const auto tensors = t.policy->tensors(), moments = t.adamw->tensors();
        const auto source = [](const std::vector<NamedTensor>& list) {
          return [&list](const std::string& name) {
            for (const NamedTensor& one : list) {
              if (one.name == name) return one.tensor;
            }
            throw Error("there is no " + name);
          };
        };
        again.policy->restore(source(tensors), t.policy->state());
        again.adamw->restore(source(moments), t.adamw->state());
        t = again;
      }
      all.push_back(t.loss(s));
    }
    return all;
  };
  EXPECT_EQ(losses(2), losses(-1));
}

TEST_F(AdapterPolicyTest, AnExportHasMergedWeightsAndTheAdapter) {
  Trained t = open(lora());
  for (int s = 0; s < 3; ++s) t.loss();
  const at::Tensor want = chosen(*t.policy);
  const std::filesystem::path hf = folder_.path() / "hf";
  t.policy->export_to(hf);
  EXPECT_TRUE(at::allclose(chosen(*Policy::open(hf)), want, 1e-5, 1e-5));
  const auto trained_on = Policy::open(hf / "adapter");
  EXPECT_TRUE(at::equal(chosen(*trained_on), want));
  EXPECT_EQ(trained_on->dir(), folder_.model());
  EXPECT_NE(trained_on->initial_digest(), Policy::open(folder_.model())->initial_digest());
  EXPECT_TRUE(at::equal(chosen(*trained_on->reference()), want));
}

TEST_F(AdapterPolicyTest, AnAdapterThatDoesNotFitIsRefusedBeforeWeightsLoad) {
  PolicyOptions options = lora();
  options.lora->targets = {"c_attn"};
  EXPECT_EQ(
      message_of<UsageError>([&] { Policy::open(folder_.model(), options); }),
      "lora.targets: no linear map of the blocks is called 'c_attn'; there are q_proj, k_proj, "
      "v_proj, o_proj, gate_proj, up_proj, down_proj, or \"all\" for all of them");
  Trained t = open(lora());
  t.policy->export_to(folder_.path() / "hf");
  EXPECT_TRUE(throws<Error>("dpo.lua in place of dpo_lora.lua, with --set model=",
                            [&] { Policy::open(folder_.path() / "hf/adapter", lora()); }));
}

}  // namespace
}  // namespace xrun::adapter_policy_test
