// A checkpoint holds a policy's trained masters and the references that were taken of it.

#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/model/model.h"
#include "core/model/ranged_weights.h"
#include "core/train/models/policy.h"

namespace xrun {

at::Tensor Policy::held_master(size_t parameter, int64_t begin, int64_t size) {
  if (!holds_ranges(parameter)) return Trainable::held_master(parameter, begin, size);
  const RangedWeights::MasterRange own = model().ranged_weights()->master_range(parameter);
  XRUN_CHECK(own.begin == begin && own.held.numel() == size,
             "an optimizer updates elements {} to {} of {}, of which this rank holds {} to {}",
             begin, begin + size, parameters()[parameter].name, own.begin,
             own.begin + own.held.numel());
  return own.held;
}

std::vector<NamedTensor> Policy::tensors() const {
  std::vector<NamedTensor> out;
  // A policy in ranges saves ranges() instead.
  if (!model_ || !ranges().empty()) return out;
  const Model& model = *model_;
  model.await_weights();
  for (const Parameter& parameter : model.trained_parameters()) {
    out.push_back({parameter.name, parameter.master.detach()});
  }
  return out;
}

std::vector<TensorRange> Policy::ranges() const {
  std::vector<TensorRange> out;
  if (!model_ || model_->ranged_weights() == nullptr || model_->adapter()) return out;
  for (size_t i = 0; i < model_->trained_parameters().size(); ++i) {
    const Parameter& parameter = model_->trained_parameters()[i];
    const RangedWeights::MasterRange own = model_->ranged_weights()->master_range(i);
    out.push_back({parameter.name, parameter.master.sizes().vec(), own.begin, own.held});
  }
  return out;
}

Json Policy::state() const {
  Json references = Json::array();
  for (const TakenReference& taken : taken_) {
    Json one = Json::object();
    one.set("updates", taken.updates);
    one.set("digest", taken.digest);
    references.push_back(std::move(one));
  }
  Json state = Json::object();
  state.set("loaded", loaded());
  state.set("updates", update_count());
  state.set("folder_digest", folder_digest_);
  state.set("dtype", dtype_name(options_.dtype));
  state.set("references", std::move(references));
  return state;
}

void Policy::restore(const TensorSource& tensor, const Json& state) {
  restored_.clear();
  restored_dtype_ = state.at("dtype").as_string();
  for (const Json& reference : state.at("references").as_array()) {
    restored_.push_back({reference.at("updates").as_int(), reference.at("digest").as_string()});
  }
  for (size_t k = 0; k < std::min(taken_.size(), restored_.size()); ++k) {
    XRUN_CHECK(taken_[k].updates == restored_[k].updates,
               "reference {} of this run was taken after {} updates; on resuming, the recipe takes "
               "it before the run is made: make the run (xrun.run) first",
               k + 1, restored_[k].updates);
  }
  if (!state.at("loaded").as_bool()) return;
  // Weights of the folder that are not in the checkpoint must be as they were when the run began.
  const std::string saved_digest = state.at("folder_digest").as_string();
  model();
  // A frozen base is part of the trained model; it is hashed in the compute type.
  const bool same_type = restored_dtype_ == dtype_name(options_.dtype);
  const bool is_base = (model().adapter() || !options_.train.empty()) && same_type;
  bool frozen_folder = is_base;
  for (const TakenReference& taken : restored_) {
    const bool digest_has_type = model().adapter() || !options_.train.empty();
    frozen_folder = frozen_folder || (taken.updates == 0 && !digest_has_type);
  }
  XRUN_CHECK(!frozen_folder || folder_digest_ == saved_digest,
             "{}: the weights in this folder changed since the run began (digest {}, wanted {}), "
             "and {}; restore the folder or begin a new run",
             dir_.string(), folder_digest_, saved_digest,
             !is_base            ? "its reference is made of them"
             : model().adapter() ? "its adapter was trained on them"
                                 : "the weights that `train` chose were trained beside them");
  // Last: nothing is overwritten before all checks above have passed.
  const at::NoGradGuard no_grad;
  model().await_weights();  // a late arrival would overwrite the restored ones
  for (size_t i = 0; i < model().trained_parameters().size(); ++i) {
    Parameter& parameter = model().trained_parameters()[i];
    if (holds_ranges(i)) {
      const RangedWeights::MasterRange own = model().ranged_weights()->master_range(i);
      own.held.copy_(
          tensor.range(parameter.name, parameter.master.sizes(), own.begin, own.held.numel()));
      continue;
    }
    const at::Tensor saved = tensor(parameter.name);
    check_saved_shape(parameter.name, saved.sizes(), parameter.master.sizes());
    parameter.master.detach().copy_(saved);
  }
  // References compare this count: they share the policy's forward until it changes.
  model().weights_replaced(state.at("updates").as_int());
}

}  // namespace xrun
