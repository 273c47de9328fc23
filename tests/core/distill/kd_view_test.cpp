// The two sides of a distillation loss, from packed batches: a model beside itself, stored
// teachers, and the tokens of another vocabulary.

#include "core/distill/kd_view.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/data/packs/companion_source.h"
#include "core/model/model.h"
#include "core/model/ops/head_block.h"
#include "core/text/tokenizer/tokenizer.h"
#include "core/train/models/frozen_model.h"
#include "core/train/models/logprob_stand_in.h"
#include "tests/core/distill/kd_view_fixture.h"
#include "tests/error_of.h"
#include "tests/tensor_difference.h"
#include "tests/tree.h"

namespace xrun::kd_view_test {
namespace {

class KdView : public KdViewFixture {};

TEST_F(KdView, AModelHasNoDivergenceFromItselfAndNoGradient) {
  const auto itself = teacher(kOwn);
  for (const KdLoss loss : {KdLoss::kFull, KdLoss::kTopK}) {
    for (const bool reverse : {false, true}) {
      const auto some = batch();
      const View view = some->micros()[0]->all();
      const KdPair pair{*student_, *itself, {.loss = loss, .top_k = 9, .reverse = reverse}};
      const at::Tensor kd = kd_loss_of(view, pair);
      ASSERT_EQ(kd.sizes(), at::IntArrayRef({view.row_count()}));
      EXPECT_EQ(kd.abs().max().item<double>(), 0) << kd_loss_name(loss);
      kd.sum().backward();
      for (const Parameter& parameter : student_->parameters()) {
        const at::Tensor& gradient = parameter.master.grad();
        ASSERT_TRUE(gradient.defined()) << parameter.name;
        EXPECT_EQ(gradient.abs().max().item<double>(), 0) << parameter.name;
        parameter.master.mutable_grad().reset();
      }
      some->close();
    }
  }
}

TEST_F(KdView, TheFullLossIsTheKlOfTheTwoSoftmaxes) {
  const auto other = teacher(random_model(kOwn, /*padding=*/9));
  const auto some = batch();
  const View view = some->micros()[0]->all();
  const KdPair pair{*student_, *other, {.loss = KdLoss::kFull, .temperature = 2}};
  const at::Tensor kd = kd_loss_of(view, pair).detach();
  const int64_t columns = student_->tokenizer()->vocab_size();
  const auto logs = [&](LogprobSource& model) {
    return model.logits(view).detach().to(at::kDouble).slice(1, 0, columns).div(2).log_softmax(1);
  };
  const at::Tensor q = logs(*other), p = logs(*student_);
  const at::Tensor expected = q.exp().mul(q.sub(p)).sum(1).mul(4);
  EXPECT_LT(kd.to(at::kDouble).sub(expected).abs().max().item<double>(), 1e-4);
  EXPECT_GT(expected.min().item<double>(), 0.01);
}

TEST_F(KdView, ABatchGivesTheLossesOfItsViewsInItsOrder) {
  const auto other = teacher(random_model(kOwn));
  const KdPair pair{*student_, *other, {.loss = KdLoss::kFull}};
  const at::Tensor together = kd_loss_of(*batch(tiny_packs(tiny_pairs(5), 5)), pair);
  const at::Tensor apart =
      kd_loss_of(*batch(tiny_packs(tiny_pairs(5), 2, /*reversed=*/true)), pair);
  EXPECT_TRUE(at::equal(together, apart));
  EXPECT_FALSE(together.requires_grad());
}

TEST_F(KdView, AViewOfOneSideHasItsRowsOfTheLoss) {
  const auto other = teacher(random_model(kOwn));
  const KdPair pair{*student_, *other, {.loss = KdLoss::kFull}};
  const auto some = batch();
  MicroBatch& micro = *some->micros()[0];
  const at::Tensor whole = kd_loss_of(micro.all(), pair);
  const View chosen = micro.chosen();
  EXPECT_TRUE(at::equal(kd_loss_of(chosen, pair), chosen.select_rows(whole)));
}

TEST_F(KdView, AStoredTeacherGivesTheBitsOfTheFirstRun) {
  const auto dir = random_model(kOwn);
  for (const FrozenCache cache : {FrozenCache::kHidden, FrozenCache::kTopColumns}) {
    const bool top = cache == FrozenCache::kTopColumns;
    const KdOptions options{.loss = top ? KdLoss::kTopK : KdLoss::kFull, .top_k = 7};
    const auto losses = [&](FrozenModel& model) {
      return kd_loss_of(*batch(), {*student_, model, options});
    };
    const auto cold = teacher(dir, cache), online = teacher(dir);
    const at::Tensor first = losses(*cold);
    cold->flush();
    const auto warm = teacher(dir, cache);
    EXPECT_TRUE(at::equal(losses(*warm), first));
    EXPECT_FALSE(warm->loaded());
    EXPECT_GT(first.max().item<double>(), 0);
    EXPECT_TRUE(at::equal(losses(*online), first));
  }
}

TEST_F(KdView, ItSharesHeadMbWithTheLogProbsOfItsMicroBatch) {
  const auto other = teacher(random_model(kOwn));
  const auto recomputed = [&](int64_t head_mb) {
    PolicyOptions options;
    options.head_mb = head_mb;
    const auto student = Policy::open(kOwn, options);
    const auto some = batch(tiny_packs(tiny_pairs(5), 5));
    const View view = some->micros()[0]->all();
    const KdPair pair{*student, *other, {.loss = KdLoss::kFull, .head_mb = head_mb}};
    const at::Tensor kd = kd_loss_of(view, pair), own = student->token_logprob(view);
    const int64_t before = head_counts().recomputed;
    kd.sum().sub(own.sum()).backward();
    const int64_t count = head_counts().recomputed - before;
    some->close();
    return std::pair{count, view.row_count()};
  };
  // The rows of each fit into 1 MiB; a product reserves whole MiB.
  EXPECT_EQ(recomputed(2).first, 0);
  const auto [count, rows] = recomputed(1);
  EXPECT_EQ(count, rows);
}

TEST_F(KdView, AnAlignedTeacherReadsItsOwnTokens) {
  const auto other = teacher(random_model(kOther));
  const KdPair pair{*student_, *other, {.loss = KdLoss::kUld}};
  const auto some = batch(aligned_packs(4, other->fingerprint()));
  const View view = some->micros()[0]->all();
  const at::Tensor kd = kd_loss_of(view, pair);
  ASSERT_EQ(kd.size(0), some->micros()[0]->unit_count(Unit::kChunk));
  EXPECT_GT(kd.min().item<double>(), 0);
  EXPECT_TRUE(kd.requires_grad());
  // Packing does not matter.
  const at::Tensor apart = kd_loss_of(*batch(aligned_packs(1, other->fingerprint())), pair);
  EXPECT_LT(apart.sub(kd.detach()).abs().max().item<double>(), 1e-5);
  const ChunkColumns columns = chunk_columns(view, *other, 3, 1);
  EXPECT_EQ(columns.top_id.sizes(), at::IntArrayRef({kd.size(0), 3}));
  // One teacher token a chunk in these packs.
  EXPECT_TRUE(at::equal(columns.chunk, at::arange(kd.size(0), at::kLong)));
}

TEST_F(KdView, TheRowsOfAChunkHaveItsColumnsCachedOrNot) {
  const auto dir = random_model(kOther);
  const auto online = teacher(dir), cached = teacher(dir, FrozenCache::kTopColumns);
  const auto some = batch(aligned_packs(4, online->fingerprint(), 3));
  const View view = some->micros()[0]->all();
  const ChunkColumns a = chunk_columns(view, *online, 5, 1.7);
  const ChunkColumns b = chunk_columns(view, *cached, 5, 1.7);
  EXPECT_TRUE(at::equal(a.top_id, b.top_id));
  EXPECT_TRUE(at::equal(a.top_logprob, b.top_logprob));
  EXPECT_TRUE(at::equal(a.lse, b.lse));
  const at::Tensor id = a.top_id.view({-1, 3, 5}), mean = a.top_logprob.view({-1, 3, 5}).mean(1);
  EXPECT_TRUE(at::equal(id.select(1, 0), id.select(1, 2)));
  EXPECT_GE(mean.slice(1, 0, 4).sub(mean.slice(1, 1, 5)).min().item<double>(), -1e-5);
  // A column outside has a lower mean: that of the dense distribution.
  const ChunkColumns all = chunk_columns(view, *online, online->columns(), 1.7);
  EXPECT_TRUE(at::equal(all.top_id.slice(1, 0, 5), a.top_id));
}

TEST_F(KdView, ATeacherOfTheBatchsTokensIgnoresTheChunksOfAnother) {
  const auto own = teacher(random_model(kOwn)), other = teacher(random_model(kOther));
  const KdPair pair{*student_, *own, {.loss = KdLoss::kFull}};
  const auto plain = batch(tiny_packs(tiny_pairs(4), 4));
  const auto aligned = batch(aligned_packs(4, other->fingerprint()));
  const at::Tensor wanted = kd_loss_of(plain->micros()[0]->all(), pair).detach();
  EXPECT_TRUE(at::equal(kd_loss_of(aligned->micros()[0]->all(), pair).detach(), wanted));
}

// Called first, the loss also gives the log-probs, those of rows without a chunk included; called
// second, it makes a product of its own.
TEST_F(KdView, RowsWithoutAChunkHaveTheLogProbsOfAProductOfTheirOwn) {
  const auto other = teacher(random_model(kOther));
  const KdPair pair{*student_, *other, {.loss = KdLoss::kUld}};
  const auto run = [&](bool loss_first) {
    std::vector<PackedBatch> packs = aligned_packs(4, other->fingerprint());
    for (PackedBatch& pack : packs) pack.chunk[1] = pack.chunk[5] = -1;
    const auto some = batch(std::move(packs));
    const View view = some->micros()[0]->all();
    at::Tensor kd, logprob;
    if (loss_first) kd = kd_loss_of(view, pair);
    logprob = student_->token_logprob(view);
    if (!loss_first) kd = kd_loss_of(view, pair);
    // Another weight for each row, so that their order counts.
    const at::Tensor weight = at::arange(logprob.numel(), at::kFloat);
    kd.sum().sub(logprob.mul(weight).sum()).backward();
    std::vector<at::Tensor> out = {kd.detach(), logprob.detach()};
    for (const Parameter& parameter : student_->parameters()) {
      out.push_back(parameter.master.grad());
      parameter.master.mutable_grad().reset();
    }
    some->close();
    return out;
  };
  const std::vector<at::Tensor> one = run(true), two = run(false);
  EXPECT_TRUE(at::equal(one[0], two[0]));
  EXPECT_TRUE(at::equal(one[1], two[1]));
  for (size_t i = 2; i < one.size(); ++i) EXPECT_LT(relative_difference(one[i], two[i]), 1e-5);
}

TEST_F(KdView, AnAlignedTeacherIsStoredToo) {
  const auto dir = random_model(kOther);
  const auto online = teacher(dir), cold = teacher(dir, FrozenCache::kHidden);
  const auto losses = [&](FrozenModel& model) {
    return kd_loss_of(*batch(aligned_packs(2, online->fingerprint())),
                      {*student_, model, {.loss = KdLoss::kUld}});
  };
  const at::Tensor first = losses(*cold);
  cold->flush();
  const auto warm = teacher(dir, FrozenCache::kHidden);
  EXPECT_TRUE(at::equal(losses(*warm), first));
  EXPECT_TRUE(at::equal(losses(*online), first));
  EXPECT_FALSE(warm->loaded());
}

TEST_F(KdView, DataAlignedWithAnotherTeacherAreRefused) {
  const auto other = teacher(random_model(kOther));
  const auto some = batch(aligned_packs(4, "0123"));
  const KdPair pair{*student_, *other, {.loss = KdLoss::kUld}};
  EXPECT_EQ(message_of<Error>([&] { kd_loss_of(some->micros()[0]->all(), pair); }),
            fmt::format("{}: the data are aligned with a different vocabulary (fingerprint 0123; "
                        "this model's is {}); align them with this model, data:align(teacher)",
                        other->dir().string(), other->fingerprint()));
  const auto good = batch(aligned_packs(4, other->fingerprint()));
  EXPECT_EQ(message_of<Error>([&] { kd_loss_of(good->micros()[0]->chosen(), pair); }),
            "xrun.kd reads the chunks of a whole micro-batch, but the view chosen is a part of "
            "it; pass the view that the objective received");
}

TEST_F(KdView, AnUnalignedTeacherOfAnotherVocabularyIsRefused) {
  const auto other = teacher(random_model(kOther));
  const auto some = batch();
  const KdPair pair{*student_, *other, {.loss = KdLoss::kUld}};
  const std::string message =
      message_of<Error>([&] { kd_loss_of(some->micros()[0]->all(), pair); });
  EXPECT_EQ(
      message.find(other->dir().string() + " cannot read this batch: its tokens are those of " +
                   kOwn + ", a different vocabulary ("),
      0u)
      << message;
}

// ---- log-probs of chunks

TEST_F(KdView, TheLogprobOfAChunkIsTheSumOverTheTeachersTokens) {
  const auto other = teacher(random_model(kOther));
  const auto some = batch(aligned_packs(4, other->fingerprint()));
  const View view = some->micros()[0]->all();
  const at::Tensor logprob = other->chunk_logprob(view);
  const ChunkColumns columns = chunk_columns(view, *other, 1, 1);
  ASSERT_EQ(logprob.numel(), some->micros()[0]->unit_count(Unit::kChunk));
  // One teacher token a chunk in these packs.
  EXPECT_TRUE(at::equal(logprob, columns.logprob));
  EXPECT_TRUE(at::equal(other->chunk_logprob(*some), logprob));
  EXPECT_EQ(message_of<Error>([&] { other->chunk_logprob(some->micros()[0]->chosen()); }),
            "chunk_logprob reads the chunks of a whole micro-batch, but the view chosen is a part "
            "of it; pass the view that the objective received");
}

TEST_F(KdView, WithOneVocabularyLogprobsMatchTheTokens) {
  const auto itself = teacher(kOwn);
  const auto some = batch();
  EXPECT_TRUE(at::equal(itself->chunk_logprob(*some), itself->token_logprob(*some)));
  std::vector<PackedBatch> packs = tiny_packs(tiny_pairs(5), 2);
  for (PackedBatch& pack : packs) number_row_chunks(pack);
  const auto rows = batch(std::move(packs));
  const View view = rows->micros()[0]->all();
  EXPECT_TRUE(at::equal(itself->chunk_logprob(view), itself->token_logprob(view)));
}

// ---- one vocabulary that extends the other

TEST_F(KdView, TheTokensOfBothAreComparedIfTheTeacherHasMore) {
  const auto model = extended_model();
  const auto other = teacher(model);
  const int64_t columns = student_->tokenizer()->vocab_size();
  const auto some = batch();
  const View view = some->micros()[0]->all();
  const at::Tensor kd = kd_loss_of(view, {*student_, *other, {.loss = KdLoss::kFull}}).detach();
  const auto logs = [&](LogprobSource& of) {
    return of.logits(view).detach().to(at::kDouble).slice(1, 0, columns).log_softmax(1);
  };
  const at::Tensor q = logs(*other), p = logs(*student_);
  EXPECT_LT(kd.to(at::kDouble).sub(q.exp().mul(q.sub(p)).sum(1)).abs().max().item<double>(), 1e-4);
  // Stored columns are those of both vocabularies too.
  const auto stored = teacher(model, FrozenCache::kTopColumns);
  const KdOptions top{.loss = KdLoss::kTopK, .top_k = 7};
  const at::Tensor cached = kd_loss_of(view, {*student_, *stored, top}).detach();
  const at::Tensor online = kd_loss_of(view, {*student_, *other, top}).detach();
  EXPECT_LT(cached.sub(online).abs().max().item<double>(), 1e-5);
}

TEST_F(KdView, ADryRunAcceptsATeacherThatHasMoreTokens) {
  const auto other = teacher(extended_model());
  const auto values = std::make_shared<LogprobStandIn>(LogprobStandIn::seeded(1));
  const auto replace = [&](LogprobSource& source, const std::string& name, int64_t vocab) {
    source.set_replacement(std::make_shared<ModelStandIn>(
        values, name, [] { return false; }, vocab));
  };
  replace(*student_, "student", student_->vocab());
  replace(*other, "teacher", other->vocab());
  const auto some = batch();
  const View view = some->micros()[0]->all();
  for (const KdLoss loss : {KdLoss::kFull, KdLoss::kTopK}) {
    EXPECT_EQ(kd_loss_of(view, {*student_, *other, {.loss = loss}}).numel(), view.row_count());
  }
  EXPECT_FALSE(other->loaded());
}

}  // namespace
}  // namespace xrun::kd_view_test
