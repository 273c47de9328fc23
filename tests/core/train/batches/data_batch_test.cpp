// A batch of a data set has its rows, weights, labels and extra columns.

#include "core/train/batches/data_batch.h"

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "core/base/error.h"
#include "core/data/packs/data_set.h"
#include "core/text/chat/chat_template.h"
#include "core/text/tokenizer/tokenizer.h"
#include "core/train/adamw.h"
#include "core/train/evaluate.h"
#include "core/train/models/policy.h"
#include "core/train/models/reference.h"
#include "tests/core/train/tiny_pairs.h"
#include "tests/error_of.h"
#include "tests/tree.h"

namespace xrun::data_batch_test {
namespace {

const std::string kGolden = source_path("tests/golden/");

class DataBatchTest : public testing::Test {
 protected:
  void SetUp() override {
    policy_ = Policy::open(std::string(kGolden) + "tiny_dpo");
    reference_ = policy_->reference();
  }
  DataSet open(const std::string& path, std::vector<std::string> keep = {}) {
    DataOptions options;
    options.sources.push_back({});
    options.sources[0].path = path;
    options.sources[0].keep = std::move(keep);
    const Tokenizer& tokenizer = *policy_->tokenizer();
    return DataSet::open(options, tokenizer, resolve_template(tokenizer).chat_template);
  }
  DataSet golden_pairs() { return open(std::string(kGolden) + "dpo_pairs.jsonl"); }

  TinyFolder folder_;
  std::shared_ptr<Policy> policy_;
  std::shared_ptr<Reference> reference_;
};

TEST_F(DataBatchTest, KeepsTheOrderOfTheRowsInAnyPacks) {
  const DataSet set = golden_pairs();
  const std::vector<int64_t> rows = {11, 3, 70, 4, 29};
  const auto one = data_batch(set, rows, 8192), many = data_batch(set, rows, 256);
  EXPECT_EQ(one->micros().size(), 1u);
  EXPECT_GT(many->micros().size(), 1u);
  for (const char* name : {"row", "pair", "length", "tokens"}) {
    EXPECT_TRUE(at::equal(one->field(name), many->field(name))) << name;
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(many->field("row")[static_cast<int64_t>(2 * i)].item().toLong(), rows[i]);
  }
  EXPECT_EQ(one->micros()[0]->row_name(11), set.location(11));
  EXPECT_EQ(one->info().data_key, set.fingerprint());
}

TEST_F(DataBatchTest, ExtraColumnsAreFieldsOfTheBatch) {
  const std::filesystem::path path = folder_.path() / "rows.jsonl";
  std::ofstream(path)
      << R"({"prompt":"a","chosen":"b","rejected":"c","score":1.5,"who":"x","id":16777217})"
         "\n"
      << R"({"prompt":"d","chosen":"e","rejected":"f","score":-2,"who":"y","id":3})"
         "\n";
  const auto batch = data_batch(open(path.string(), {"score", "who", "id"}), {1, 0}, 8192);
  const View chosen = batch->micros()[0]->chosen();
  EXPECT_EQ(chosen.field("score")[0].item().toDouble(), -2);
  EXPECT_EQ(chosen.field("score")[1].item().toDouble(), 1.5);
  EXPECT_EQ(chosen.field("score").scalar_type(), at::kFloat);
  EXPECT_EQ(chosen.field("id").scalar_type(), at::kLong);
  EXPECT_EQ(chosen.field("id")[1].item().toLong(), 16777217) << "float32 would round it";
  EXPECT_EQ(chosen.strings("who"), (std::vector<std::string>{"y", "x"}));
  EXPECT_EQ(batch->strings("who"), (std::vector<std::string>{"y", "y", "x", "x"}));
  EXPECT_TRUE(chosen.has_field("who"));
  EXPECT_EQ(message_of<Error>([&] { chosen.field("who"); }),
            "the field \"who\" holds strings, not numbers");
  EXPECT_EQ(batch->strings("score"), std::nullopt);
}

TEST_F(DataBatchTest, EvaluationCountsEveryPairOfTheSplitOnce) {
  const auto [train, valid] = golden_pairs().split(0.2);
  // The policy leaves its reference first, so that the metrics say something.
  AdamWOptions options;
  options.lr = 1e-3;
  AdamW adamw({policy_}, options);
  BatchInfo info;
  info.total_steps = 1;
  const Objective objective = dpo(policy_, reference_, 0.1);
  train_step({{data_batch(train, train.step_units({8, 1, {}, 0}, 0), 512, info).get(), objective}},
             &adamw);

  std::vector<int64_t> seen;
  const Metrics metrics = evaluate(valid, 512, [&](MicroBatch& p) {
    const at::Tensor rows = p.chosen().field("row");
    for (int64_t i = 0; i < rows.numel(); ++i) seen.push_back(rows[i].item().toLong());
    return objective(p);
  });
  std::sort(seen.begin(), seen.end());
  ASSERT_EQ(static_cast<int64_t>(seen.size()), valid.size());
  for (int64_t i = 0; i < valid.size(); ++i) EXPECT_EQ(seen[static_cast<size_t>(i)], valid.unit(i));
  const Metrics packed = evaluate(valid, 8192, objective);
  ASSERT_EQ(metrics.size(), packed.size());
  for (size_t i = 0; i < metrics.size(); ++i) {
    EXPECT_NEAR(metrics[i].second, packed[i].second,
                1e-5 * std::max(1.0, std::abs(packed[i].second)))
        << metrics[i].first;
  }
  EXPECT_EQ(metrics, evaluate(valid, 512, objective)) << "again the same bits";
}

TEST_F(DataBatchTest, AnEmptySplitHasNoMetrics) {
  const auto [train, valid] = golden_pairs().split(0.0);
  EXPECT_TRUE(evaluate(valid, 512, dpo(policy_, reference_, 0.1)).empty());
}

}  // namespace
}  // namespace xrun::data_batch_test
