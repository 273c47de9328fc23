#pragma once
// A policy in training with its reference and its optimizer, and its training steps.

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/train/adamw.h"
#include "core/train/models/policy.h"
#include "core/train/models/reference.h"
#include "core/train/step.h"
#include "tests/core/train/tiny_pairs.h"

namespace xrun {

inline double value(const Metrics& metrics, const std::string& name) {
  for (const auto& [known, value] : metrics) {
    if (known == name) return value;
  }
  ADD_FAILURE() << "no metric " << name;
  return std::nan("");
}

struct Trained {
  std::shared_ptr<Policy> policy;
  std::shared_ptr<Reference> reference;
  std::shared_ptr<AdamW> adamw;

  // Four pairs in two packs on the policy's device; `key` names their column, "" is none; `seed`
  // says which pairs.
  std::shared_ptr<Batch> batch(int64_t number = 0, const char* key = "data",
                               uint64_t seed = 77) const {
    BatchInfo info;
    info.data_key = key;
    info.step = number;
    info.device = policy->options().device;
    return tiny_batch(tiny_pairs(4, seed), 2, info);
  }
  Objective objective() const { return dpo(policy, reference, 0.1); }
  Metrics step(int64_t number = 0, const char* key = "data") const {
    return train_step({{batch(number, key).get(), objective()}}, adamw.get());
  }
  double loss(int64_t number = 0) const { return value(step(number), "loss"); }
};

// Over a model's folder; nothing of it is loaded yet.
inline Trained open_trained(const std::filesystem::path& model, const PolicyOptions& options = {},
                            const AdamWOptions& optim = {.lr = 1e-2}) {
  Trained t;
  t.policy = Policy::open(model, options);
  t.reference = t.policy->reference();
  t.adamw = std::make_shared<AdamW>(std::vector<std::shared_ptr<Trainable>>{t.policy}, optim,
                                    options.dist);
  return t;
}
inline Trained open_trained(const TinyFolder& folder, const PolicyOptions& options = {},
                            const AdamWOptions& optim = {.lr = 1e-2}) {
  return open_trained(folder.model(), options, optim);
}

}  // namespace xrun
