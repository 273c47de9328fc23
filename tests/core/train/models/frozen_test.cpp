// A frozen model of another folder: a reference's values bit for bit, rows stored for distillation,
// and the refusal of what does not fit.

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <numbers>
#include <set>

#include "core/base/file.h"
#include "core/data/packs/data_set.h"
#include "core/model/model.h"
#include "core/model/weights/init_model.h"
#include "core/text/tokenizer/tokenizer.h"
#include "core/train/batches/data_batch.h"
#include "core/train/models/frozen_model.h"
#include "tests/core/train/models/frozen_fixture.h"
#include "tests/core/train/trained.h"
#include "tests/error_of.h"
#include "tests/tree.h"

namespace xrun::frozen_test {
namespace {

using Frozen = FrozenFixture;

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
    const auto policy = Policy::open(kFrozenPolicy);
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
TEST_F(Frozen, OnlyTheWindowsOfTheBatchAreReadOfADocument) {
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
  model.tokenizer = kFrozenPolicy;
  model.vocab = tokenizer_->vocab_size();
  init_model(folder_.path() / "short", model);
  FrozenOptions stored;
  stored.cache = FrozenCache::kHidden;
  const auto teacher = FrozenModel::open(folder_.path() / "short", stored);
  BatchInfo info;
  info.tokenizer = {tokenizer_, kFrozenPolicy};
  const auto some = data_batch(windows, {2, 5}, kFrozenMaxTokens, info);
  const std::vector<at::Tensor> first = values(*teacher, *some);
  EXPECT_EQ(teacher->row_counts().computed, 2);
  teacher->flush();
  const auto again = FrozenModel::open(folder_.path() / "short", stored);
  expect_equal(values(*again, *data_batch(windows, {2, 5}, kFrozenMaxTokens, info)), first);
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
      "{} cannot read this batch: its tokens are those of {}, a different vocabulary ({} ids, "
      "fingerprint {}, wanted {} ids, {}); as a teacher it needs data aligned with it, "
      "data:align(teacher), as in recipes/xdistill.lua",
      dir.string(), kFrozenPolicy, tokenizer_->vocab_size(), frozen()->fingerprint(),
      model->tokenizer()->vocab_size(), model->fingerprint());
  EXPECT_EQ(message_of<Error>([&] { model->logprob(view); }), wanted);
  EXPECT_EQ(message_of<Error>([&] { model->token_logprob(view); }), wanted);
  EXPECT_EQ(message_of<Error>([&] { model->tokens_of(*some->micros()[0]); }), wanted);
  EXPECT_FALSE(model->loaded());
}

TEST_F(Frozen, AnotherTokenizerThanSaidIsRefused) {
  const auto dir = model_with("other", source_path("tests/data/tokenizers/smol"));
  FrozenOptions options;
  options.tokenizer = kFrozenPolicy;
  const std::string message = message_of<Error>([&] { FrozenModel::open(dir, options); });
  EXPECT_EQ(message.find(dir.string() + ": this model's vocabulary ("), 0u) << message;
  EXPECT_NE(
      message.find("differs from that of the tokenizer given for it, " + kFrozenPolicy + " ("),
      std::string::npos)
      << message;
}

TEST_F(Frozen, AModelWithoutTokenizerTakesTheOneThatIsNamed) {
  std::filesystem::create_directories(folder_.path() / "bare");
  for (const char* name : {"config.json", "model.safetensors"}) {
    std::filesystem::copy_file(kFrozenPolicy + "/" + name, folder_.path() / "bare" / name);
  }
  const auto some = batch({1});
  const View view = some->micros()[0]->all();
  const auto bare = FrozenModel::open(folder_.path() / "bare");
  EXPECT_EQ(message_of<Error>([&] { bare->logprob(view); }),
            (folder_.path() / "bare").string() +
                ": there is no tokenizer in this folder, so its vocabulary is unknown; name the "
                "folder that has it: tokenizer = \"DIR\"");
  FrozenOptions options;
  options.tokenizer = kFrozenPolicy;
  const auto named = FrozenModel::open(folder_.path() / "bare", options);
  EXPECT_TRUE(at::equal(named->logprob(view), frozen()->logprob(view)));
}

TEST_F(Frozen, AMissingFolderIsNamed) {
  const std::string message =
      message_of<Error>([&] { FrozenModel::open(folder_.path() / "nowhere"); });
  EXPECT_NE(message.find((folder_.path() / "nowhere").string()), std::string::npos) << message;
}

TEST_F(Frozen, AFolderThatChangedBeforeItLoadsIsRefused) {
  const auto dir = model_with("other", kFrozenPolicy);
  const auto model = FrozenModel::open(dir);
  const std::string digest = model->digest();
  std::filesystem::copy_file(model_with("another", kFrozenPolicy) / "config.json",
                             dir / "config.json",
                             std::filesystem::copy_options::overwrite_existing);
  write_file_atomic(dir / "config.json", read_file(dir / "config.json") + "\n");
  EXPECT_EQ(message_of<Error>([&] {
              model->model();
            }).find(dir.string() + ": the files in this folder changed since the run opened it; "),
            0u);
  EXPECT_NE(FrozenModel::open(dir)->digest(), digest);
}

TEST_F(Frozen, MoreColumnsThanAreStoredAreRefused) {
  const auto model = frozen(FrozenCache::kTopColumns);
  const auto some = batch({1});
  MicroBatch& micro = *some->micros()[0];
  EXPECT_EQ(
      message_of<Error>([&] { model->row_columns(micro, model->tokens_of(micro), {.k = 6}); }),
      kFrozenPolicy +
          ": 6 columns per row were requested, but its cache has 5; set k = 6 where the "
          "model is opened, or lower topk");
}

}  // namespace
}  // namespace xrun::frozen_test
