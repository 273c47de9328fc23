// Weights load at the first answer that no sidecar has. The digest hashes the files, so that a
// stored value is found, and a resumed run compared, without loading them.

#include "core/train/frozen_model.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/index_select.h>

#include <algorithm>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/base/folder.h"
#include "core/base/hash.h"
#include "core/base/interrupt.h"
#include "core/base/strings.h"
#include "core/data/cache/cache_folder.h"
#include "core/data/cache/file_digests.h"
#include "core/model/model.h"
#include "core/model/weights/adapter_files.h"
#include "core/model/weights/export.h"
#include "core/model/weights/hf_config.h"
#include "core/model/weights/model_registry.h"
#include "core/model/weights/safetensors.h"
#include "core/model/weights/weight_layout.h"
#include "core/text/tokenizer/tokenizer.h"
#include "core/train/computed_pack.h"
#include "core/train/micro_batch.h"
#include "core/train/sharded_weights.h"
#include "core/train/view_head.h"

namespace xrun {
namespace {

std::shared_ptr<const Tokenizer> tokenizer_in(const std::filesystem::path& dir) {
  return tokenizer_files(dir).empty() ? nullptr : Tokenizer::load(dir);
}

// A hash over the names and bytes of the files that decide a model's values.
std::string digest_of_files(const std::set<std::filesystem::path>& dirs) {
  const FileDigests digests(cache_root() / kFileDigestsFolder);
  Hasher hasher;
  for (const std::filesystem::path& dir : dirs) {
    std::set<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(dir)) {
      const std::string name = entry.path().filename().string();
      const bool is_weight = name.ends_with(".safetensors");
      if (is_weight || name == "config.json" || name == "adapter_config.json") {
        files.insert(entry.path());
      }
    }
    for (const std::filesystem::path& file : files) {
      hasher.field(file.filename().string(),
                   digests.digest(file, [](uint64_t) { check_interrupt(); }));
    }
  }
  return hasher.hex();
}

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

FrozenModel::FrozenModel(std::filesystem::path dir, FrozenOptions options)
    : dir_(std::move(dir)), options_(std::move(options)), logprobs_(source()) {}

FrozenModel::~FrozenModel() = default;

std::shared_ptr<FrozenModel> FrozenModel::open(const std::filesystem::path& dir,
                                               const FrozenOptions& options) {
  std::shared_ptr<FrozenModel> frozen(new FrozenModel(dir, options));
  frozen->base_ = is_adapter(dir) ? resolve_base_model(dir) : dir;
  frozen->config_ = std::make_unique<const ModelConfig>(read_frozen_config(frozen->base_));
  const int64_t labels = frozen->config_->labels;
  XRUN_CHECK(labels <= 1,
             "{}: is a classifier of {} labels (id2label or num_labels in its config.json); a "
             "reward or value model has 1",
             dir.string(), labels);
  if (FetchingRanks* const ranks = sharding_ranks(options.dist, 1)) {
    frozen->sharded_ =
        std::make_unique<ShardedModel>(*ranks, [owner = frozen.get()] { owner->own_model(); });
  }
  const std::filesystem::path& named = options.tokenizer;
  const auto own = tokenizer_in(frozen->base_);
  frozen->tokenizer_ = named.empty() ? own : Tokenizer::load(named);
  const auto& tokenizer = frozen->tokenizer_;
  if (tokenizer == nullptr) return frozen;
  if (own != nullptr && own != tokenizer) {
    XRUN_CHECK(vocabulary_fingerprint(*own) == frozen->fingerprint(),
               "{}: this model has another vocabulary ({} ids, fingerprint {}) than the tokenizer "
               "given for it, {} ({} ids, fingerprint {}); leave tokenizer out, or name a model of "
               "that vocabulary",
               dir.string(), own->vocab_size(), vocabulary_fingerprint(*own), named.string(),
               tokenizer->vocab_size(), frozen->fingerprint());
  }
  XRUN_CHECK(tokenizer->vocab_size() <= frozen->vocab(),
             "{}: the tokenizer has {} ids, the model's embedding {} rows (vocab_size in "
             "config.json); this tokenizer belongs to another model",
             (named.empty() ? dir : named).string(), tokenizer->vocab_size(), frozen->vocab());
  return frozen;
}

FrozenSource FrozenModel::source() {
  return {.model = [this]() -> Model& { return own_model(); },
          .digest = [this] { return digest(); },
          .settings = [this] { return options_.settings; }};
}

void FrozenModel::use_gemm(GemmType gemm) {
  XRUN_CHECK(!model_, "the compute type must be set before the weights load");
  options_.settings.gemm = gemm;
}

const std::shared_ptr<const Tokenizer>& FrozenModel::tokenizer() const {
  XRUN_CHECK(tokenizer_,
             "{}: there is no tokenizer in this folder, so its vocabulary is unknown; name the "
             "folder that has it: tokenizer = \"DIR\"",
             dir_.string());
  return tokenizer_;
}

const std::string& FrozenModel::fingerprint() const {
  if (fingerprint_.empty()) fingerprint_ = vocabulary_fingerprint(*tokenizer());
  return fingerprint_;
}

int64_t FrozenModel::vocab() const { return config_->vocab; }

int64_t FrozenModel::columns() const { return tokenizer_ ? tokenizer_->vocab_size() : vocab(); }

const std::string& FrozenModel::digest() {
  if (digest_.empty()) digest_ = digest_of_files({base_, dir_});
  return digest_;
}

Model& FrozenModel::own_model() {
  if (!model_) {
    const std::string wanted = digest();
    const FrozenSettings& settings = options_.settings;
    LoadOptions load{.dtype = settings.dtype,
                     .gemm = settings.gemm,
                     .classifiers = true,
                     .device = settings.device};
    if (base_ != dir_) load.adapter = read_adapter(dir_, *config_);
    if (sharded_) load.shard = sharded_->shard();
    std::shared_ptr<Model> model = Model::load(base_, load);
    const std::string got = digest_of_files({base_, dir_});
    XRUN_CHECK(got == wanted,
               "{}: the files in this folder changed since the run opened it (digest {}, wanted "
               "{}); restore the folder or begin a new run",
               dir_.string(), got, wanted);
    loaded_digest_ = model->digest();
    model_ = std::move(model);
    head_.reset();  // the model has it
  }
  return *model_;
}

void FrozenModel::check_digest() {
  if (!model_) return;
  const std::string now = model_->digest();
  XRUN_CHECK(now == loaded_digest_,
             "{}: the frozen weights changed in memory (digest {}, wanted {}): do not trust what "
             "was trained against them",
             dir_.string(), now, loaded_digest_);
}

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
void FrozenModel::check_length(const PackedBatch& pack) const {
  const int64_t most = config_->max_length;  // max_position_embeddings
  if (most == 0) return;
  for (size_t s = 1; s < pack.cu_seqlens.size(); ++s) {
    const int32_t length = pack.cu_seqlens[s] - pack.cu_seqlens[s - 1];
    XRUN_CHECK(length <= most,
               "{} reads at most {} tokens (max_position_embeddings in its config.json), but this "
               "batch has a sequence of {}; set max_length = {}",
               dir_.string(), count_text(most), count_text(length), most);
  }
}

void FrozenModel::check_tokens(const MicroBatch& micro) const {
  const KnownVocabulary& known = vocabulary_of(micro);
  const BatchTokenizer& own = micro.info().tokenizer;
  XRUN_CHECK(known.match != VocabularyMatch::kDifferent,
             "{} cannot read this batch: its tokens are those of {}, another vocabulary ({} ids, "
             "fingerprint {}, wanted {} ids, {}); as a teacher it needs data aligned with it, "
             "data:align(teacher)",
             dir_.string(), own.dir, known.size, known.fingerprint, tokenizer_->vocab_size(),
             fingerprint());
  if (known.match == VocabularyMatch::kExtended) {
    for (const int32_t id : micro.pack().tokens) {
      XRUN_CHECK(!tokenizer_->piece(id).empty() || own.tokenizer->piece(id).empty(),
                 "{} cannot read this batch: token {} is \"{}\", which {} has in addition to the "
                 "vocabulary of both; align the data with it, data:align(teacher)",
                 dir_.string(), id, own.tokenizer->piece(id), own.dir);
    }
  }
  check_length(micro.pack());
}

const CompanionPack* FrozenModel::companion_of(const MicroBatch& micro) const {
  const CompanionPack* const companion = micro.pack().companion.get();
  const bool reads = companion && tokenizer_ && companion->fingerprint == fingerprint();
  return reads ? companion : nullptr;
}

CompanionPack FrozenModel::tokens_of(const MicroBatch& micro) const {
  check_head(/*classifier=*/false);
  if (const CompanionPack* const companion = companion_of(micro)) return *companion;
  const CompanionPack* const other = micro.pack().companion.get();
  XRUN_CHECK(other == nullptr || reads_tokens_of(micro),
             "{}: the data are aligned with another vocabulary (fingerprint {}) than this model's "
             "({}); align them with this model, data:align(teacher)",
             dir_.string(), other->fingerprint, fingerprint());
  check_tokens(micro);
  return own_tokens(micro.pack());
}

void FrozenModel::check_head(bool classifier) const {
  if (classifier == (config_->labels > 0)) return;
  XRUN_CHECK(!classifier,
             "{} is a language model, without a score; a reward or value model is a folder of "
             "run:export(scorer), or another sequence classifier of one label",
             dir_.string());
  throw Error(
      fmt::format("{} is a sequence classifier: it gives scores, no log-probs", dir_.string()));
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
  if (options_.cache == FrozenCache::kHidden) {
    return rows(1, columns()).hidden(micro, tokens, vocabulary_of(micro).fingerprint);
  }
  if (!tokens.fingerprint.empty()) return companion_hidden(model(), tokens);
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
               "{}: {} columns of a row were asked for, its cache has {}; set k = {} where the "
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
  return linear_head(
      hidden, head_weight(), at::arange(hidden.size(0), whole),
      on_device(int64_tensor(tokens.target), hidden.device()),
      {.temperature = options.temperature, .columns = columns, .lse = true, .top_k = k});
}

FrozenRows::Counts FrozenModel::row_counts() const {
  FrozenRows::Counts all;
  for (const auto& [temperature, rows] : rows_) {
    all.cached += rows->counts().cached;
    all.computed += rows->counts().computed;
  }
  return all;
}

void FrozenModel::flush() {
  logprobs_.flush();
  for (auto& [temperature, rows] : rows_) rows->flush();
}

void FrozenModel::flush_arrived() {
  logprobs_.flush_arrived();
  for (auto& [temperature, rows] : rows_) rows->flush();
}

at::Tensor FrozenModel::own_token_logprob(const View& view) {
  const at::NoGradGuard no_grad;
  MicroBatch& micro = view.micro();
  check_head(/*classifier=*/false);
  check_tokens(micro);
  return view.select_rows(micro.token_logprob(model(), options_.settings.head_mb));
}

at::Tensor FrozenModel::own_logprob(const View& view) {
  check_head(/*classifier=*/false);
  check_tokens(view.micro());
  return logprobs_.logprob(view);
}

HeadResult FrozenModel::own_head(const View& view, const HeadOptions& options,
                                 const at::Tensor& target) {
  const at::NoGradGuard no_grad;
  check_head(/*classifier=*/false);
  check_tokens(view.micro());
  return view_head(model(), view, options, target, /*head_mb=*/0);
}

at::Tensor FrozenModel::own_logits(const View& view) {
  const at::NoGradGuard no_grad;
  check_head(/*classifier=*/false);
  check_tokens(view.micro());
  return view_logits(model(), view);
}

at::Tensor FrozenModel::own_score(const View& view, const ScoreWeight& weight) {
  const at::NoGradGuard no_grad;
  check_tokens(view.micro());
  return view_score(model(), view, weight);
}

}  // namespace xrun
