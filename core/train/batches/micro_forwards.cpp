// One forward serves all views of a micro-batch and, where nothing needs a gradient, both gradient
// modes. A forward is valid for one update count of its model.

#include "core/train/batches/micro_forwards.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>

#include <algorithm>

#include "core/model/model.h"
#include "core/model/ops/head_block.h"
#include "core/model/ops/linear_head.h"
#include "core/model/ops/moe_routing.h"
#include "core/model/weights/hf_config.h"
#include "core/train/batches/computed_pack.h"
#include "core/train/batches/held_prefix.h"
#include "core/train/batches/micro_batch.h"
#include "core/train/batches/replayed_routes.h"

namespace xrun {

MicroForwards::MicroForwards(const MicroBatch& micro) : micro_(micro) {}

MicroForwards::~MicroForwards() = default;

const ComputedPack& MicroForwards::computed(const Model& model) {
  return *find_computed(model).pack;
}

void MicroForwards::replay(const Model& model,
                           std::vector<std::shared_ptr<const TokenRoutes>> routes) {
  // The routes decide which tokens are shared, so earlier trees and forwards are invalid.
  routed_ = &model;
  routes_ = std::move(routes);
  computed_.clear();
  forwards_.clear();
}

std::shared_ptr<const std::vector<at::Tensor>> MicroForwards::replayed(const Model& model) {
  return find_computed(model).replay;
}

const MicroForwards::Computed& MicroForwards::find_computed(const Model& model) {
  const bool replays = routed_ == &model;
  const bool held = holds_prefix(model);
  // A held prefix serves segments of one class.
  std::vector<int64_t> classes =
      held ? std::vector<int64_t>() : frequency_classes(micro_.pack(), model.config());
  for (const Computed& known : computed_) {
    if (known.held == held && known.replays == replays && known.classes == classes) return known;
  }
  const PackedBatch& pack = micro_.pack();
  // Segments that took different experts for a token do not share it.
  const std::vector<int32_t> keys =
      replays ? routed_token_keys(pack, routes_) : std::vector<int32_t>();
  auto made = std::make_unique<const ComputedPack>(
      held ? computed_tree(pack, micro_.info().fold.min_run, micro_.device())
           : computed_pack(pack, micro_.info().fold, classes, micro_.device(), keys));
  std::shared_ptr<const std::vector<at::Tensor>> replay;
  if (replays) replay = computed_routes(pack, *made, routes_);
  computed_.push_back({held, replays, std::move(classes), std::move(made), std::move(replay)});
  return computed_.back();
}

bool MicroForwards::holds_prefix(const Model& model) const {
  return prefix_ != nullptr && prefix_->serves(model);
}

void MicroForwards::begin_with(std::shared_ptr<HeldPrefix> prefix) {
  prefix_ = std::move(prefix);
  // They may index the tokens of another tree.
  forwards_.clear();
}

MicroForwards::MicroForward& MicroForwards::forward(Model& model) {
  // A frozen model's forward is the same in either gradient mode: one serves both.
  const bool gradient = at::GradMode::is_enabled() && model.trainable();
  const auto is_current = [&](const MicroForward& forward) {
    return forward.update_count == model.update_count &&
           forward.times_replaced == model.times_replaced();
  };
  for (MicroForward& forward : forwards_) {
    if (forward.model == &model && is_current(forward) && forward.gradient == gradient) {
      return forward;
    }
  }
  // Forwards of earlier weights are never read again, and their graphs are large.
  std::erase_if(forwards_, [&](const MicroForward& forward) {
    return forward.model == &model && !is_current(forward);
  });
  std::shared_ptr<RouterRecord> router;
  if (gradient && model.config().moe.experts > 0) router = std::make_shared<RouterRecord>();
  ForwardOptions options{.router = router.get()};
  if (gradient) {
    // Keyed by step and micro-batch, so that a resumed step drops the same inputs. None without
    // gradient: a reference or an evaluation scores the model itself.
    options.dropout = DropoutKey{micro_.info().seed, static_cast<uint64_t>(micro_.info().step),
                                 static_cast<uint64_t>(micro_.index())};
  }
  const ComputedPack& pack = computed(model);
  options.multiplicity = pack.multiplicity;
  options.replay = replayed(model);
  at::Tensor hidden;
  if (gradient && holds_prefix(model)) {
    const HeldPrefix::PrefixLeaves prefix = prefix_->leaves(model);
    options.held = prefix.keys;
    // [T, D]: the tree's tokens begin with the prefix, so loss rows find both in one tensor.
    hidden = at::cat({prefix.hidden, model.forward(pack.input, options)});
  } else {
    hidden = model.forward(pack.input, options);
  }
  forwards_.push_back({&model,
                       model.update_count,
                       model.times_replaced(),
                       gradient,
                       std::move(hidden),
                       {},
                       false,
                       router});
  return forwards_.back();
}

at::Tensor MicroForwards::hidden(Model& model) {
  MicroForward& made = forward(model);
  made.wants_hidden = true;
  // token_logprob frees it only without gradient, where there is no dropout: running the forward
  // again gives the same bits.
  if (!made.hidden.defined()) {
    made.hidden = model.forward(computed(model).input, {.replay = replayed(model)});
  }
  return made.hidden;
}

void MicroForwards::free_hidden() {
  for (MicroForward& made : forwards_) {
    // With a gradient the graph holds it anyway.
    if (!made.gradient) made.hidden.reset();
  }
  std::erase_if(forwards_, [](const MicroForward& made) {
    return !made.hidden.defined() && !made.logprob.defined();
  });
}

int64_t MicroForwards::take_head_mb(int64_t head_mb, int64_t rows, int64_t vocab) {
  // The products of one micro-batch (of two models, of two targets) all keep their rows until the
  // backward.
  const int64_t left = std::max<int64_t>(head_mb - head_mb_taken_, 0);
  const int64_t bytes = head_rows_within(left, rows, vocab) * vocab * 4;
  // Rounded up to whole MiB, as the next call gets what is left.
  head_mb_taken_ += (bytes + (int64_t{1} << 20) - 1) >> 20;
  return left;
}

at::Tensor MicroForwards::token_logprob(Model& model, int64_t head_mb) {
  MicroForward& made = forward(model);
  if (!made.logprob.defined()) {
    const ComputedPack& pack = computed(model);
    const bool folded = pack.fold != nullptr;
    const at::Tensor& index = folded ? pack.edge_hidden : pack.row_hidden;
    // Without gradient the head keeps no softmax rows, so it takes nothing from the budget.
    if (made.gradient) head_mb = take_head_mb(head_mb, index.size(0), model.config().vocab);
    made.logprob = model
                       .head(made.hidden, index, folded ? pack.edge_target : micro_.row_target(),
                             {.temperature = micro_.info().temperature, .head_mb = head_mb})
                       .logprob;
    if (folded) made.logprob = made.logprob.index_select(0, pack.row_edge);
    // [T, D] of every micro-batch of an evaluation would add up; the log-probs are [R].
    if (!made.gradient && !made.wants_hidden) made.hidden.reset();
  }
  return made.logprob;
}

bool MicroForwards::takes_token_logprob(Model& model) {
  // xrun.kd asks, which computes the same product: true if its log-probs are those that
  // token_logprob would compute.
  return !forward(model).logprob.defined() && micro_.info().temperature == 1 &&
         computed(model).fold == nullptr;
}

void MicroForwards::set_token_logprob(Model& model, at::Tensor logprob) {
  forward(model).logprob = std::move(logprob);
}

void MicroForwards::retain_logprob_gradients() {
  for (const MicroForward& made : forwards_) {
    if (made.logprob.defined() && made.logprob.requires_grad()) made.logprob.retain_grad();
  }
}

std::vector<at::Tensor> MicroForwards::logprob_gradients() const {
  std::vector<at::Tensor> gradients;
  for (const MicroForward& made : forwards_) {
    if (made.logprob.defined() && made.logprob.retains_grad() && made.logprob.grad().defined()) {
      gradients.push_back(made.logprob.grad());
    }
  }
  return gradients;
}

const RouterRecord* MicroForwards::router(const Model& model) const {
  for (const MicroForward& forward : forwards_) {
    if (forward.model == &model && forward.gradient) return forward.router.get();
  }
  return nullptr;
}

void MicroForwards::clear() {
  forwards_.clear();
  prefix_.reset();
  head_mb_taken_ = 0;
}

}  // namespace xrun
