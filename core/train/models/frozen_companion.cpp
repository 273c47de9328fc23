// Distillation from a frozen model: the tokens that it reads for a micro-batch, those of a
// companion or the batch's own, and the values of their rows.

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/index_select.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/model/model.h"
#include "core/model/weights/hf_config.h"
#include "core/model/weights/safetensors.h"
#include "core/model/weights/weight_layout.h"
#include "core/text/tokenizer/tokenizer.h"
#include "core/train/batches/computed_pack.h"
#include "core/train/batches/micro_batch.h"
#include "core/train/models/chunk_columns.h"
#include "core/train/models/frozen_model.h"

namespace xrun {

namespace {

// The vocabulary projection alone, as Model::load reads it: with stored hidden states nothing else
// of a teacher is needed.
at::Tensor read_head(const std::filesystem::path& dir, const FrozenSettings& settings) {
  const ModelConfig config = read_frozen_config(dir);
  const SafetensorsFolder files(dir);
  const std::vector<WeightSpec> specs = weight_specs(config);
  const auto head = std::find_if(specs.begin(), specs.end(), [&](const WeightSpec& spec) {
    return config.tied || spec.name == config.names.head + ".weight";  // tied: the embedding, first
  });
  XRUN_CHECK(head != specs.end(), "{}: there is no vocabulary projection", dir.string());
  return read_weight(*head, files, file_form(files, config, dir.string()))
      .to(settings.dtype)
      .to(settings.device);
}

}  // namespace

const FrozenModel::KnownVocabulary& FrozenModel::vocabulary_of(const MicroBatch& micro) const {
  const auto& tokenizer = micro.info().tokenizer.tokenizer;
  const auto [known, is_new] = known_.try_emplace(tokenizer);
  if (is_new && tokenizer != nullptr) {
    KnownVocabulary& made = known->second;
    made.fingerprint = vocabulary_fingerprint(*tokenizer);
    made.size = tokenizer->vocab_size();
    if (made.fingerprint != fingerprint())
      made.match = compare_vocabularies(*tokenizer, *tokenizer_);
  }
  return known->second;
}

bool FrozenModel::reads_tokens_of(const MicroBatch& micro) const {
  return vocabulary_of(micro).match != VocabularyMatch::kDifferent;
}

int64_t FrozenModel::common_columns(const MicroBatch& micro) const {
  const KnownVocabulary& known = vocabulary_of(micro);
  return known.match == VocabularyMatch::kExtended ? std::min(columns(), known.size) : columns();
}

// Rotary positions have no end, so a longer sequence would get log-probs, but no sensible ones.
void FrozenModel::check_length(const std::vector<int32_t>& cu_seqlens, bool companion) const {
  const int64_t most = config_->max_length;  // max_position_embeddings
  if (most == 0) return;
  for (size_t s = 1; s < cu_seqlens.size(); ++s) {
    const int32_t length = cu_seqlens[s] - cu_seqlens[s - 1];
    XRUN_CHECK(length <= most,
               "{} reads at most {} tokens (max_position_embeddings in its config.json), but this "
               "batch has a sequence of {}{}",
               dir_.string(), count_text(most), count_text(length),
               companion
                   ? " of its tokens; with several teachers, align the data with the one that has "
                     "the smallest limit, where rows are cut"
                   : fmt::format("; set max_length = {}, or cut rows there with "
                                 "data:align(teacher)",
                                 most));
  }
}

void FrozenModel::check_tokens(const MicroBatch& micro) const {
  const KnownVocabulary& known = vocabulary_of(micro);
  const BatchTokenizer& own = micro.info().tokenizer;
  XRUN_CHECK(
      known.match != VocabularyMatch::kDifferent,
      "{} cannot read this batch: its tokens are those of {}, a different vocabulary ({} ids, "
      "fingerprint {}, wanted {} ids, {}); as a teacher it needs data aligned with it, "
      "data:align(teacher), as in recipes/xdistill.lua",
      dir_.string(), own.dir, known.size, known.fingerprint, tokenizer_->vocab_size(),
      fingerprint());
  if (known.match == VocabularyMatch::kExtended) {
    for (const int32_t id : micro.pack().tokens) {
      XRUN_CHECK(!tokenizer_->piece(id).empty() || own.tokenizer->piece(id).empty(),
                 "{} cannot read this batch: token {} is \"{}\", which only the vocabulary of {} "
                 "has; align the data with this model, data:align(teacher)",
                 dir_.string(), id, own.tokenizer->piece(id), own.dir);
    }
  }
  check_length(micro.pack().cu_seqlens, /*companion=*/false);
}

const CompanionPack* FrozenModel::companion_of(const MicroBatch& micro) const {
  const CompanionPack* const companion = micro.pack().companion.get();
  const bool reads = companion && tokenizer_ && companion->fingerprint == fingerprint();
  return reads ? companion : nullptr;
}

CompanionPack FrozenModel::tokens_of(const MicroBatch& micro) const {
  check_head(/*classifier=*/false);
  if (const CompanionPack* const companion = companion_of(micro)) {
    check_length(companion->cu_seqlens, /*companion=*/true);
    return *companion;
  }
  const CompanionPack* const other = micro.pack().companion.get();
  XRUN_CHECK(
      other == nullptr || reads_tokens_of(micro),
      "{}: the data are aligned with a different vocabulary (fingerprint {}; this model's is "
      "{}); align them with this model, data:align(teacher)",
      dir_.string(), other->fingerprint, fingerprint());
  check_tokens(micro);
  return own_tokens(micro.pack());
}

FrozenRows& FrozenModel::rows(double temperature, int64_t columns) {
  std::unique_ptr<FrozenRows>& known = rows_[{temperature, columns}];
  if (!known) {
    FrozenRows::Form form{.cache = options_.cache,
                          .top_k = std::min(options_.top_k, columns),
                          .temperature = temperature,
                          .columns = columns,
                          .vocabulary = tokenizer_ ? fingerprint() : "",
                          .width = config_->hidden};
    known = std::make_unique<FrozenRows>(source(), std::move(form));
  }
  return *known;
}

at::Tensor FrozenModel::row_hidden(MicroBatch& micro, const CompanionPack& tokens) {
  const at::NoGradGuard no_grad;
  check_length(tokens.cu_seqlens, !tokens.fingerprint.empty());
  if (options_.cache == FrozenCache::kHidden) {
    return rows(1, columns()).hidden(micro, tokens, vocabulary_of(micro).fingerprint);
  }
  const bool elsewhere = options_.settings.device != micro.device();
  if (!tokens.fingerprint.empty() || elsewhere) return companion_hidden(model(), tokens);
  // The micro-batch's own tokens: one forward, folded, for all that is asked of this model.
  const at::Tensor hidden = micro.hidden(model());
  std::vector<int64_t> loss_rows;
  const std::vector<int32_t>& slots = micro.pack().rows.hidden;
  for (auto slot = slots.begin(); const int32_t wanted : tokens.hidden) {
    slot = std::find(slot, slots.end(), wanted);
    loss_rows.push_back(slot - slots.begin());
  }
  const at::Tensor row = on_device(int64_tensor(loss_rows), micro.device());
  const at::Tensor& of_row = micro.computed(model()).row_hidden;
  return at::index_select(hidden, 0, at::index_select(of_row, 0, row));
}

at::Tensor FrozenModel::head_weight() {
  if (model_) return model_->head_weight();
  if (options_.cache != FrozenCache::kHidden) return model().head_weight();
  if (!head_.defined()) head_ = read_head(base_, options_.settings);
  return head_;
}

HeadResult FrozenModel::row_columns(MicroBatch& micro, const CompanionPack& tokens,
                                    const ColumnOptions& options) {
  const at::NoGradGuard no_grad;
  const int64_t columns = options.columns > 0 ? options.columns : this->columns();
  const int64_t k = std::min(options.k, columns);
  if (options_.cache == FrozenCache::kTopColumns) {
    XRUN_CHECK(k <= options_.top_k,
               "{}: {} columns per row were requested, but its cache has {}; set k = {} where the "
               "model is opened, or lower topk",
               dir_.string(), k, options_.top_k, k);
    HeadResult result =
        rows(options.temperature, columns).columns(micro, tokens, vocabulary_of(micro).fingerprint);
    result.top_logprob = result.top_logprob.slice(1, 0, k);
    result.top_id = result.top_id.slice(1, 0, k);
    return result;
  }
  const at::Tensor hidden = row_hidden(micro, tokens);
  const auto whole = at::dtype(at::kLong).device(hidden.device());
  const HeadOptions wanted{
      .temperature = options.temperature, .columns = columns, .lse = true, .top_k = k};
  HeadResult result = linear_head(hidden, head_weight(), at::arange(hidden.size(0), whole),
                                  on_device(int64_tensor(tokens.target), hidden.device()), wanted);
  share_chunk_columns(result, hidden, head_weight(), tokens.chunk, wanted);
  for (at::Tensor* const of : {&result.logprob, &result.lse, &result.top_logprob, &result.top_id}) {
    if (of->defined()) *of = on_device(*of, micro.device());
  }
  return result;
}

}  // namespace xrun
