// Losses per group and per chunk: how they are numbered, weighed and summed.

#include "core/train/batches/unit.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/tensor.h>

#include <cmath>

#include "core/data/packs/companion_source.h"
#include "tests/core/train/step_fixture.h"
#include "tests/error_of.h"

namespace xrun::unit_test {
namespace {

struct TinySequence {
  int64_t group;
  std::vector<int32_t> ids;
  float weight = 1;
};

// Six sequences in the groups 7, 9 and 4, of which the second token on is trained.
const std::vector<TinySequence> kSequences = {{7, {3, 9, 4, 1}},     {7, {3, 9, 8}},
                                              {9, {5, 5, 60, 2, 8}}, {7, {3, 9, 40, 41}},
                                              {4, {90, 17, 5}},      {9, {5, 5, 6}}};

// Packs of the sequences with these indices.
std::shared_ptr<Batch> batch_of(const std::vector<TinySequence>& sequences,
                                const std::vector<std::vector<size_t>>& packs) {
  std::vector<PackedBatch> packed;
  for (const std::vector<size_t>& indices : packs) {
    PackedBatch& pack = packed.emplace_back();
    for (const size_t i : indices) {
      PackedBatch::Segment segment;
      segment.row_id = segment.segment_id = static_cast<int64_t>(i);
      segment.group_id = sequences[i].group;
      segment.weight = sequences[i].weight;
      pack.append(segment, sequences[i].ids, std::vector<uint8_t>(sequences[i].ids.size(), 1));
    }
    pack.validate(250);
  }
  BatchInfo info;
  info.unit = Unit::kToken;
  info.total_steps = 10;
  return std::make_shared<Batch>(std::move(info), std::move(packed));
}

TEST(Grouping, UnitsAreNumberedByTheirFirstMember) {
  const Grouping groups = group_by(std::vector<int64_t>{7, 9, 7, -1, 4, 9});
  EXPECT_EQ(groups.unit, (std::vector<int64_t>{0, 1, 0, -1, 2, 1}));
  EXPECT_EQ(groups.first, (std::vector<int64_t>{0, 1, 4}));
  const at::Tensor sums = groups.sum(at::tensor({1., 2., 4., 8., 16., 32.}));
  EXPECT_TRUE(at::equal(sums, at::tensor({5., 34., 16.})));
  EXPECT_EQ(group_by(std::vector<int32_t>{}).count(), 0);
}

class GroupStep : public StepTest {
 protected:
  // Each group's loss is the square of the mean of its sequences' log-probs: no sum over sequences.
  Objective by_group() {
    return [policy = policy_](MicroBatch& micro) {
      const View all = micro.all();
      const at::Tensor l = policy->logprob(all);
      const at::Tensor mean = all.group_sum(l).div(all.group_sum(at::ones_like(l)));
      ObjectiveResult result;
      result.losses.emplace_back(Unit::kGroup, mean.square());
      result.metrics.emplace_back("mean", mean);
      return result;
    };
  }
};

TEST_F(GroupStep, AGroupIsOneUnit) {
  const auto whole = batch_of(kSequences, {{0, 1, 2, 3, 4, 5}});
  const auto pieces = batch_of(kSequences, {{5, 2}, {4}, {3, 1, 0}});
  const std::vector<at::Tensor> gradient = gradients(*whole, by_group());
  EXPECT_LT(distance(gradient, gradients(*pieces, by_group())), 1e-5);
  StepOptions still;
  still.lr = 0;
  const at::Tensor l = policy_->logprob(*whole);
  const double a = l[0].add(l[1]).add(l[3]).div(3).item().toDouble();
  const double b = l[2].add(l[5]).div(2).item().toDouble(), c = l[4].item().toDouble();
  for (const auto& batch : {whole, pieces}) {
    const Metrics metrics = train_step({{batch.get(), by_group()}}, adamw_.get(), still);
    const double loss = (a * a + b * b + c * c) / 3, mean = (a + b + c) / 3;
    EXPECT_NEAR(value(metrics, "loss"), loss, 1e-5 * loss);
    EXPECT_NEAR(value(metrics, "mean"), mean, 1e-5 * std::abs(mean));
  }
}

TEST_F(GroupStep, AGroupWeighsTheMeanOfItsSequences) {
  std::vector<TinySequence> sequences = kSequences;
  sequences[0].weight = 4;
  sequences[4].weight = 0.5;
  const auto batch = batch_of(sequences, {{0, 1, 2, 3, 4, 5}});
  EXPECT_TRUE(
      at::equal(batch->micros()[0]->unit_weight(Unit::kGroup), at::tensor({2.f, 1.f, .5f})));
  EXPECT_EQ(batch->micros()[0]->unit_row(Unit::kGroup, 2), 4);
}

TEST_F(GroupStep, AGroupInTwoMicroBatchesIsRefused) {
  const auto batch = batch_of(kSequences, {{0, 1}, {3, 4}, {2, 5}});
  const auto message = error_of([&] { train_step({{batch.get(), by_group()}}, adamw_.get()); });
  EXPECT_NE(message.find("a loss per group: the group of row 0 is split between micro-batches; "
                         "raise batch.max_tokens"),
            std::string::npos)
      << message;
  EXPECT_EQ(policy_->update_count(), 0);
  // Whoever does not ask for groups does not meet them.
  EXPECT_EQ(batch->micros()[0]->unit_count(Unit::kSequence), 2);
}

TEST_F(GroupStep, ABatchWithoutGroupsOrChunksListsItsUnits) {
  std::vector<TinySequence> alone = kSequences;
  for (TinySequence& sequence : alone) sequence.group = -1;
  const auto batch = batch_of(alone, {{0, 1, 2}});
  EXPECT_EQ(error_of([&] { batch->micros()[0]->unit_count(Unit::kGroup); }),
            "a loss per group: this batch has none; it has tokens and sequences");
  EXPECT_EQ(error_of([&] { batch->micros()[0]->unit_weight(Unit::kChunk); }),
            "a loss per chunk: this batch has none; it has tokens and sequences");
  EXPECT_NE(error_of([&] {
              const View all = batch->micros()[0]->all();
              all.chunk_sum(policy_->token_logprob(all));
            }).find("have no chunks"),
            std::string::npos);
}

class ChunkStep : public StepTest {
 protected:
  // Two sequences of 4 and 3 loss rows, in chunks of 1, 2 and 3 rows; one row is in none.
  static PackedBatch pack() {
    PackedBatch out;
    PackedBatch::Segment segment;
    segment.row_id = segment.segment_id = segment.group_id = 0;
    out.append(segment, {1, 2, 3, 4, 5}, {0, 1, 1, 1, 1});
    segment.row_id = segment.segment_id = segment.group_id = 1;
    segment.weight = 0.5;
    out.append(segment, {9, 8, 7, 6}, {0, 1, 1, 1});
    out.chunk = {4, 0, 0, -1, 2, 2, 2};
    return out;
  }
};

TEST_F(ChunkStep, AChunkWeighsItsSegmentOnce) {
  std::vector<PackedBatch> packs = {pack()};
  packs[0].validate(250);
  Batch batch({.total_steps = 10, .unit = Unit::kToken}, std::move(packs));
  MicroBatch& micro = *batch.micros()[0];
  EXPECT_TRUE(at::equal(micro.unit_weight(Unit::kChunk), at::tensor({1.f, 1.f, .5f})));
  EXPECT_EQ(micro.unit_row(Unit::kChunk, 1), 0);
  EXPECT_EQ(micro.unit_row(Unit::kChunk, 2), 1);
  const at::Tensor l = policy_->token_logprob(batch);
  const auto chunks = [policy = policy_](MicroBatch& given) {
    const View all = given.all();
    ObjectiveResult result;
    result.losses.emplace_back(Unit::kChunk, all.chunk_sum(policy->token_logprob(all)).neg());
    return result;
  };
  const double loss = value(train_step({{&batch, chunks}}, adamw_.get()), "loss");
  const double one = l[0].item().toDouble();
  const double two = l.slice(0, 1, 3).sum().item().toDouble();
  const double three = l.slice(0, 4, 7).sum().item().toDouble();
  const double wanted = -(one + two + 0.5 * three) / 2.5;
  EXPECT_NEAR(loss, wanted, 1e-5 * wanted);
}

// Trained tokens alone are not enough: an update would decay the weights and move the moments.
TEST_F(ChunkStep, AStepWithoutUnitsOfItsLossUpdatesNothing) {
  std::vector<PackedBatch> packs = {pack()};
  packs[0].chunk.assign(packs[0].chunk.size(), -1);
  Batch batch({.total_steps = 10, .unit = Unit::kToken}, std::move(packs));
  AdamW adamw({policy_}, {.lr = 1e-2, .weight_decay = 0.1});
  const at::Tensor before = policy_->parameters()[0].master.clone();
  bool tokens = false;
  const auto objective = [&](MicroBatch& given) {
    const View all = given.all();
    const at::Tensor l = policy_->token_logprob(all);
    ObjectiveResult result;
    result.losses.emplace_back(Unit::kChunk, all.chunk_sum(l).neg());
    if (tokens) result.losses.emplace_back(Unit::kToken, l.neg());
    return result;
  };
  const Metrics wanted = {{"skipped", 1.0}, {"lr", 1e-2}};
  EXPECT_EQ(train_step({{&batch, objective}}, &adamw), wanted);
  EXPECT_EQ(policy_->update_count(), 0);
  EXPECT_TRUE(at::equal(before, policy_->parameters()[0].master));
  tokens = true;
  EXPECT_GT(value(train_step({{&batch, objective}}, &adamw), "loss"), 0);
  EXPECT_EQ(policy_->update_count(), 1);
}

// Packs of the sequences in chunks of two tokens, with a companion of one token for each chunk.
std::shared_ptr<Batch> aligned_batch(const std::vector<std::vector<size_t>>& packs) {
  std::vector<TinySequence> sequences = kSequences;
  sequences[2].weight = 3;
  std::vector<PackedBatch> packed;
  for (const std::vector<size_t>& indices : packs) {
    PackedBatch& pack = packed.emplace_back();
    std::vector<CompanionTokens> documents;
    for (const size_t i : indices) {
      PackedBatch::Segment segment;
      segment.row_id = segment.segment_id = static_cast<int64_t>(i);
      segment.weight = sequences[i].weight;
      pack.append(segment, sequences[i].ids, std::vector<uint8_t>(sequences[i].ids.size(), 1));
      CompanionTokens& document = documents.emplace_back();
      document.ids = {1};
      document.one_sided = 1;
      const auto tokens = static_cast<int32_t>(sequences[i].ids.size());
      for (int32_t begin = 1; begin + 2 <= tokens; begin += 2) {
        const auto t = static_cast<int32_t>(document.ids.size());
        document.ids.push_back(7);
        document.chunks.push_back({begin, begin + 2, t, t + 1});
      }
    }
    add_companion(pack, documents, "teacher", 0.5);
    pack.validate(250);
  }
  return std::make_shared<Batch>(
      BatchInfo{.total_steps = 10, .unit = Unit::kToken, .chunked = true, .aligned = true},
      std::move(packed));
}

TEST_F(ChunkStep, MicroBatchesChangeNeitherLossNorGradientNorCounts) {
  const auto chunks = [policy = policy_](MicroBatch& given) {
    const View all = given.all();
    ObjectiveResult result;
    const at::Tensor loss = all.chunk_sum(policy->token_logprob(all)).square();
    result.losses.emplace_back(Unit::kChunk, loss);
    result.metrics.emplace_back("squared", loss);
    return result;
  };
  const auto whole = aligned_batch({{0, 1, 2, 3, 4, 5}});
  const auto pieces = aligned_batch({{5, 2}, {4}, {3, 1, 0}});
  EXPECT_LT(distance(gradients(*whole, chunks), gradients(*pieces, chunks)), 1e-6);
  StepOptions still;
  still.lr = 0;
  const Metrics a = train_step({{whole.get(), chunks}}, adamw_.get(), still);
  const Metrics b = train_step({{pieces.get(), chunks}}, adamw_.get(), still);
  EXPECT_NEAR(value(a, "loss"), value(b, "loss"), 1e-6 * value(a, "loss"));
  EXPECT_NEAR(value(a, "squared"), value(b, "squared"), 1e-6 * value(a, "squared"));
  for (const Metrics& metrics : {a, b}) {
    EXPECT_EQ(value(metrics, "align/chunks"), 1 + 1 + 2 + 1 + 1 + 1);
    EXPECT_EQ(value(metrics, "align/one_sided"), 6);
    EXPECT_EQ(value(metrics, "align/wrong"), 0);
    EXPECT_EQ(value(metrics, "align/tokens_lost"), 16 - 14);
    EXPECT_EQ(value(metrics, "align/coverage"), 14. / 16);
  }
  EXPECT_EQ(value(a, "perf/align_s"), 0.5);
}

TEST_F(ChunkStep, AMicroBatchWithoutAValidChunkAddsNothing) {
  std::vector<PackedBatch> packs = {pack(), pack()};
  packs[1].chunk.assign(packs[1].chunk.size(), -1);
  for (size_t s = 0; s < 2; ++s) packs[1].segment_id[s] += 2;
  Batch batch({.total_steps = 10, .unit = Unit::kToken}, std::move(packs));
  EXPECT_EQ(batch.micros()[1]->unit_count(Unit::kChunk), 0);
  const auto chunks = [policy = policy_](MicroBatch& given) {
    const View all = given.all();
    ObjectiveResult result;
    result.losses.emplace_back(Unit::kChunk, all.chunk_sum(policy->token_logprob(all)).neg());
    return result;
  };
  const double loss = value(train_step({{&batch, chunks}}, adamw_.get()), "loss");
  EXPECT_TRUE(std::isfinite(loss) && loss > 0) << loss;
}

TEST_F(ChunkStep, AChunkIsWithinOneSegment) {
  PackedBatch wrong = pack();
  wrong.chunk[4] = 0;
  EXPECT_EQ(error_of([&] { wrong.validate(250); }),
            "batch: chunk 0 has rows in the segments 0 and 1, wanted one");
  wrong.chunk.resize(3);
  EXPECT_EQ(error_of([&] { wrong.validate(250); }), "batch: chunk has 3 entries, R is 7");
  wrong = pack();
  wrong.chunk[0] = -2;
  EXPECT_EQ(error_of([&] { wrong.validate(250); }),
            "batch: chunk[0] is -2, wanted a number >= 0, or -1 for none");
}

}  // namespace
}  // namespace xrun::unit_test
