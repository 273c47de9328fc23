#pragma once
// The frozen twin of a policy, read through a sidecar of log-probs.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "core/train/models/frozen_logprobs.h"
#include "core/train/models/logprob_source.h"

namespace xrun {

class Model;
class Policy;
class FetchedModel;

// Until the policy's next update a reference shares the policy's storage and forward (detached), so
// that step 0 is exact: rewards are 0, the DPO loss is ln 2. Afterwards logprob() reads a sidecar
// of values that the frozen weights compute in canonical packs (frozen_logprobs.h). The frozen
// weights load at the first missing value; they are never trained, saved or exported. Made by
// Policy::reference(). Not thread-safe.
class Reference : public LogprobSource {
 public:
  // `weights` is the folder of the frozen weights, `digest` their hash ("": the policy's before any
  // update), `updates` the policy's update count at which its weights are these.
  Reference(std::shared_ptr<Policy> policy, std::filesystem::path weights, std::string digest,
            int64_t updates);
  ~Reference() override;

  // Divides the frozen weights among the ranks if these hold ranges. Every rank makes the call,
  // before the weights load.
  void divide();
  // True while the policy's own forward answers, as in step 0.
  bool shares() const;
  // As in FrozenLogprobs.
  const Sidecar* known_sidecar(const std::string& data_key, int64_t max_tokens) {
    return logprobs_.known_sidecar(data_key, max_tokens);
  }
  void flush() { logprobs_.flush(); }
  void flush_arrived() { logprobs_.flush_arrived(); }

  // Hashes the frozen weights again. Throws Error if they differ from those at the start.
  void check_digest();

  const std::shared_ptr<Policy>& policy() const { return policy_; }
  bool loaded() const { return model_ != nullptr; }  // the frozen weights take separate memory
  const std::string& digest();                       // of the frozen weights; may load the policy's
  const std::filesystem::path& dir() const { return weights_; }
  // Counts the segments that the policy's own forward answered; counts() has the others.
  int64_t shared() const { return shared_; }
  const SidecarCounts& counts() const { return logprobs_.counts(); }

 protected:
  // No answer has a gradient. Each throws Error if the folder's weights are no longer those that
  // the policy started from.
  // The policy's weights while they are the same, else the frozen ones, loaded if necessary.
  Model& own_model() override;
  // Runs the frozen model on the whole micro-batch (no sidecar).
  at::Tensor own_token_logprob(const View& view) override;
  // From the sidecar; computes missing values.
  at::Tensor own_logprob(const View& view) override;
  // The sidecar stores only sums of log-probs, so the frozen model runs once over the whole
  // micro-batch. Its log-probs may differ in their last digits from those of the sidecar.
  HeadResult own_head(const View& view, const HeadOptions& options,
                      const at::Tensor& target) override;
  at::Tensor own_logits(const View& view) override;
  at::Tensor own_score(const View& view, const ScoreWeight& weight) override;

 private:
  friend struct ReferencePeer;  // for tests
  Model& frozen();

  std::shared_ptr<Policy> policy_;
  std::filesystem::path weights_;
  std::string digest_;
  int64_t updates_;
  std::unique_ptr<FetchedModel> fetched_;  // null: the weights are whole, or the policy's
  std::shared_ptr<Model> model_;
  int64_t shared_ = 0;
  FrozenLogprobs logprobs_;  // last: it asks this reference for the weights
};

}  // namespace xrun
