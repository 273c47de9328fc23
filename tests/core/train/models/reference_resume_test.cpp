// References of a run that is resumed: its own sidecar, the folder's weights, and those that were
// taken after training began.

#include <ATen/ops/equal.h>

#include <cstdlib>

#include "core/base/error.h"
#include "core/model/weights/safetensors.h"
#include "tests/core/train/models/reference_fixture.h"
#include "tests/error_of.h"

namespace xrun::reference_resume_test {
namespace {

using ReferenceResume = ReferenceTest;

TEST_F(ReferenceResume, AResumedRunReadsTheSameBitsFromTheColumn) {
  const auto one_step = [&](Trained& t) {
    train_step({{batch(tiny_pairs(6), 3).get(), dpo(t.policy, t.reference, 0.1)}}, t.adamw.get());
  };
  Trained whole = open();
  Saved saved;
  for (int k = 0; k < 5; ++k) {
    if (k == 2) {
      take(*whole.policy, saved.policy, saved.policy_state);
      take(*whole.adamw, saved.adamw, saved.adamw_state);
    }
    one_step(whole);
  }
  Trained resumed = open();
  give(*resumed.policy, saved.policy, saved.policy_state);
  give(*resumed.adamw, saved.adamw, saved.adamw_state);
  EXPECT_EQ(resumed.policy->update_count(), 2);
  for (int k = 2; k < 5; ++k) one_step(resumed);
  EXPECT_EQ(resumed.policy->digest(), whole.policy->digest());
  EXPECT_EQ(resumed.reference->shared(), 0);
  for (const auto& [name, tensor] : saved.policy) {
    EXPECT_EQ(name.find("reference"), std::string::npos) << "the reference is in no checkpoint";
  }
  EXPECT_EQ(saved.policy.size(), whole.policy->parameters().size());
}

TEST_F(ReferenceResume, ResumingWithAnotherFolderIsRefused) {
  Trained t = open();
  step(t);
  Saved saved;
  take(*t.policy, saved.policy, saved.policy_state);
  const auto other = Policy::open(folder_.model(/*seed=*/1));
  EXPECT_TRUE(throws<Error>("changed since the run began",
                            [&] { give(*other, saved.policy, saved.policy_state); }));
}

TEST_F(ReferenceResume, ResumingInAnotherComputeTypeComputesTheDigestsAgain) {
  Trained t = open();
  t.policy->set_snapshot_dir(folder_.path() / "references");
  step(t);
  t.policy->reference();
  Saved saved;
  take(*t.policy, saved.policy, saved.policy_state);
  PolicyOptions options;
  options.dtype = at::kBFloat16;
  Trained resumed = open(options);
  resumed.policy->set_snapshot_dir(folder_.path() / "references");
  give(*resumed.policy, saved.policy, saved.policy_state);
  const auto second = resumed.policy->reference();
  const auto some = batch(tiny_pairs(2), 2);
  step(resumed);
  for (const auto& reference : {resumed.reference, second}) {
    EXPECT_TRUE(reference->logprob(*some).isfinite().all().item<bool>());
  }
}

TEST_F(ReferenceResume, AReferenceTakenDuringTrainingIsWrittenOnceAndFoundAgain) {
  Trained t = open();
  t.policy->set_snapshot_dir(folder_.path() / "references");
  step(t);
  const auto second = t.policy->reference();
  const std::string digest = t.policy->digest();
  const auto some = batch(tiny_pairs(3), 3);
  EXPECT_TRUE(at::equal(second->logprob(*some), t.policy->logprob(*some)));
  Saved saved;
  step(t);
  take(*t.policy, saved.policy, saved.policy_state);
  const at::Tensor values = second->logprob(*some);
  EXPECT_EQ(second->digest(), digest);
  EXPECT_EQ(second->dir(), folder_.path() / "references" / "reference_1");

  Trained resumed = open();
  resumed.policy->set_snapshot_dir(folder_.path() / "references");
  give(*resumed.policy, saved.policy, saved.policy_state);
  const auto again = resumed.policy->reference();
  EXPECT_EQ(again->digest(), digest);
  setenv("XRUN_CACHE", (folder_.path() / "empty").c_str(), 1);
  EXPECT_TRUE(at::equal(again->logprob(*some), values));
}

TEST_F(ReferenceResume, AReferenceTakenDuringTrainingNeedsARun) {
  Trained t = open();
  step(t);
  EXPECT_TRUE(throws<Error>("a reference that is taken after training began needs a run",
                            [&] { t.policy->reference(); }));
}

TEST_F(ReferenceResume, AReferenceWithMissingWeightsIsRefused) {
  Trained t = open();
  t.policy->set_snapshot_dir(folder_.path() / "references");
  step(t);
  const auto second = t.policy->reference();
  std::vector<NamedTensor> tensors;
  const std::filesystem::path file = second->dir() / "model.safetensors";
  const SafetensorsFile whole(file);
  for (const SafetensorsEntry& entry : whole.entries()) {
    if (entry.name != "model.norm.weight") tensors.push_back({entry.name, whole.read(entry.name)});
  }
  write_safetensors(file, tensors);
  step(t);
  EXPECT_TRUE(
      throws<Error>("model.norm.weight", [&] { second->logprob(*batch(tiny_pairs(2), 2)); }));
}

}  // namespace
}  // namespace xrun::reference_resume_test
