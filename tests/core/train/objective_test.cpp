// Losses of a wrong shape, type or unit are refused with the expected shape.

#include "core/train/objective.h"

#include <ATen/ops/ones.h>
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "core/train/batches/batch.h"
#include "core/train/batches/micro_batch.h"
#include "tests/core/train/tiny_pairs.h"
#include "tests/error_of.h"

namespace xrun::objective_test {
namespace {

std::string breach(std::vector<std::pair<Unit, at::Tensor>> losses) {
  const auto batch = tiny_batch(tiny_pairs(8), 8);
  try {
    check_result({std::move(losses), {}}, *batch->micros()[0]);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Objective, AWrongLengthNamesTheExpectedOne) {
  EXPECT_EQ(breach({{Unit::kPair, at::ones({12})}}),
            "the loss has 12 elements, wanted 8 (one per pair of this micro-batch)");
  EXPECT_EQ(breach({{Unit::kSequence, at::ones({1})}}),
            "the loss has 1 element, wanted 16 (one per sequence of this micro-batch)");
}

TEST(Objective, ALossPerTokenIsExplained) {
  const auto batch = tiny_batch(tiny_pairs(8), 8);
  MicroBatch& micro = *batch->micros()[0];
  const int64_t all = micro.row_count(), chosen = micro.chosen().row_count();
  ASSERT_NE(chosen, 8);
  EXPECT_EQ(unit_mismatch_hint(8, all, micro),
            fmt::format("8 is one per pair, {} one per trained token; view:sum(x) turns values per "
                        "token into values per sequence, view:spread(x) does the reverse",
                        all));
  EXPECT_NE(breach({{Unit::kPair, at::ones({chosen})}})
                .find(fmt::format("\nhint: {} is one per trained token of the chosen side, 8 one "
                                  "per pair; view:sum(x) ",
                                  chosen)),
            std::string::npos);
  // Pairs and sequences are both of whole answers, and 8,000 counts nothing here.
  EXPECT_EQ(unit_mismatch_hint(8, 16, micro), "");
  EXPECT_EQ(unit_mismatch_hint(8, 8000, micro), "");
}

TEST(Objective, ATokenLossOfOneSideIsExplained) {
  const auto batch = tiny_batch(tiny_pairs(8), 8);
  const int64_t chosen = batch->micros()[0]->chosen().row_count();
  EXPECT_NE(breach({{Unit::kToken, at::ones({chosen})}})
                .find(fmt::format("\nhint: {} is one per trained token of the chosen side; use "
                                  "p.all, or add it per pair: loss + w * p.chosen:mean(x)",
                                  chosen)),
            std::string::npos);
}

TEST(Objective, AReducedLossIsRefused) {
  EXPECT_EQ(breach({{Unit::kPair, at::ones({})}}),
            "the loss is a single number, wanted 8 elements (one per pair of this micro-batch); "
            "return it unreduced, the step takes the mean");
}

TEST(Objective, AWrongShapeIsPrinted) {
  EXPECT_EQ(breach({{Unit::kPair, at::ones({8, 1})}}),
            "the loss has shape [8, 1], wanted [8] (one per pair of this micro-batch)");
}

TEST(Objective, AnErrorNamesWhichOfSeveralLosses) {
  EXPECT_EQ(breach({{Unit::kPair, at::ones({8})}, {Unit::kSequence, at::ones({8})}}),
            "the sequence loss has 8 elements, wanted 16 (one per sequence of this micro-batch)");
  EXPECT_EQ(breach({{Unit::kPair, at::ones({8})}, {Unit::kPair, at::ones({8})}}),
            "the objective returned the pair loss twice");
}

TEST(Objective, AMissingLossIsNamed) {
  EXPECT_EQ(breach({}), "the objective returned no loss; return a tensor with one loss per pair");
}

TEST(Objective, AUnitThatTheDataLackIsNamed) {
  EXPECT_EQ(breach({{Unit::kChunk, at::ones({8})}}),
            "a loss per chunk: this batch has none; it has pairs, tokens and sequences");
}

TEST(Objective, CorrectLengthsPass) {
  EXPECT_EQ(breach({{Unit::kPair, at::ones({8})}, {Unit::kSequence, at::ones({16})}}), "");
}

TEST(Objective, AMetricCannotShadowOneOfTheSteps) {
  const auto batch = tiny_batch(tiny_pairs(2), 2);
  const auto named = [&](const std::string& name) {
    check_result({{{Unit::kPair, at::ones({2})}}, {{name, at::ones({2})}}}, *batch->micros()[0]);
  };
  for (const char* name : {"loss", "lr", "grad_norm", "logprob_chosen", "length_all", "train/x"}) {
    EXPECT_EQ(
        error_of([&] { named(name); }),
        fmt::format("the metric \"{}\" has a name that the step itself writes; choose another name",
                    name));
  }
  for (const char* name : {"margin", "loss_nll", "logprob_gap"}) EXPECT_NO_THROW(named(name));
}

TEST(Unit, NamesRoundTrip) {
  for (Unit unit : {Unit::kPair, Unit::kToken, Unit::kSequence, Unit::kGroup, Unit::kChunk}) {
    EXPECT_EQ(unit_of(unit_name(unit)), unit);
  }
  EXPECT_EQ(
      error_of([] { unit_of("pairs"); }),
      "\"pairs\" is not a unit of a loss; the units are pair, token and sequence (group and chunk "
      "where the data have them)");
}

}  // namespace
}  // namespace xrun::objective_test
