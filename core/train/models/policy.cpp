// Weights load at the first forward; a digest identifies them from then on. A resumed recipe makes
// the same calls in the same order, so the k-th reference() finds the k-th reference that was
// saved.

#include "core/train/models/policy.h"

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/model/weights/adapter_files.h"
#include "core/model/weights/export.h"
#include "core/model/weights/hf_config.h"
#include "core/model/weights/model_registry.h"
#include "core/model/weights/trained_weights.h"
#include "core/text/tokenizer/tokenizer.h"
#include "core/train/batches/micro_batch.h"
#include "core/train/models/fetched_weights.h"
#include "core/train/models/reference.h"
#include "core/train/models/view_head.h"

namespace xrun {
namespace {

// A frozen model keeps its weights only in the compute type, so digests compare that type.
std::string frozen_digest(const Model& model) {
  if (model.compute_type() == at::kFloat || model.adapter()) return model.digest();
  return model.digest(model.compute_type());
}

}  // namespace

Policy::Policy(std::filesystem::path dir, PolicyOptions options)
    : dir_(std::move(dir)), options_(options) {}

Policy::~Policy() = default;

std::shared_ptr<Policy> Policy::open(const std::filesystem::path& dir,
                                     const PolicyOptions& options) {
  const bool is_trained_on = is_adapter(dir);
  const std::filesystem::path base = is_trained_on ? resolve_base_model(dir) : dir;
  // The constructor is private, since a reference needs shared_from_this().
  std::shared_ptr<Policy> policy(new Policy(base, options));
  const ModelConfig config = read_model_config(base);
  // From config.json: data are tokenised and checked before any weight is read.
  policy->vocab_ = config.vocab;
  if (is_trained_on) {
    XRUN_CHECK(!options.lora,
               "{0} is already an adapter, with settings of its own that lora cannot change; "
               "continue training it with a recipe without lora, for example dpo.lua in place of "
               "dpo_lora.lua, with --set model={0}",
               dir.string());
    policy->adapter_dir_ = dir;
  }
  // Checked here, before any data are read: the expert kernels exist for the CPU alone.
  XRUN_CHECK(options.device.is_cpu() || config.moe.experts == 0,
             "{}: a mixture of experts trains on the CPU only so far; use --device cpu",
             base.string());
  if (options.lora) check_adapter_options(*options.lora, config);
  policy->check_train();
  // At level 3 each rank loads its own ranges when a forward first asks.
  if (FetchingRanks* const ranks = ranks_to_fetch_from(options.dist, 3)) {
    policy->fetched_ = std::make_unique<FetchedModel>(*ranks, base, policy->load_options(),
                                                      [owner = policy.get()] { owner->model(); });
  }
  if (!tokenizer_files(base).empty()) {
    policy->tokenizer_ = Tokenizer::load(base);
    check_vocabulary_fits(base, *policy->tokenizer_, config.vocab);
  }
  return policy;
}

// Before any weight is read.
void Policy::check_train() const {
  if (options_.train.empty()) return;
  if (trains_adapter()) {
    throw UsageError(
        "train selects weights, but under lora all base weights are frozen; leave out train or "
        "lora");
  }
  check_train_patterns(read_model_config(dir_), options_.train);
}

const std::shared_ptr<const Tokenizer>& Policy::tokenizer() const {
  XRUN_CHECK(tokenizer_,
             "{}: there is no tokenizer in this folder; copy the model's tokenizer.json "
             "into it",
             dir_.string());
  return tokenizer_;
}

void Policy::use_gemm(GemmType gemm) {
  XRUN_CHECK(!model_, "the compute type must be set before the weights load");
  options_.gemm = gemm;
}

void Policy::use_template(std::shared_ptr<const ChatTemplate> chat_template) {
  // The first wins: training data come before validation data in every recipe.
  if (!chat_template_) chat_template_ = std::move(chat_template);
}

LoadOptions Policy::load_options() const {
  LoadOptions options{.dtype = options_.dtype,
                      .gemm = options_.gemm,
                      .trainable = true,
                      .train = options_.train,
                      .recompute = options_.recompute,
                      .device = options_.device};
  if (!adapter_dir_.empty()) options.adapter = read_adapter(adapter_dir_, read_model_config(dir_));
  if (options_.lora) {
    // Drawn from the seed, so that every rank makes the same factors.
    options.adapter = make_adapter(*options_.lora, read_model_config(dir_), options_.seed);
  }
  return options;
}

LoadOptions Policy::frozen_options() const {
  return {.dtype = options_.dtype, .gemm = options_.gemm, .device = options_.device};
}

Model& Policy::own_model() {
  // At the first forward, not at open: check and inspect of a recipe must not wait for weights.
  if (!model_) {
    const LoadOptions options = load_options();
    std::shared_ptr<Model> model =
        Model::load(dir_, fetched_ ? fetched_->in_ranges(options) : options);
    // A fresh adapter adds exactly 0.
    folder_digest_ =
        options_.lora ? Model::with_adapter(*model, nullptr)->digest() : model->digest();
    // Hashing reads every weight, so equal digests are not computed twice.
    const bool as_loaded = model->adapter() || model->compute_type() == at::kFloat;
    initial_digest_ = as_loaded ? folder_digest_ : frozen_digest(*model);
    model_ = std::move(model);
  }
  return *model_;
}

std::shared_ptr<Model> Policy::load_frozen(const std::filesystem::path& weights,
                                           FetchedModel* fetched) {
  if (!model().adapter()) {
    const LoadOptions options = frozen_options();
    return Model::load(weights, fetched ? fetched->in_ranges(options) : options);
  }
  // The base is shared with the policy: only the factors differ.
  return Model::with_adapter(
      model(), is_adapter(weights) ? read_adapter(weights, model().config()) : nullptr);
}

bool Policy::has_noise() const {
  if (!model_ || !model_->adapter() || model_->adapter()->options.dropout == 0) return false;
  return update_count() > 0 || !options_.lora;  // a fresh adapter adds nothing, dropped or not
}

int64_t Policy::update_count() const { return model_ ? model_->update_count : 0; }

const std::string& Policy::initial_digest() {
  model();
  return initial_digest_;
}

std::string Policy::digest() {
  const bool fresh = options_.lora && update_count() == 0;  // its adapter adds exactly nothing
  return fresh ? Model::with_adapter(model(), nullptr)->digest() : frozen_digest(model());
}

std::filesystem::path Policy::reference_dir(size_t k, const TakenReference& taken) const {
  // Before the first update the policy's own folder is the reference.
  if (taken.updates == 0) return adapter_dir_.empty() ? dir_ : adapter_dir_;
  XRUN_CHECK(!snapshot_dir_.empty(),
             "a reference that is taken after training began needs a run to keep its weights in; "
             "make the run first (xrun.run), or take the reference before the first step");
  return snapshot_dir_ / fmt::format("reference_{}", k);
}

void Policy::write_snapshot(const std::filesystem::path& dir) {
  if (path_exists(dir)) return;  // a resumed run repeats the call
  make_dirs(dir.parent_path());
  if (model().adapter()) {
    write_adapter(*model().adapter(), model().config(), dir_.string(), dir);
  } else {
    export_to(dir, options_.dtype);
  }
}

std::shared_ptr<Reference> Policy::reference() {
  XRUN_CHECK(!averaged_,
             "cannot take a reference inside ema:use, where the weights are the average; take it "
             "outside");
  const size_t k = taken_.size();
  TakenReference taken{update_count(), ""};
  if (k < restored_.size()) {
    taken = restored_[k];  // the same call of the run that was saved
    // The digest of another compute type is of other bytes; the snapshot has the weights.
    if (taken.updates > 0 && restored_dtype_ != dtype_name(options_.dtype)) {
      taken.digest = load_frozen(reference_dir(k, taken))->digest();
    }
  } else if (taken.updates > 0) {
    taken.digest = digest();
  }
  const std::filesystem::path weights = reference_dir(k, taken);
  // A restored reference of earlier weights has its snapshot already, and this policy lacks them.
  if (taken.updates > 0 && taken.updates == update_count()) write_snapshot(weights);
  taken_.push_back(taken);
  return std::make_shared<Reference>(shared_from_this(), weights, taken.digest, taken.updates);
}

at::Tensor Policy::own_token_logprob(const View& view) {
  at::Tensor rows = view.select_rows(view.micro().token_logprob(model(), options_.head_mb));
  // For the metrics logprob_* of the step.
  view.micro().note_scored(this, view, rows);
  return rows;
}

at::Tensor Policy::own_logprob(const View& view) { return view.sum(own_token_logprob(view)); }

HeadResult Policy::own_head(const View& view, const HeadOptions& options,
                            const at::Tensor& target) {
  HeadResult result = view_head(model(), view, options, target, options_.head_mb);
  // Other targets or temperatures are not the policy's log-probs, so the step does not report them.
  const bool own = options.temperature == view.micro().info().temperature;
  if (!target.defined() && own && options.columns == 0) {
    view.micro().note_scored(this, view, result.logprob);
  }
  return result;
}

at::Tensor Policy::own_logits(const View& view) { return view_logits(model(), view); }

at::Tensor Policy::own_score(const View& view, const ScoreWeight& weight) {
  return view_score(model(), view, weight);
}

std::vector<Parameter>& Policy::parameters() { return model().trained_parameters(); }

// An adapter's factors are small, and not only the model reads them.
bool Policy::await_before_reading(const std::shared_ptr<IncomingWeights>& incoming) {
  if (model().adapter()) return false;
  model().add_incoming(incoming);
  return true;
}

void Policy::count_update() {
  ++model().update_count;
  // Fetched copies are those of the old weights.
  if (model().ranged_weights() != nullptr) model().ranged_weights()->forget();
}

void Policy::weights_averaged(bool averaged) {
  averaged_ = averaged;
  // The count is the same, so copies made from the weights are dropped explicitly.
  model().weights_replaced(model().update_count);
}

// An adapter's factors are whole on every rank.
bool Policy::holds_ranges(size_t /*parameter*/) {
  return model().ranged_weights() != nullptr && !model().adapter();
}

}  // namespace xrun
