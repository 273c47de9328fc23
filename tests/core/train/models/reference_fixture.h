#pragma once
// A policy, its reference and an optimizer, and a checkpoint of them in memory.

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/core/train/trained.h"

namespace xrun {

class ReferenceTest : public testing::Test {
 protected:
  Trained open(const PolicyOptions& options = {}) const { return open_trained(folder_, options); }
  static std::shared_ptr<Batch> batch(const std::vector<TinyPair>& pairs, size_t per_pack,
                                      const std::string& data_key = "data") {
    BatchInfo info;
    info.data_key = data_key;
    return tiny_batch(pairs, per_pack, info);
  }
  static void step(const Trained& t) { t.step(0, "other"); }

  TinyFolder folder_;
};

// A checkpoint of a policy and its optimizer, in memory.
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
