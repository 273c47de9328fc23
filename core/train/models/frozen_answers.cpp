// Answers of a frozen model for objectives: log-probs of chunks, and the scores of a classifier.

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/zeros.h>

#include "core/model/model.h"
#include "core/model/ops/linear.h"
#include "core/train/batches/batch.h"
#include "core/train/batches/computed_pack.h"
#include "core/train/batches/unit.h"
#include "core/train/batches/whole_batch.h"
#include "core/train/models/frozen_model.h"

namespace xrun {
namespace {

// Returns true if every trained token is a unit: the batch has no chunks, or those of another
// teacher, which say nothing about its own tokens.
bool is_by_row(const PackedBatch& pack, const CompanionPack& tokens) {
  return tokens.fingerprint.empty() && (pack.chunk.empty() || pack.companion != nullptr);
}

}  // namespace

at::Tensor FrozenModel::chunk_logprob(const View& view) {
  const at::NoGradGuard no_grad;
  MicroBatch& micro = view.micro();
  const CompanionPack tokens = tokens_of(micro);
  const PackedBatch& pack = micro.pack();
  const bool aligned = !tokens.fingerprint.empty();
  if (is_by_row(pack, tokens)) return token_logprob(view);
  view.check_whole("chunk_logprob");
  if (!aligned) return view.chunk_sum(token_logprob(view));
  if (is_replaced()) {  // a dry run has no log-probs of these tokens: -1 for each
    return group_by(tokens.chunk).sum(at::full({tokens.row_count()}, -1.0F));
  }
  const at::Tensor logprob =
      row_columns(micro, tokens, {.k = 0, .temperature = micro.info().temperature}).logprob;
  return group_by(tokens.chunk).sum(logprob);
}

at::Tensor FrozenModel::chunk_logprob(Batch& batch) {
  bool by_row = true;
  for (const auto& micro : batch.micros()) {
    by_row = by_row && is_by_row(micro->pack(), tokens_of(*micro));
  }
  const auto parts = score_micros_once(batch, "log-probs of chunks", [this](MicroBatch& micro) {
    const at::Tensor logprob = chunk_logprob(micro.all());
    micro.free_hidden();  // those of a whole batch may not fit into memory
    return logprob;
  });
  return by_row ? batch.in_batch_order(parts, /*by_row=*/true) : at::cat(parts);
}

const at::Tensor& FrozenModel::score_weight() {
  if (!score_.defined()) score_ = model().head_weight().detach().to(at::kFloat);
  return score_;
}

at::Tensor FrozenModel::score(const View& view) {
  const at::NoGradGuard no_grad;
  check_head(/*classifier=*/true);
  MicroBatch& micro = view.micro();
  const CompanionPack* const companion = companion_of(micro);
  if (companion == nullptr) check_tokens(micro);
  check_device(micro);
  if (companion == nullptr) {
    return score(view, [this]() -> const at::Tensor& { return score_weight(); });
  }
  if (is_replaced()) return at::zeros({view.size()});
  CompanionPack ends = *companion;
  ends.hidden.clear();
  for (const int64_t s : view.rows().segments) {
    ends.hidden.push_back(companion->cu_seqlens[static_cast<size_t>(s) + 1] - 1);
  }
  const at::Tensor last = companion_hidden(model(), ends).to(at::kFloat);
  return linear(last, score_weight(), {}, GemmType::kStorage).select(1, 0);
}

at::Tensor FrozenModel::token_score(const View& view) {
  const at::NoGradGuard no_grad;
  check_head(/*classifier=*/true);
  check_tokens(view.micro());
  check_device(view.micro());
  if (is_replaced()) return token_logprob(view);  // a dry run needs the right shape
  MicroBatch& micro = view.micro();
  const at::Tensor hidden = micro.hidden(model());
  const at::Tensor row = view.select_rows(micro.computed(model()).row_hidden);
  const at::Tensor before = at::index_select(hidden, 0, row).to(at::kFloat);
  return linear(before, score_weight(), {}, GemmType::kStorage).select(1, 0);
}

at::Tensor FrozenModel::score(Batch& batch) {
  const auto parts = score_micros_once(batch, "scores", [this](MicroBatch& micro) {
    const at::Tensor scores = score(micro.all());
    micro.free_hidden();
    return scores;
  });
  return batch.in_batch_order(parts, /*by_row=*/false);
}

at::Tensor FrozenModel::token_score(Batch& batch) {
  const auto parts = score_micros_once(batch, "scores of tokens", [this](MicroBatch& micro) {
    const at::Tensor scores = token_score(micro.all());
    micro.free_hidden();
    return scores;
  });
  return batch.in_batch_order(parts, /*by_row=*/true);
}

}  // namespace xrun
