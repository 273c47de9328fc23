#pragma once
// A policy, its reference and an optimizer, and what a checkpoint would hold of them.

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/train/adamw.h"
#include "core/train/policy.h"
#include "core/train/reference.h"
#include "core/train/step.h"
#include "tests/core/train/tiny_pairs.h"

namespace xrun {

class ReferenceTest : public testing::Test {
 protected:
  struct Trained {
    std::shared_ptr<Policy> policy;
    std::shared_ptr<Reference> reference;
    std::shared_ptr<AdamW> adamw;
  };
  Trained open(PolicyOptions options = {}) {
    Trained t;
    t.policy = Policy::open(folder_.model(), options);
    t.reference = t.policy->reference();
    AdamWOptions optim;
    optim.lr = 1e-2;
    t.adamw = std::make_shared<AdamW>(std::vector<std::shared_ptr<Trainable>>{t.policy}, optim);
    return t;
  }
  static std::shared_ptr<Batch> batch(const std::vector<TinyPair>& pairs, size_t per_pack,
                                      const std::string& data_key = "data") {
    BatchInfo info;
    info.data_key = data_key;
    return tiny_batch(pairs, per_pack, info);
  }
  static void step(Trained& t) {
    train_step(*batch(tiny_pairs(4, 77), 2, "other"), dpo(t.policy, t.reference, 0.1), *t.adamw);
  }

  TinyFolder folder_;
};

// What a checkpoint would hold of a policy and its optimizer.
struct Saved {
  std::map<std::string, at::Tensor> policy, adamw;
  Json policy_state, adamw_state;
};

inline void take(const Saveable& from, std::map<std::string, at::Tensor>& tensors, Json& state) {
  for (const NamedTensor& one : from.tensors()) tensors[one.name] = one.tensor.clone();
  state = parse_json(dump_json(from.state()), "state");
}
inline void give(Saveable& to, const std::map<std::string, at::Tensor>& tensors,
                 const Json& state) {
  to.restore([&](const std::string& name) { return tensors.at(name); }, state);
}

}  // namespace xrun
