#pragma once
// A policy, its reference and an optimizer, for tests of the step.

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "tests/core/train/trained.h"

namespace xrun {

class StepTest : public testing::Test {
 protected:
  void SetUp() override {
    const Trained t = open_trained(folder_);
    policy_ = t.policy;
    reference_ = t.reference;
    adamw_ = t.adamw;
  }
  Objective dpo_objective() { return dpo(policy_, reference_, 0.1); }

  // The gradients that a step over this batch would update with.
  std::vector<at::Tensor> gradients(Batch& batch, const Objective& objective) {
    std::vector<at::Tensor> out;
    StepOptions options;
    options.read_gradients = [&] {
      for (const NamedTensor& one : adamw_->gradients()) out.push_back(one.tensor.clone());
    };
    train_step({{&batch, objective}}, adamw_.get(), options);
    return out;
  }
  static double distance(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
    double difference = 0, size = 0;
    EXPECT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      difference += a[i].sub(b[i]).square().sum().item().toDouble();
      size += a[i].square().sum().item().toDouble();
    }
    EXPECT_GT(size, 0);
    return std::sqrt(difference / size);
  }

  void expect_falling_loss() {
    const std::vector<TinyPair> pairs = tiny_pairs(6);
    double loss = 0;
    for (int step = 0; step < 8; ++step) {
      BatchInfo info;
      info.step = step;
      loss = value(train_step({{tiny_batch(pairs, 6, info).get(), dpo_objective()}}, adamw_.get()),
                   "loss");
    }
    EXPECT_LT(loss, 0.3);
  }

  TinyFolder folder_;
  std::shared_ptr<Policy> policy_;
  std::shared_ptr<Reference> reference_;
  std::shared_ptr<AdamW> adamw_;
};

}  // namespace xrun
