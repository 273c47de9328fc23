// A frozen model of another folder: a reference's values bit for bit, rows stored for distillation,
// and the refusal of what does not fit.

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numbers>
#include <set>

#include "core/base/file.h"
#include "core/data/packs/data_set.h"
#include "core/model/model.h"
#include "core/model/weights/init_model.h"
#include "core/text/chat/chat_template.h"
#include "core/text/tokenizer/tokenizer.h"
#include "core/train/data_batch.h"
#include "core/train/frozen_model.h"
#include "core/train/scorer.h"
#include "tests/core/train/trained.h"
#include "tests/error_of.h"
#include "tests/tree.h"

namespace xrun::frozen_test {
namespace {

constexpr int64_t kMaxTokens = 512;
const std::string kPolicy = source_path("tests/golden/tiny_dpo");

class Frozen : public testing::Test {
 protected:
  Frozen() : tokenizer_(Tokenizer::load(kPolicy)) { open_store("cache"); }

  // A store of sidecars of the test's own.
  void open_store(const std::string& name) {
    setenv("XRUN_CACHE", (folder_.path() / name).c_str(), 1);
  }
  std::shared_ptr<FrozenModel> frozen(FrozenCache cache = FrozenCache::kNone,
                                      c10::ScalarType dtype = at::kFloat) const {
    FrozenOptions options;
    options.cache = cache;
    options.top_k = 5;
    options.settings.dtype = dtype;
    return FrozenModel::open(kPolicy, options);
  }
  const DataSet& set() {
    if (!set_) {
      DataOptions options;
      options.sources.push_back({});
      options.sources[0].path = source_path("tests/golden/dpo_pairs.jsonl");
      options.cache_root = folder_.path() / "data";
      set_ = std::make_unique<DataSet>(
          DataSet::open(options, *tokenizer_, resolve_template(*tokenizer_).chat_template));
    }
    return *set_;
  }
  std::shared_ptr<Batch> batch(const std::vector<int64_t>& rows, int64_t step = 0) {
    BatchInfo info;
    info.total_steps = 10;
    info.step = step;
    info.tokenizer = {tokenizer_, kPolicy};
    return data_batch(set(), rows, kMaxTokens, info);
  }
  // A random model with this tokenizer.
  std::filesystem::path model_with(const std::string& name, const std::string& tokenizer) const {
    InitOptions options;
    options.hidden = 32;
    options.ffn = 64;
    options.scale = 0.2;
    options.tokenizer = tokenizer;
    options.vocab = Tokenizer::load(tokenizer)->vocab_size();
    init_model(folder_.path() / name, options);
    return folder_.path() / name;
  }
  // Hidden states and columns of every row of some batches.
  static std::vector<at::Tensor> values(FrozenModel& model, Batch& batch) {
    std::vector<at::Tensor> all;
    for (const auto& micro : batch.micros()) {
      const CompanionPack tokens = model.tokens_of(*micro);
      if (model.options().cache == FrozenCache::kTopColumns) {
        const HeadResult columns = model.row_columns(*micro, tokens, {.k = 5, .temperature = 2});
        for (const at::Tensor& one :
             {columns.logprob, columns.lse, columns.top_logprob, columns.top_id}) {
          all.push_back(one.clone());
        }
      } else {
        all.push_back(model.row_hidden(*micro, tokens).clone());
      }
    }
    return all;
  }
  static void expect_equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(at::equal(a[i], b[i])) << i;
  }

  TinyFolder folder_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<DataSet> set_;
};

// The objective of recipes/dpo.lua against any source of log-probs.
Objective foreign_dpo(std::shared_ptr<Policy> policy, std::shared_ptr<LogprobSource> reference) {
  return [=](MicroBatch& p) {
    const auto margin_of = [&](const View& side) {
      return policy->logprob(side).sub(reference->logprob(side));
    };
    const at::Tensor margin = margin_of(p.chosen()).sub(margin_of(p.rejected())).mul(0.1);
    ObjectiveResult result;
    result.losses.emplace_back(Unit::kPair, margin.neg().exp().add(1).log());
    result.metrics.emplace_back("margin", margin);
    return result;
  };
}

TEST_F(Frozen, AReferenceOfThePolicysFolderHasTheMarginsOfItsTwin) {
  const std::vector<int64_t> rows = {3, 17, 40, 18};
  const auto losses = [&](bool foreign) {
    open_store(foreign ? "foreign" : "twin");
    const auto policy = Policy::open(kPolicy);
    std::shared_ptr<LogprobSource> reference;
    if (foreign) {
      reference = frozen();
    } else {
      reference = policy->reference();
    }
    AdamW adamw({policy}, {.lr = 1e-2});
    std::vector<double> values;
    for (int64_t k = 0; k < 3; ++k) {
      const auto some = batch(rows, k);
      const Metrics metrics = train_step({{some.get(), foreign_dpo(policy, reference)}}, &adamw);
      values.push_back(value(metrics, "loss"));
      values.push_back(value(metrics, "margin"));
    }
    return values;
  };
  const std::vector<double> twin = losses(false), foreign = losses(true);
  EXPECT_NEAR(foreign[0], std::numbers::ln2, 1e-7);
  EXPECT_EQ(foreign[1], 0);
  EXPECT_LT(foreign[4], foreign[0]);
  EXPECT_EQ(foreign, twin);
}

TEST_F(Frozen, NothingOfItHasAGradientAndItNeverChanges) {
  const auto model = frozen();
  const auto some = batch({1, 2});
  const View view = some->micros()[0]->all();
  EXPECT_FALSE(model->logprob(view).requires_grad());
  EXPECT_FALSE(model->token_logprob(view).requires_grad());
  EXPECT_FALSE(model->head(view, {.entropy = true}).entropy.requires_grad());
  EXPECT_FALSE(values(*model, *some)[0].requires_grad());
  EXPECT_FALSE(model->head_weight().requires_grad());
  model->check_digest();
  model->model().parameters()[0].master.mul_(2);
  EXPECT_NE(error_of([&] { model->check_digest(); }).find("the frozen weights changed in memory"),
            std::string::npos);
}

TEST_F(Frozen, StoredRowsHaveTheBitsOfTheModel) {
  const std::vector<int64_t> rows = {40, 3, 17};
  for (const FrozenCache cache : {FrozenCache::kHidden, FrozenCache::kTopColumns}) {
    open_store(cache == FrozenCache::kHidden ? "hidden" : "columns");
    const auto cold = frozen(cache);
    const std::vector<at::Tensor> computed = values(*cold, *batch(rows));
    EXPECT_GT(cold->row_counts().computed, 0);
    cold->flush();

    const auto warm = frozen(cache);
    expect_equal(values(*warm, *batch(rows)), computed);
    EXPECT_EQ(warm->row_counts().computed, 0);
    EXPECT_GT(warm->row_counts().cached, 0);
    EXPECT_FALSE(warm->loaded()) << "everything is stored";

    // The model itself, over the micro-batch: in fp32 on a CPU a token has one result.
    const auto online = frozen();
    std::vector<at::Tensor> direct;
    const auto some = batch(rows);
    for (const auto& micro : some->micros()) {
      const CompanionPack tokens = online->tokens_of(*micro);
      if (cache == FrozenCache::kHidden) {
        direct.push_back(online->row_hidden(*micro, tokens));
        continue;
      }
      const HeadResult columns = online->row_columns(*micro, tokens, {.k = 5, .temperature = 2});
      direct.insert(direct.end(),
                    {columns.logprob, columns.lse, columns.top_logprob, columns.top_id});
    }
    expect_equal(direct, computed);
  }
}

// In bfloat16 the tokens computed beside one may change its bits; its canonical pack does not.
TEST_F(Frozen, AStoredRowDependsOnNeitherVisitOrderNorBatch) {
  open_store("one");
  const auto one = frozen(FrozenCache::kHidden, at::kBFloat16);
  const std::vector<at::Tensor> last = values(*one, *batch({40}));
  values(*one, *batch({3, 17}));
  open_store("two");
  const auto two = frozen(FrozenCache::kHidden, at::kBFloat16);
  values(*two, *batch({17, 40, 3, 18}));
  expect_equal(values(*two, *batch({40})), last);
}

TEST_F(Frozen, WithStoredHiddenStatesOnlyTheHeadLoads) {
  const auto cold = frozen(FrozenCache::kHidden);
  values(*cold, *batch({5}));
  const at::Tensor head = cold->head_weight().clone();
  cold->flush();
  const auto warm = frozen(FrozenCache::kHidden);
  values(*warm, *batch({5}));
  EXPECT_TRUE(at::equal(warm->head_weight(), head));
  EXPECT_FALSE(warm->loaded());
}

// A document longer than the model's context is read window by window.
TEST_F(Frozen, OfADocumentInWindowsOnlyThoseOfTheBatchAreRead) {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "fox " + std::to_string(i) + " ";
  write_file_atomic(folder_.path() / "text.txt", text);
  DataOptions options;
  options.kind = RowKind::kText;
  options.sources.push_back({});
  options.sources[0].path = (folder_.path() / "text.txt").string();
  options.cache_root = folder_.path() / "data";
  const DataSet windows = DataSet::open(options, *tokenizer_, nullptr).in_windows(32);
  ASSERT_GT(windows.size(), 8);
  InitOptions model;
  model.hidden = 32;
  model.ffn = 64;
  model.max_length = 40;
  model.tokenizer = kPolicy;
  model.vocab = tokenizer_->vocab_size();
  init_model(folder_.path() / "short", model);
  FrozenOptions stored;
  stored.cache = FrozenCache::kHidden;
  const auto teacher = FrozenModel::open(folder_.path() / "short", stored);
  BatchInfo info;
  info.tokenizer = {tokenizer_, kPolicy};
  const auto some = data_batch(windows, {2, 5}, kMaxTokens, info);
  const std::vector<at::Tensor> first = values(*teacher, *some);
  EXPECT_EQ(teacher->row_counts().computed, 2);
  teacher->flush();
  const auto again = FrozenModel::open(folder_.path() / "short", stored);
  expect_equal(values(*again, *data_batch(windows, {2, 5}, kMaxTokens, info)), first);
  EXPECT_EQ(again->row_counts().cached, 2);
  EXPECT_FALSE(again->loaded());
}

TEST_F(Frozen, ATornTailIsComputedAgain) {
  const auto cold = frozen(FrozenCache::kTopColumns);
  const std::vector<at::Tensor> computed = values(*cold, *batch({5, 60}));
  cold->flush();
  for (const auto& entry :
       std::filesystem::directory_iterator(folder_.path() / "cache" / "columns")) {
    const auto file = entry.path() / "values.bin";
    if (std::filesystem::exists(file)) {
      std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
    }
  }
  const auto again = frozen(FrozenCache::kTopColumns);
  expect_equal(values(*again, *batch({5, 60})), computed);
  EXPECT_GT(again->row_counts().cached, 0);
  EXPECT_GT(again->row_counts().computed, 0);
}

TEST_F(Frozen, TheKeyOfStoredRowsCoversWhatDecidesThem) {
  const auto key = [&](FrozenRows::Form form, const char* student = "s", const char* weights = "w",
                       c10::ScalarType dtype = at::kFloat) {
    const FrozenSource source{.model = {},
                              .digest = [weights] { return std::string(weights); },
                              .settings = [dtype] { return FrozenSettings{.dtype = dtype}; }};
    return dump_json(FrozenRows(source, form).key("data", 512, student).document());
  };
  const FrozenRows::Form form{.cache = FrozenCache::kTopColumns,
                              .top_k = 8,
                              .columns = 250,
                              .vocabulary = "t",
                              .width = 32};
  std::set<std::string> keys = {key(form), key(form, "other"), key(form, "s", "other"),
                                key(form, "s", "w", at::kBFloat16)};
  FrozenRows::Form other = form;
  other.top_k = 9;
  keys.insert(key(other));
  other = form;
  other.temperature = 2;
  keys.insert(key(other));
  other = form;
  other.vocabulary = "u";
  keys.insert(key(other));
  other = form;
  other.cache = FrozenCache::kHidden;
  keys.insert(key(other));
  EXPECT_EQ(keys.size(), 8u);
}

TEST_F(Frozen, TokensOfAnotherVocabularyAreRefusedByBothNames) {
  const auto dir = model_with("other", source_path("tests/data/tokenizers/smol"));
  const auto model = FrozenModel::open(dir);
  const auto some = batch({1});
  const View view = some->micros()[0]->all();
  const std::string wanted = fmt::format(
      "{} cannot read this batch: its tokens are those of {}, another vocabulary ({} ids, "
      "fingerprint {}, wanted {} ids, {}); as a teacher it needs data aligned with it, "
      "data:align(teacher)",
      dir.string(), kPolicy, tokenizer_->vocab_size(), frozen()->fingerprint(),
      model->tokenizer()->vocab_size(), model->fingerprint());
  EXPECT_EQ(message_of<Error>([&] { model->logprob(view); }), wanted);
  EXPECT_EQ(message_of<Error>([&] { model->token_logprob(view); }), wanted);
  EXPECT_EQ(message_of<Error>([&] { model->tokens_of(*some->micros()[0]); }), wanted);
  EXPECT_FALSE(model->loaded());
}

TEST_F(Frozen, AnotherTokenizerThanSaidIsRefused) {
  const auto dir = model_with("other", source_path("tests/data/tokenizers/smol"));
  FrozenOptions options;
  options.tokenizer = kPolicy;
  const std::string message = message_of<Error>([&] { FrozenModel::open(dir, options); });
  EXPECT_EQ(message.find(dir.string() + ": this model has another vocabulary ("), 0u) << message;
  EXPECT_NE(message.find("than the tokenizer given for it, " + kPolicy + " ("), std::string::npos)
      << message;
}

TEST_F(Frozen, AModelWithoutTokenizerTakesTheOneThatIsNamed) {
  std::filesystem::create_directories(folder_.path() / "bare");
  for (const char* name : {"config.json", "model.safetensors"}) {
    std::filesystem::copy_file(kPolicy + "/" + name, folder_.path() / "bare" / name);
  }
  const auto some = batch({1});
  const View view = some->micros()[0]->all();
  const auto bare = FrozenModel::open(folder_.path() / "bare");
  EXPECT_EQ(message_of<Error>([&] { bare->logprob(view); }),
            (folder_.path() / "bare").string() +
                ": there is no tokenizer in this folder, so its vocabulary is unknown; name the "
                "folder that has it: tokenizer = \"DIR\"");
  FrozenOptions options;
  options.tokenizer = kPolicy;
  const auto named = FrozenModel::open(folder_.path() / "bare", options);
  EXPECT_TRUE(at::equal(named->logprob(view), frozen()->logprob(view)));
}

TEST_F(Frozen, AMissingFolderIsNamed) {
  const std::string message =
      message_of<Error>([&] { FrozenModel::open(folder_.path() / "nowhere"); });
  EXPECT_NE(message.find((folder_.path() / "nowhere").string()), std::string::npos) << message;
}

TEST_F(Frozen, AFolderThatChangedBeforeItLoadsIsRefused) {
  const auto dir = model_with("other", kPolicy);
  const auto model = FrozenModel::open(dir);
  const std::string digest = model->digest();
  std::filesystem::copy_file(model_with("another", kPolicy) / "config.json", dir / "config.json",
                             std::filesystem::copy_options::overwrite_existing);
  write_file_atomic(dir / "config.json", read_file(dir / "config.json") + "\n");
  EXPECT_EQ(message_of<Error>([&] { model->model(); })
                .find(dir.string() + ": the files in this folder changed since the run opened it "
                                     "(digest "),
            0u);
  EXPECT_NE(FrozenModel::open(dir)->digest(), digest);
}

TEST_F(Frozen, MoreColumnsThanAreStoredAreRefused) {
  const auto model = frozen(FrozenCache::kTopColumns);
  const auto some = batch({1});
  MicroBatch& micro = *some->micros()[0];
  EXPECT_EQ(
      message_of<Error>([&] { model->row_columns(micro, model->tokens_of(micro), {.k = 6}); }),
      kPolicy +
          ": 6 columns of a row were asked for, its cache has 5; set k = 6 where the model "
          "is opened, or lower topk");
}

// ---- a vocabulary that extends another

class FrozenExtended : public Frozen {
 protected:
  // The policy's tokenizer with one more token.
  FrozenExtended() : extended_((folder_.path() / "extended").string()) {
    std::filesystem::create_directories(extended_);
    std::filesystem::copy_file(kPolicy + "/tokenizer_config.json",
                               extended_ + "/tokenizer_config.json");
    Json json = read_json(kPolicy + "/tokenizer.json");
    Json added = json.at("added_tokens"), more = added.as_array().back();
    more.set("id", tokenizer_->vocab_size());
    more.set("content", "<|tool|>");
    added.push_back(more);
    json.set("added_tokens", added);
    write_file_atomic(extended_ + "/tokenizer.json", dump_json(json));
  }
  // Tokens of the extended vocabulary; with one of its own if `own`.
  std::shared_ptr<Batch> extended_batch(bool own) const {
    std::vector<PackedBatch> packs = tiny_packs(tiny_pairs(2), 2);
    if (own) packs[0].tokens[3] = static_cast<int32_t>(tokenizer_->vocab_size());
    BatchInfo info;
    info.tokenizer = {Tokenizer::load(extended_), extended_};
    return std::make_shared<Batch>(std::move(info), std::move(packs));
  }
  const std::string extended_;
};

TEST_F(FrozenExtended, AModelWithMoreTokensReadsTheBatch) {
  const auto model = FrozenModel::open(model_with("more", extended_));
  const auto some = batch({1, 2});
  MicroBatch& micro = *some->micros()[0];
  EXPECT_TRUE(model->reads_tokens_of(micro));
  EXPECT_EQ(model->columns(), tokenizer_->vocab_size() + 1);
  EXPECT_EQ(model->common_columns(micro), tokenizer_->vocab_size());
  EXPECT_EQ(model->token_logprob(micro.all()).numel(), micro.row_count());
}

TEST_F(FrozenExtended, AModelWithFewerTokensReadsBatchesWithoutTheOthers) {
  const auto model = frozen();
  const auto good = extended_batch(false), bad = extended_batch(true);
  EXPECT_EQ(model->common_columns(*good->micros()[0]), tokenizer_->vocab_size());
  EXPECT_GT(model->token_logprob(good->micros()[0]->all()).numel(), 0);
  EXPECT_EQ(message_of<Error>([&] { model->token_logprob(bad->micros()[0]->all()); }),
            fmt::format("{} cannot read this batch: token {} is \"<|tool|>\", which {} has in "
                        "addition to the vocabulary of both; align the data with it, "
                        "data:align(teacher)",
                        kPolicy, tokenizer_->vocab_size(), extended_));
}

// ---- classifiers

class FrozenClassifier : public Frozen {
 protected:
  // An exported reward model with random weights of its head.
  FrozenClassifier() : scorer_(std::make_shared<Scorer>(Policy::open(kPolicy))) {
    at::Tensor weight = scorer_->parameters().back().master.detach();
    weight.copy_(at::arange(weight.numel()).reshape(weight.sizes()).mul(0.7).sin());
    scorer_->export_to(dir());
  }
  std::filesystem::path dir() const { return folder_.path() / "reward"; }

  std::shared_ptr<Scorer> scorer_;
};

TEST_F(FrozenClassifier, GivesTheScoresOfTheScorerThatWasExported) {
  const auto reward = FrozenModel::open(dir());
  const auto some = batch({1, 2, 30});
  const at::NoGradGuard no_grad;
  const at::Tensor want = scorer_->score(*some);
  EXPECT_TRUE(at::equal(reward->score(*some), want));
  EXPECT_GT(want.abs().min().item<double>(), 1e-3);
  const View chosen = some->micros()[0]->chosen();
  EXPECT_TRUE(at::equal(reward->score(chosen), scorer_->score(chosen)));
}

TEST_F(FrozenClassifier, AValuePerTokenIsTheScoreOfTheTextBeforeIt) {
  const auto value = FrozenModel::open(dir());
  const auto some = batch({1, 2});
  const at::Tensor values = value->token_score(*some);
  ASSERT_EQ(values.numel(), some->row_count());
  // Of a text that is cut before its last trained token, the score is the value there.
  PackedBatch whole = some->micros()[0]->pack(), cut;
  SegmentTokens first = whole.segment_tokens(0);
  const auto last = std::find(first.trained.rbegin(), first.trained.rend(), 1);
  first.ids.resize(static_cast<size_t>(first.trained.rend() - last) - 1);
  first.trained.resize(first.ids.size());
  cut.append({}, first.ids, first.trained);
  BatchInfo info;
  info.tokenizer = {tokenizer_, kPolicy};
  Batch alone(info, {cut});
  const View view = some->micros()[0]->all();
  const at::Tensor of_first = value->token_score(view).index({view.rows().row_segment.eq(0)});
  EXPECT_EQ(of_first[-1].item<float>(), value->score(alone)[0].item<float>());
}

TEST_F(FrozenClassifier, HasNoLogprobsAndALanguageModelNoScore) {
  const auto reward = FrozenModel::open(dir());
  const auto some = batch({1});
  const View view = some->micros()[0]->all();
  const std::string wanted =
      dir().string() + " is a sequence classifier: it gives scores, no log-probs";
  EXPECT_EQ(message_of<Error>([&] { reward->token_logprob(view); }), wanted);
  EXPECT_EQ(message_of<Error>([&] { reward->logprob(view); }), wanted);
  EXPECT_EQ(message_of<Error>([&] { reward->chunk_logprob(view); }), wanted);
  EXPECT_EQ(message_of<Error>([&] { frozen()->score(view); }),
            kPolicy +
                " is a language model, without a score; a reward or value model is a folder of "
                "run:export(scorer), or another sequence classifier of one label");
  EXPECT_FALSE(reward->loaded());
}

TEST_F(FrozenClassifier, OfSeveralLabelsIsRefused) {
  Json config = read_json((dir() / "config.json").string());
  config.set("id2label", Json(Json::Object{{"0", "bad"}, {"1", "good"}}));
  write_file_atomic(dir() / "config.json", dump_json(config));
  EXPECT_EQ(message_of<Error>([&] { FrozenModel::open(dir()); }),
            dir().string() +
                ": is a classifier of 2 labels (id2label or num_labels in its config.json); a "
                "reward or value model has 1");
}

}  // namespace
}  // namespace xrun::frozen_test
