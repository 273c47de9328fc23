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
#include "core/text/tokenizer/vocabulary_fingerprint.h"
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
  const ModelConfig config = read_model_config(dir);
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
  const ModelConfig config = read_model_config(frozen->base_);
  frozen->vocab_ = config.vocab;
  frozen->max_length_ = config.max_length;
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
  XRUN_CHECK(tokenizer->vocab_size() <= frozen->vocab_,
             "{}: the tokenizer has {} ids, the model's embedding {} rows (vocab_size in "
             "config.json); this tokenizer belongs to another model",
             (named.empty() ? dir : named).string(), tokenizer->vocab_size(), frozen->vocab_);
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

int64_t FrozenModel::columns() const { return tokenizer_ ? tokenizer_->vocab_size() : vocab_; }

const std::string& FrozenModel::digest() {
  if (digest_.empty()) digest_ = digest_of_files({base_, dir_});
  return digest_;
}

Model& FrozenModel::own_model() {
  if (!model_) {
    const std::string wanted = digest();
    const FrozenSettings& settings = options_.settings;
    LoadOptions load{.dtype = settings.dtype, .gemm = settings.gemm, .device = settings.device};
    if (base_ != dir_) load.adapter = read_adapter(dir_, read_model_config(base_));
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

const std::string& FrozenModel::fingerprint_of(const MicroBatch& micro) const {
  const auto& tokenizer = micro.info().tokenizer.tokenizer;
  std::string& known = known_tokenizers_[tokenizer];
  if (known.empty() && tokenizer != nullptr) known = vocabulary_fingerprint(*tokenizer);
  return known;
}

bool FrozenModel::reads_tokens_of(const MicroBatch& micro) const {
  if (micro.info().tokenizer.tokenizer == nullptr) return true;  // a batch made by hand
  return fingerprint_of(micro) == fingerprint();
}

// Rotary positions have no end, so a longer sequence would get log-probs, but no sensible ones.
void FrozenModel::check_length(const PackedBatch& pack) const {
  if (max_length_ == 0) return;
  for (size_t s = 1; s < pack.cu_seqlens.size(); ++s) {
    const int32_t length = pack.cu_seqlens[s] - pack.cu_seqlens[s - 1];
    XRUN_CHECK(length <= max_length_,
               "{} reads at most {} tokens (max_position_embeddings in its config.json), but this "
               "batch has a sequence of {}; set max_length = {}",
               dir_.string(), count_text(max_length_), count_text(length), max_length_);
  }
}

void FrozenModel::check_tokens(const MicroBatch& micro) const {
  if (reads_tokens_of(micro)) return check_length(micro.pack());
  XRUN_CHECK(false,
             "{} cannot read this batch: its tokens are those of {}, another vocabulary ({} ids, "
             "fingerprint {}, wanted {} ids, {}); as a teacher it needs data aligned with it, "
             "data:align(teacher)",
             dir_.string(), micro.info().tokenizer.dir,
             micro.info().tokenizer.tokenizer->vocab_size(), fingerprint_of(micro),
             tokenizer_->vocab_size(), fingerprint());
}

CompanionPack FrozenModel::tokens_of(const MicroBatch& micro) const {
  if (reads_tokens_of(micro)) {
    check_length(micro.pack());
    return own_tokens(micro.pack());
  }
  const std::shared_ptr<const CompanionPack>& companion = micro.pack().companion;
  if (companion == nullptr) check_tokens(micro);
  XRUN_CHECK(companion->fingerprint == fingerprint(),
             "{}: the data are aligned with another vocabulary (fingerprint {}) than this model's "
             "({}); align them with this model, data:align(teacher)",
             dir_.string(), companion->fingerprint, fingerprint());
  return *companion;
}

FrozenRows& FrozenModel::rows(double temperature) {
  std::unique_ptr<FrozenRows>& known = rows_[temperature];
  if (!known) {
    FrozenRows::Form form{.cache = options_.cache,
                          .top_k = std::min(options_.top_k, columns()),
                          .temperature = temperature,
                          .columns = columns(),
                          .vocabulary = tokenizer_ ? fingerprint() : "",
                          .width = read_model_config(base_).hidden};
    known = std::make_unique<FrozenRows>(source(), std::move(form));
  }
  return *known;
}

at::Tensor FrozenModel::row_hidden(MicroBatch& micro, const CompanionPack& tokens) {
  const at::NoGradGuard no_grad;
  if (options_.cache == FrozenCache::kHidden) {
    return rows(1).hidden(micro, tokens, fingerprint_of(micro));
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

HeadResult FrozenModel::row_columns(MicroBatch& micro, const CompanionPack& tokens, int64_t k,
                                    double temperature) {
  const at::NoGradGuard no_grad;
  k = std::min(k, columns());
  if (options_.cache == FrozenCache::kTopColumns) {
    XRUN_CHECK(k <= options_.top_k,
               "{}: {} columns of a row were asked for, its cache has {}; set k = {} where the "
               "model is opened, or lower topk",
               dir_.string(), k, options_.top_k, k);
    HeadResult result = rows(temperature).columns(micro, tokens, fingerprint_of(micro));
    result.top_logprob = result.top_logprob.slice(1, 0, k);
    result.top_id = result.top_id.slice(1, 0, k);
    return result;
  }
  const at::Tensor hidden = row_hidden(micro, tokens);
  const auto whole = at::dtype(at::kLong).device(hidden.device());
  return linear_head(hidden, head_weight(), at::arange(hidden.size(0), whole),
                     on_device(int64_tensor(tokens.target), hidden.device()),
                     {.temperature = temperature, .columns = columns(), .lse = true, .top_k = k});
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
  check_tokens(micro);
  return view.select_rows(micro.token_logprob(model(), options_.settings.head_mb));
}

at::Tensor FrozenModel::own_logprob(const View& view) {
  check_tokens(view.micro());
  return logprobs_.logprob(view);
}

HeadResult FrozenModel::own_head(const View& view, const HeadOptions& options,
                                 const at::Tensor& target) {
  const at::NoGradGuard no_grad;
  check_tokens(view.micro());
  return view_head(model(), view, options, target, /*head_mb=*/0);
}

at::Tensor FrozenModel::own_logits(const View& view) {
  const at::NoGradGuard no_grad;
  check_tokens(view.micro());
  return view_logits(model(), view);
}

at::Tensor FrozenModel::own_score(const View& view, const ScoreWeight& weight) {
  const at::NoGradGuard no_grad;
  check_tokens(view.micro());
  return view_score(model(), view, weight);
}

}  // namespace xrun
