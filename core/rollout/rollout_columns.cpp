// Rollout i copies the values of one segment of another batch: its prompt, or itself in the batch
// it was chosen from.

#include <ATen/core/Tensor.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <numeric>

#include "core/base/error.h"
#include "core/rollout/rollouts.h"

namespace xrun {

namespace {

// Fields and methods that rollouts have themselves; an extra column of such a name would be hidden.
constexpr const char* kRolloutFields[] = {"advantage",   "align",        "environment_reward",
                                          "filter",      "finish",       "minibatches",
                                          "old_logprob", "prompt",       "reward",
                                          "routes",      "sample",       "sampler_logprob",
                                          "score",       "score_groups", "text",
                                          "turns",       "version"};

bool is_rollout_field(const std::string& name) {
  return std::find(std::begin(kRolloutFields), std::end(kRolloutFields), name) !=
         std::end(kRolloutFields);
}

at::Tensor index_tensor(const std::vector<int64_t>& values) {
  return at::tensor(values, at::TensorOptions().dtype(at::kLong));
}

// Copies the fields of a batch that `wanted` takes, except those of every batch: member i of `to`
// gets those of segment of[i]. Copies fields per trained token only if `rows` names the rows.
template <typename Wanted>
void copy_fields(const Batch& from, Batch& to, const std::vector<int64_t>& of,
                 const std::vector<int64_t>* rows, const Wanted& wanted) {
  if (from.micros().empty() || from.size() == 0) return;
  static const std::vector<std::string> own = MicroBatch::own_field_names();
  for (const std::string& name : from.field_names()) {
    if (std::find(own.begin(), own.end(), name) != own.end() || !wanted(name)) continue;
    if (const auto texts = from.strings(name)) {
      std::vector<std::string> values;
      for (const int64_t i : of) values.push_back((*texts)[static_cast<size_t>(i)]);
      to.set_strings(name, values);
      continue;
    }
    bool by_row = false;
    from.micros().front()->field(name, &by_row);
    // Prompts have no loss rows, so fields per token cannot be carried over.
    if (by_row && rows == nullptr) continue;
    const at::Tensor values = from.field(name);
    // A field given per pair has another length; both sides of a pair have its value.
    if (!by_row && values.numel() != from.size()) continue;
    to.set_field(name, at::index_select(values.to(at::kCPU), 0, index_tensor(by_row ? *rows : of)),
                 by_row ? Unit::kToken : Unit::kSequence);
  }
}

}  // namespace

void check_column(const std::string& name) {
  XRUN_CHECK(!is_rollout_field(name),
             "the prompts have a column \"{}\", which is a field of rollouts; rename the column",
             name);
}

void check_columns(const Batch& prompts) {
  // Rollouts of rollouts: these are fields, not columns.
  if (dynamic_cast<const Rollouts*>(&prompts) != nullptr) return;
  for (const std::string& name : prompts.field_names()) check_column(name);
}

void take_row_weights(const RolloutList& rollouts, const Batch& prompts,
                      const std::vector<int64_t>& of) {
  if (rollouts.empty()) return;
  const at::Tensor source = prompts.field("source").to(at::kCPU, at::kLong).contiguous();
  const at::Tensor weight = prompts.field("weight").to(at::kCPU, at::kFloat).contiguous();
  for (size_t i = 0; i < rollouts.size(); ++i) {
    rollouts[i]->source = static_cast<int32_t>(source.const_data_ptr<int64_t>()[of[i]]);
    rollouts[i]->weight = weight.const_data_ptr<float>()[of[i]];
  }
}

std::shared_ptr<Rollouts> Rollouts::copy(const std::vector<int64_t>& indices, BatchInfo info,
                                         std::optional<RolloutChunks> chunks) const {
  std::vector<int64_t> begin = {0};  // the loss rows of rollout i are [begin[i], begin[i + 1])
  for (const auto& one : rollouts_) begin.push_back(begin.back() + std::ssize(one->logprobs));
  RolloutList chosen;
  std::vector<int64_t> rows;
  for (const int64_t i : indices) {
    const auto at = static_cast<size_t>(i);
    chosen.push_back(rollouts_[at]);
    for (int64_t row = begin[at]; row < begin[at + 1]; ++row) rows.push_back(row);
  }
  auto made = std::make_shared<Rollouts>(std::move(info), std::move(chosen), std::move(chunks));
  // Also what the recipe has assigned: rewards, advantages, fields of its own.
  copy_fields(*this, *made, indices, &rows, [](const std::string&) { return true; });
  return made;
}

std::shared_ptr<Rollouts> Rollouts::subset(const std::vector<int64_t>& indices) const {
  return copy(indices, info(), chunks_);
}

std::shared_ptr<Rollouts> Rollouts::with_chunks(RolloutChunks chunks) const {
  XRUN_CHECK(info().fold.rows == SharedRows::kPerSample,
             "batch.fold_weight changes the weights of shared rows, but a chunk of aligned "
             "rollouts counts once in each answer; leave fold_weight = \"per_sample\"");
  BatchInfo info = this->info();
  info.aligned = chunks.companions != nullptr;
  info.chunked = true;
  std::vector<int64_t> all(rollouts_.size());
  std::iota(all.begin(), all.end(), 0);
  return copy(all, std::move(info), std::move(chunks));
}

void Rollouts::set_columns(const Batch& prompts, const std::vector<int64_t>& of) {
  check_columns(prompts);
  copy_fields(prompts, *this, of, nullptr,
              [](const std::string& name) { return !is_rollout_field(name); });
}

}  // namespace xrun
