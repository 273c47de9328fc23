#pragma once
// The models and optimizers that a recipe opened, and the stand-in for their log-probs.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/train/models/logprob_stand_in.h"

namespace xrun {

class AdamW;
class FrozenModel;
class Policy;
class Reference;

class SessionModels {
 public:
  // Each model gets a unique name: "policy tiny" by its folder, "policy tiny 2", "reference 1",
  // "frozen model 1".
  void add(const std::shared_ptr<Policy>& policy);
  void add(std::shared_ptr<Reference> reference);
  void add(std::shared_ptr<FrozenModel> frozen);
  void add(const std::shared_ptr<AdamW>& adamw);

  const std::vector<std::shared_ptr<Reference>>& references() const { return references_; }
  const std::vector<std::shared_ptr<FrozenModel>>& frozen_models() const { return frozen_; }
  // All policies and optimizers still alive, given to xrun.run or not.
  std::vector<std::shared_ptr<Policy>> policies() const;
  std::vector<std::shared_ptr<AdamW>> optimizers() const;

  // The name by which the stand-in knows a model. Throws Error if the recipe did not open it.
  std::string name_of(const Policy& policy) const;
  std::string name_of(const Reference& reference) const;

  // Lets `values` answer for every model, also for those that are opened later; null lets the
  // models answer again. Returns the previous stand-in.
  std::shared_ptr<LogprobStandIn> stand_in(std::shared_ptr<LogprobStandIn> values);
  const std::shared_ptr<LogprobStandIn>& stand_in() const { return stand_in_; }

 private:
  struct KnownPolicy {
    std::weak_ptr<Policy> policy;
    std::string name;
  };
  // Returns true if an optimizer trains the policy, and in a recipe without optimizers.
  bool is_trained(const Policy& policy) const;
  void attach_stand_in(Policy& policy);
  void attach_stand_in(Reference& reference);
  void attach_stand_in(FrozenModel& frozen);

  std::vector<KnownPolicy> policies_;
  std::vector<std::shared_ptr<Reference>> references_;
  std::vector<std::shared_ptr<FrozenModel>> frozen_;
  std::vector<std::weak_ptr<AdamW>> optimizers_;
  std::shared_ptr<LogprobStandIn> stand_in_;
};

}  // namespace xrun
