// A batch keeps the order of its stream in any micro-batches; fields go to the right rows.

#include "core/train/batches/batch.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/core/train/tiny_pairs.h"
#include "tests/error_of.h"

namespace xrun::batch_test {
namespace {

TEST(Batch, FieldsAreInStreamOrderInAnyPacking) {
  const std::vector<TinyPair> pairs = tiny_pairs(7);
  const auto whole = tiny_batch(pairs, 7);
  Batch pieces({}, tiny_packs(pairs, 3, /*reversed=*/true));
  for (const char* name : {"row", "pair", "length", "tokens", "weight"}) {
    EXPECT_TRUE(at::equal(whole->field(name), pieces.field(name))) << name;
  }
  EXPECT_EQ(pieces.field("row")[0].item().toLong(), 0);
  EXPECT_EQ(pieces.size(), 14);
  EXPECT_EQ(pieces.field("length")[1].item().toLong(),
            static_cast<int64_t>(pairs[0].rejected.size()));
}

TEST(Batch, AnAssignedFieldIsSlicedIntoTheViews) {
  Batch batch({}, tiny_packs(tiny_pairs(7), 3, /*reversed=*/true));
  batch.set_field("reward", at::arange(14, at::kFloat));
  for (const auto& micro : batch.micros()) {
    // Batch order has the pair i's chosen side at 2 i.
    const View chosen = micro->chosen();
    EXPECT_TRUE(at::equal(chosen.field("reward"), chosen.field("pair").mul(2).to(at::kFloat)));
  }
  EXPECT_TRUE(at::equal(batch.field("reward"), at::arange(14, at::kFloat)));
}

TEST(Batch, AFieldByTrainedTokenComesBackByView) {
  Batch batch({}, tiny_packs(tiny_pairs(5), 2, /*reversed=*/true));
  const at::Tensor values = at::randn({batch.row_count()});
  batch.set_field("old_logprob", values);
  std::vector<at::Tensor> parts;
  for (const auto& micro : batch.micros()) parts.push_back(micro->all().field("old_logprob"));
  EXPECT_TRUE(at::equal(batch.in_batch_order(parts, true), values));
}

TEST(Batch, SumIsPerSequenceInStreamOrderInAnyPacking) {
  const std::vector<TinyPair> pairs = tiny_pairs(7);
  const auto whole = tiny_batch(pairs, 7);
  Batch pieces({}, tiny_packs(pairs, 3, /*reversed=*/true));
  const at::Tensor values = at::arange(whole->row_count(), at::kFloat);
  EXPECT_TRUE(at::equal(pieces.sum(values), whole->sum(values)));
  const auto length = static_cast<int64_t>(pairs[0].chosen.size());  // of the first sequence
  EXPECT_EQ(whole->sum(values)[0].item().toDouble(),
            static_cast<double>(length * (length - 1) / 2));
  EXPECT_TRUE(at::equal(pieces.sum(values.mul(0).add(1)), pieces.field("length").to(at::kFloat)));
  EXPECT_EQ(error_of([&] { pieces.sum(at::arange(3)); }),
            fmt::format("sum takes one value per trained token: got shape [3], wanted [{}]",
                        pieces.row_count()));
}

TEST(Batch, AFieldByPairReachesBothSides) {
  Batch batch({}, tiny_packs(tiny_pairs(5), 2, /*reversed=*/true));
  batch.set_field("difficulty", at::arange(5, at::kFloat));
  for (const auto& micro : batch.micros()) {
    for (const View& view : {micro->chosen(), micro->rejected()}) {
      EXPECT_TRUE(at::equal(view.field("difficulty"), view.field("pair").to(at::kFloat)));
    }
  }
}

TEST(Batch, RefusesAFieldOfAnotherSizeAndNamesTheSizes) {
  Batch batch({}, tiny_packs(tiny_pairs(2), 2));
  EXPECT_EQ(error_of([&] { batch.set_field("reward", at::randn({3})); }),
            fmt::format("batch.reward has shape [3], wanted [4] (one per sequence), [2] (one per "
                        "pair) or [{}] (one per trained token)",
                        batch.row_count()));
  EXPECT_EQ(error_of([&] { batch.set_field("row", at::randn({4})); }),
            "batch.row belongs to the data and cannot be assigned; choose another name");
}

// Two packs of two sequences each, one with two trained tokens and one with none: as many sequences
// as trained tokens.
std::vector<PackedBatch> uneven_packs() {
  std::vector<PackedBatch> packs(2);
  int64_t sample = 0;
  for (PackedBatch& pack : packs) {
    for (const uint8_t trained : {uint8_t{1}, uint8_t{0}}) {
      PackedBatch::Segment segment;
      segment.row_id = segment.segment_id = sample++;
      pack.append(segment, {1, 2, 3}, {0, trained, trained});
    }
  }
  return packs;
}

Batch uneven_batch() {
  BatchInfo info;
  info.unit = Unit::kToken;
  return Batch(info, uneven_packs());
}

TEST(Batch, AFieldOfAnAmbiguousUnitIsRefused) {
  Batch batch = uneven_batch();
  EXPECT_EQ(error_of([&] { batch.set_field("old", at::arange(4, at::kFloat)); }),
            "batch.old has 4 values, and this batch has 4 sequences and 4 trained tokens: write "
            "batch:set_field(\"old\", x, \"sequence\") or batch:set_field(\"old\", x, \"token\")");
}

TEST(Batch, AFieldGoesToTheUnitItIsGivenFor) {
  Batch batch = uneven_batch();
  batch.set_field("by_token", at::arange(4, at::kFloat), Unit::kToken);
  batch.set_field("by_sequence", at::arange(4, at::kFloat), Unit::kSequence);
  const View second = batch.micros()[1]->all();
  EXPECT_TRUE(at::equal(second.sum(second.field("by_token")), at::tensor({5.f, 0.f})));
  EXPECT_TRUE(at::equal(second.field("by_sequence"), at::tensor({2.f, 3.f})));
  EXPECT_EQ(error_of([&] { batch.set_field("x", at::randn({4}), Unit::kPair); }),
            "batch.x has shape [4], wanted [4] (one per sequence) or [4] (one per trained token); "
            "it is given per pair");
}

TEST(Batch, ATensorThatTheBatchMadeKeepsItsUnit) {
  Batch batch = uneven_batch();
  std::vector<at::Tensor> rows, segments;
  for (const auto& micro : batch.micros()) {
    const View view = micro->all();
    segments.push_back(view.field("row").to(at::kFloat));
    rows.push_back(view.spread(segments.back()));
  }
  batch.set_field("by_token", batch.in_batch_order(rows, /*by_row=*/true));
  batch.set_field("by_sequence", batch.in_batch_order(segments, /*by_row=*/false));
  batch.set_field("again", batch.field("by_token"));
  const View second = batch.micros()[1]->all();
  for (const char* name : {"by_token", "again"}) {
    EXPECT_TRUE(at::equal(second.sum(second.field(name)), at::tensor({4.f, 0.f}))) << name;
  }
  EXPECT_TRUE(at::equal(second.field("by_sequence"), at::tensor({2.f, 3.f})));
}

TEST(Batch, OneTrainedTokenPerSequenceReadsTheSameEitherWay) {
  PackedBatch pack;
  for (int64_t i = 0; i < 2; ++i) {
    PackedBatch::Segment segment;
    segment.segment_id = i;
    pack.append(segment, {1, 2}, {0, 1});
  }
  BatchInfo info;
  info.unit = Unit::kToken;
  Batch batch(info, {pack});
  batch.set_field("x", at::tensor({1.f, 2.f}));
  EXPECT_TRUE(at::equal(batch.micros()[0]->all().field("x"), at::tensor({1.f, 2.f})));
}

TEST(Batch, RefusesAPairInTwoPacks) {
  std::vector<PackedBatch> packs = tiny_packs(tiny_pairs(2), 2);
  packs.push_back(packs[0]);
  EXPECT_NE(error_of([&] { Batch batch({}, packs); }).find("must be unique in a step"),
            std::string::npos);
}

TEST(View, SidesArePairedAndHaveOnlyTheirRows) {
  const std::vector<TinyPair> pairs = tiny_pairs(6);
  Batch batch({}, tiny_packs(pairs, 6, /*reversed=*/true));
  const View chosen = batch.micros()[0]->chosen(), rejected = batch.micros()[0]->rejected();
  EXPECT_TRUE(at::equal(chosen.field("pair"), rejected.field("pair")));
  const at::Tensor pair = chosen.field("pair"), length = rejected.length(), all = rejected.tokens();
  for (int64_t i = 0; i < 6; ++i) {
    const TinyPair& one = pairs[static_cast<size_t>(pair[i].item().toLong())];
    EXPECT_EQ(length[i].item().toLong(), static_cast<int64_t>(one.rejected.size()));
    EXPECT_EQ(all[i].item().toLong(),
              static_cast<int64_t>(one.prompt.size() + one.rejected.size()));
  }
}

TEST(View, SumMeanAndSpreadFitEachOther) {
  const auto batch = tiny_batch(tiny_pairs(4), 4);
  const View view = batch->micros()[0]->rejected();
  const at::Tensor n = at::arange(1, 5, at::kFloat);
  EXPECT_TRUE(at::equal(view.mean(view.spread(n)), n));
  EXPECT_TRUE(at::equal(view.sum(view.spread(n)), n.mul(view.length())));
  at::Tensor x = at::randn({view.row_count()});
  x.requires_grad_(true);
  view.sum(x).mul(n).sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), view.spread(n)));
}

TEST(View, ASegmentWithoutTrainedTokensSumsToZero) {
  PackedBatch pack;
  PackedBatch::Segment segment;
  segment.segment_id = 0;
  pack.append(segment, {1, 2, 3}, {0, 0, 0});
  segment.segment_id = 1;
  pack.append(segment, {1, 2, 3}, {0, 1, 1});
  BatchInfo info;
  info.unit = Unit::kToken;
  Batch batch(info, {pack});
  const View view = batch.micros()[0]->all();
  EXPECT_TRUE(at::equal(view.sum(at::tensor({2.f, 3.f})), at::tensor({0.f, 5.f})));
  EXPECT_TRUE(at::equal(view.mean(at::tensor({2.f, 3.f})), at::tensor({0.f, 2.5f})));
}

TEST(View, NamesShapesThatDoNotFit) {
  const auto batch = tiny_batch(tiny_pairs(4), 4);
  const View view = batch->micros()[0]->chosen();
  EXPECT_EQ(error_of([&] { view.spread(at::randn({3})); }),
            "spread takes one value per sequence: got shape [3], wanted [4]");
  EXPECT_EQ(error_of([&] {
              view.sum(at::randn({2, 2}));
            }),
            fmt::format("sum takes one value per trained token: got shape [2, 2], wanted [{}]",
                        view.row_count()));
}

TEST(View, RaisesClosedAfterItsStepAndIsRecreatedLater) {
  const auto batch = tiny_batch(tiny_pairs(2), 2);
  const View view = batch->micros()[0]->chosen();
  EXPECT_EQ(view.length().numel(), 2);
  batch->close();
  EXPECT_EQ(error_of([&] { view.length(); }),
            "this view (chosen) is closed: its micro-batch ended with the step; keep what you need "
            "with xrun.keep(tensor) while it is open");
  EXPECT_EQ(batch->micros()[0]->chosen().length().numel(), 2);
}

TEST(View, AnUnknownFieldNamesTheNearest) {
  const auto batch = tiny_batch(tiny_pairs(2), 2);
  EXPECT_EQ(error_of([&] { batch->micros()[0]->all().field("lenght"); }),
            "this batch has no field \"lenght\"; did you mean \"length\"?");
  EXPECT_EQ(error_of([&] { batch->micros()[0]->all().field("len"); }),
            "this batch has no field \"len\"; did you mean \"length\"? else assign it to the batch "
            "first");
}

TEST(View, SequencesHaveNoSides) {
  PackedBatch pack;
  pack.append({}, {1, 2, 3}, {0, 1, 1});
  BatchInfo info;
  info.unit = Unit::kToken;
  Batch batch(info, {pack});
  EXPECT_EQ(error_of([&] { batch.micros()[0]->chosen(); }),
            "there is no chosen side here: this batch is not made of pairs");
}

}  // namespace
}  // namespace xrun::batch_test
