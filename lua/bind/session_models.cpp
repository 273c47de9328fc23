// Names count up from the second model of one folder: "policy tiny", "policy tiny 2". While a
// stand-in is set, every model answers from it.

#include "lua/bind/session_models.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/train/adamw.h"
#include "core/train/models/frozen_model.h"
#include "core/train/models/policy.h"
#include "core/train/models/reference.h"
#include "core/train/models/scorer.h"

namespace xrun {

void SessionModels::add(const std::shared_ptr<Policy>& policy) {
  const std::string first = "policy " + policy->dir().filename().string();
  std::string name = first;
  const auto taken = [&](const KnownPolicy& known) { return known.name == name; };
  for (int n = 2; std::any_of(policies_.begin(), policies_.end(), taken); ++n) {
    name = fmt::format("{} {}", first, n);
  }
  policies_.push_back({policy, std::move(name)});
  if (stand_in_ != nullptr) attach_stand_in(*policy);
}

void SessionModels::add(std::shared_ptr<Reference> reference) {
  references_.push_back(std::move(reference));
  if (stand_in_ != nullptr) attach_stand_in(*references_.back());
}

void SessionModels::add(std::shared_ptr<FrozenModel> frozen) {
  frozen_.push_back(std::move(frozen));
  if (stand_in_ != nullptr) attach_stand_in(*frozen_.back());
}

void SessionModels::add(const std::shared_ptr<AdamW>& adamw) { optimizers_.push_back(adamw); }

std::vector<std::shared_ptr<Policy>> SessionModels::policies() const {
  std::vector<std::shared_ptr<Policy>> alive;
  for (const KnownPolicy& known : policies_) {
    if (auto policy = known.policy.lock()) alive.push_back(std::move(policy));
  }
  return alive;
}

std::vector<std::shared_ptr<AdamW>> SessionModels::optimizers() const {
  std::vector<std::shared_ptr<AdamW>> alive;
  for (const std::weak_ptr<AdamW>& optimizer : optimizers_) {
    if (auto adamw = optimizer.lock()) alive.push_back(std::move(adamw));
  }
  return alive;
}

bool SessionModels::is_trained(const Policy& policy) const {
  const auto all = optimizers();
  for (const auto& adamw : all) {
    for (const auto& one : adamw->trainables()) {
      const auto* scorer = dynamic_cast<const Scorer*>(one.get());
      const Trainable* of = scorer == nullptr ? one.get() : scorer->policy().get();
      if (of == &policy) return true;
    }
  }
  return all.empty();
}

std::string SessionModels::name_of(const Policy& policy) const {
  for (const KnownPolicy& known : policies_) {
    if (known.policy.lock().get() == &policy) return known.name;
  }
  throw Error(fmt::format("{}: this policy was not opened by the recipe", policy.dir().string()));
}

std::string SessionModels::name_of(const Reference& reference) const {
  const auto found = std::find_if(references_.begin(), references_.end(),
                                  [&](const auto& known) { return known.get() == &reference; });
  XRUN_CHECK(found != references_.end(), "{}: this reference was not taken by the recipe",
             reference.dir().string());
  return fmt::format("reference {}", found - references_.begin() + 1);
}

void SessionModels::attach_stand_in(Policy& policy) {
  if (stand_in_ == nullptr) return policy.set_replacement(nullptr);
  policy.set_replacement(std::make_shared<ModelStandIn>(
      stand_in_, name_of(policy), [this, of = &policy] { return is_trained(*of); },
      policy.vocab()));
}

void SessionModels::attach_stand_in(Reference& reference) {
  if (stand_in_ == nullptr) return reference.set_replacement(nullptr);
  reference.set_replacement(std::make_shared<ModelStandIn>(
      stand_in_, name_of(reference), [] { return false; }, reference.policy()->vocab()));
}

void SessionModels::attach_stand_in(FrozenModel& frozen) {
  if (stand_in_ == nullptr) return frozen.set_replacement(nullptr);
  const auto found = std::find_if(frozen_.begin(), frozen_.end(),
                                  [&](const auto& known) { return known.get() == &frozen; });
  frozen.set_replacement(std::make_shared<ModelStandIn>(
      stand_in_, fmt::format("frozen model {}", found - frozen_.begin() + 1), [] { return false; },
      frozen.vocab(), [of = &frozen](const MicroBatch& micro) { of->check_tokens(micro); }));
}

std::shared_ptr<LogprobStandIn> SessionModels::stand_in(std::shared_ptr<LogprobStandIn> values) {
  std::swap(stand_in_, values);
  for (const KnownPolicy& known : policies_) {
    if (const auto policy = known.policy.lock()) attach_stand_in(*policy);
  }
  for (const auto& reference : references_) attach_stand_in(*reference);
  for (const auto& frozen : frozen_) attach_stand_in(*frozen);
  return values;
}

}  // namespace xrun
