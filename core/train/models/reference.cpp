// Until the policy's next update its own forward answers. Afterwards the frozen weights answer;
// their sums of log-probs are stored by row (frozen_logprobs.h).

#include "core/train/models/reference.h"

#include <ATen/core/grad_mode.h>

#include "core/base/error.h"
#include "core/model/model.h"
#include "core/train/batches/micro_batch.h"
#include "core/train/models/fetched_weights.h"
#include "core/train/models/policy.h"
#include "core/train/models/view_head.h"

namespace xrun {

Reference::Reference(std::shared_ptr<Policy> policy, std::filesystem::path weights,
                     std::string digest, int64_t updates)
    : policy_(std::move(policy)),
      weights_(std::move(weights)),
      digest_(std::move(digest)),
      updates_(updates),
      logprobs_({.model = [this]() -> Model& { return frozen(); },
                 .digest = [this] { return this->digest(); },
                 .settings =
                     [this] {
                       const PolicyOptions& options = policy_->options();
                       return FrozenSettings{options.dtype, options.gemm, options.device,
                                             options.head_mb};
                     }}) {}

void Reference::divide() {
  FetchingRanks* const ranks = ranks_to_fetch_from(policy_->options().dist, 1);
  // Beside an adapter the reference is the policy's own base, which is in ranges with it.
  if (ranks == nullptr || policy_->trains_adapter()) return;
  fetched_ = std::make_unique<FetchedModel>(*ranks, weights_, policy_->frozen_options(),
                                            [this] { frozen(); });
}

Reference::~Reference() = default;

bool Reference::shares() const {
  // Dropout makes the policy's forward another function than the frozen weights.
  return policy_->update_count() == updates_ && !policy_->has_noise() && !policy_->is_averaged();
}

// Asked for late: the policy's weights are hashed when they load.
const std::string& Reference::digest() {
  if (digest_.empty()) digest_ = policy_->initial_digest();
  return digest_;
}

Model& Reference::frozen() {
  if (!model_) {
    // The folder may have changed since the run began.
    const std::string& wanted = digest();
    std::shared_ptr<Model> model = policy_->load_frozen(weights_, fetched_.get());
    const std::string got = model->digest();
    XRUN_CHECK(got == wanted,
               "{}: the weights in this folder changed since the reference was taken (digest {}, "
               "wanted {}); restore the folder or begin a new run",
               weights_.string(), got, wanted);
    model_ = std::move(model);
  }
  return *model_;
}

Model& Reference::own_model() { return shares() ? policy_->model() : frozen(); }

void Reference::check_digest() {
  if (!model_ && !shares()) return;
  const std::string now = model_ ? model_->digest() : policy_->digest();
  XRUN_CHECK(now == digest(),
             "the frozen weights of the reference changed in memory (digest {}, wanted {}): do not "
             "trust what was trained against them",
             now, digest());
}

at::Tensor Reference::own_logprob(const View& view) {
  if (shares()) {
    // Not stored: the policy's forward gives these values for free.
    shared_ += view.size();
    return view.sum(own_token_logprob(view));
  }
  return logprobs_.logprob(view);
}

at::Tensor Reference::own_token_logprob(const View& view) {
  const int64_t head_mb = policy_->options().head_mb;
  // The policy's own forward, with its graph if the policy will ask for it: one forward for both.
  if (shares()) {
    // Detached: the reference is a constant although it shares the graph.
    return view.select_rows(view.micro().token_logprob(policy_->model(), head_mb).detach());
  }
  const at::NoGradGuard no_grad;
  return view.select_rows(view.micro().token_logprob(frozen(), head_mb));
}

HeadResult Reference::own_head(const View& view, const HeadOptions& options,
                               const at::Tensor& target) {
  // While the forward is shared it keeps its graph, since the objective asks the policy for it too.
  view.micro().hidden(model());
  const at::NoGradGuard no_grad;
  return view_head(model(), view, options, target, /*head_mb=*/0);
}

at::Tensor Reference::own_logits(const View& view) {
  const at::NoGradGuard no_grad;
  return view_logits(model(), view);
}

at::Tensor Reference::own_score(const View& view, const ScoreWeight& weight) {
  view.micro().hidden(model());  // with its graph, as in own_head
  const at::NoGradGuard no_grad;
  return view_score(model(), view, weight);
}

}  // namespace xrun
