// Weights load at the first value that no sidecar has. The digest is a hash of the files, so that
// stored values are found and a resumed run is compared without loading them.

#include "core/train/models/frozen_model.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "core/base/error.h"
#include "core/base/folder.h"
#include "core/base/hash.h"
#include "core/base/interrupt.h"
#include "core/base/strings.h"
#include "core/data/cache/cache_folder.h"
#include "core/data/cache/file_digests.h"
#include "core/dist/agreement.h"
#include "core/model/model.h"
#include "core/model/model_load.h"
#include "core/model/weights/adapter_files.h"
#include "core/model/weights/export.h"
#include "core/model/weights/hf_config.h"
#include "core/model/weights/model_registry.h"
#include "core/text/tokenizer/tokenizer.h"
#include "core/train/batches/micro_batch.h"
#include "core/train/models/fetched_weights.h"
#include "core/train/models/shared_reading.h"
#include "core/train/models/view_head.h"

namespace xrun {
namespace {

std::shared_ptr<const Tokenizer> tokenizer_in(const std::filesystem::path& dir) {
  return tokenizer_files(dir).empty() ? nullptr : Tokenizer::load(dir);
}

// A hash over the names and bytes of files. Ranks (null: none) share the reading.
std::string digest_of_files(const std::vector<std::filesystem::path>& files, Ranks* ranks) {
  const ReadingGroup group = ranks == nullptr ? ReadingGroup{{0}} : reading_group(*ranks, files);
  const FileDigests digests(cache_root() / kFileDigestsFolder);
  const auto own_digests = [&] {
    std::string text;
    for (size_t i = group.own; i < files.size(); i += group.size()) {
      // Cached while the file is unchanged, so that a large model is hashed once.
      text += digests.digest(files[i], [](uint64_t) { check_interrupt(); }) + " ";
    }
    return text;
  };
  const auto all = gather_results(ranks, "digests of a model's files", own_digests);
  std::vector<std::istringstream> shares;
  for (const size_t rank : group.ranks) shares.emplace_back(all[rank]);
  Hasher hasher;
  for (size_t i = 0; i < files.size(); ++i) {
    std::string digest;
    shares[i % group.size()] >> digest;
    hasher.field(files[i].filename().string(), digest);
  }
  return hasher.hex();
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
  // A language model has 0. A score is one number, so several labels have no meaning here.
  const int64_t labels = frozen->config_->labels;
  XRUN_CHECK(labels <= 1,
             "{} is a classifier of {} labels (id2label or num_labels in its config.json); a "
             "reward or value model has 1",
             dir.string(), labels);
  if (FetchingRanks* const ranks = ranks_to_fetch_from(options.dist, 1)) {
    // Taken here, where all ranks take part; later each asks for it when it needs it.
    frozen->take_digest(ranks);
    frozen->fetched_ =
        std::make_unique<FetchedModel>(*ranks, frozen->base_, frozen->load_options(),
                                       [owner = frozen.get()] { owner->own_model(); });
  }
  const std::filesystem::path& named = options.tokenizer;
  const auto own = tokenizer_in(frozen->base_);
  frozen->tokenizer_ = named.empty() ? own : Tokenizer::load(named);
  const auto& tokenizer = frozen->tokenizer_;
  if (tokenizer == nullptr) return frozen;
  // A wrong tokenizer would give plausible numbers for the wrong tokens.
  if (own != nullptr && own != tokenizer) {
    XRUN_CHECK(vocabulary_fingerprint(*own) == frozen->fingerprint(),
               "{}: this model's vocabulary ({} ids, fingerprint {}) differs from that of the "
               "tokenizer given for it, {} ({} ids, fingerprint {}); leave tokenizer out, or name "
               "a model of that vocabulary",
               dir.string(), own->vocab_size(), vocabulary_fingerprint(*own), named.string(),
               tokenizer->vocab_size(), frozen->fingerprint());
  }
  check_vocabulary_fits(named.empty() ? dir : named, *tokenizer, frozen->vocab());
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

// Rows of the embedding beyond the tokenizer's ids are padding and get no probability.
int64_t FrozenModel::columns() const { return tokenizer_ ? tokenizer_->vocab_size() : vocab(); }

// An adapter's values depend on two folders, its own and the base model's.
std::vector<std::filesystem::path> FrozenModel::folders() const {
  if (base_ == dir_) return {dir_};
  return {std::min(base_, dir_), std::max(base_, dir_)};
}

std::string FrozenModel::files_state() const {
  std::string state;
  for (const std::filesystem::path& dir : folders()) state += weight_files_state(dir);
  return state;
}

void FrozenModel::take_digest(Ranks* ranks) {
  digested_state_ = files_state();
  std::vector<std::filesystem::path> files;
  for (const std::filesystem::path& dir : folders()) {
    for (std::filesystem::path& file : weight_files(dir)) files.push_back(std::move(file));
  }
  digest_ = digest_of_files(files, ranks);
}

const std::string& FrozenModel::digest() {
  if (digest_.empty()) take_digest(nullptr);
  return digest_;
}

LoadOptions FrozenModel::load_options() const {
  const FrozenSettings& settings = options_.settings;
  LoadOptions load{.dtype = settings.dtype,
                   .gemm = settings.gemm,
                   .classifiers = true,
                   .device = settings.device};
  if (base_ != dir_) load.adapter = read_adapter(dir_, *config_);
  return load;
}

Model& FrozenModel::own_model() {
  if (!model_) {
    digest();
    LoadOptions load = load_options();
    if (fetched_) load = fetched_->in_ranges(std::move(load));
    std::shared_ptr<Model> model = Model::load(base_, load);
    // Stored values were found by the digest, so the files must not have changed since.
    XRUN_CHECK(files_state() == digested_state_,
               "{}: the files in this folder changed since the run opened it; restore the folder "
               "or begin a new run",
               dir_.string());
    // Of the weights in memory, for check_digest().
    loaded_digest_ = model->digest();
    model_ = std::move(model);
    head_.reset();  // the model has one
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

void FrozenModel::check_head(bool classifier) const {
  // A classifier's head has one row, from which no vocabulary can be scored.
  if (classifier == (config_->labels > 0)) return;
  XRUN_CHECK(!classifier,
             "{} is a language model, without a score; a reward or value model is a folder of "
             "run:export(scorer), or another sequence classifier of one label",
             dir_.string());
  throw Error(
      fmt::format("{} is a sequence classifier: it gives scores, not log-probs", dir_.string()));
}

void FrozenModel::check_device(const MicroBatch& micro) const {
  XRUN_CHECK(options_.settings.device == micro.device(),
             "{} is on {}, but the batch is on {}; across devices only xrun.kd, logprob and "
             "chunk_logprob work; leave out its device",
             dir_.string(), options_.settings.device.str(), micro.device().str());
}

SidecarCounts FrozenModel::row_counts() const {
  SidecarCounts all;
  for (const auto& [temperature, rows] : rows_) {
    all.cached += rows->counts().cached;
    all.computed += rows->counts().computed;
    if (!rows->counts().damage.empty()) all.damage = rows->counts().damage;
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
  check_device(micro);
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
  check_device(view.micro());
  check_head(/*classifier=*/false);
  check_tokens(view.micro());
  // 0: the budget is for products with gradient, and this one has none.
  return view_head(model(), view, options, target, /*head_mb=*/0);
}

at::Tensor FrozenModel::own_logits(const View& view) {
  const at::NoGradGuard no_grad;
  check_device(view.micro());
  check_head(/*classifier=*/false);
  check_tokens(view.micro());
  return view_logits(model(), view);
}

at::Tensor FrozenModel::own_score(const View& view, const ScoreWeight& weight) {
  const at::NoGradGuard no_grad;
  check_device(view.micro());
  check_tokens(view.micro());
  return view_score(model(), view, weight);
}

}  // namespace xrun
