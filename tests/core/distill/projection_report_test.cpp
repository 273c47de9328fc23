// Reports on projections: the kinds of their rows, their numerals, and how two of them differ.

#include "core/distill/projection_report.h"

#include <gtest/gtest.h>

#include "core/distill/projection_build.h"
#include "tests/core/text/tokenizer/small_tokenizer.h"
#include "tests/error_of.h"

namespace xrun::projection_report_test {
namespace {

TEST(ProjectionReport, EveryRowIsExactOrSeveralOrEmpty) {
  const auto smol = small_tokenizer("smol"), llama = small_tokenizer("llama2");
  const Projection p = build_projection(*smol, *llama);
  const ProjectionSummary summary = summary_of(p);
  EXPECT_EQ(summary.exact + summary.several + summary.empty, p.student_vocab);
  EXPECT_LE(summary.longest, 4);
  const auto numerals = numeral_rows(p, *smol);
  EXPECT_GE(numerals[0].tokens, 10);
  for (const NumeralRow& row : numerals) {
    EXPECT_EQ(row.exact + row.several + row.empty, row.tokens);
    EXPECT_EQ(row.example >= 0, row.exact + row.several > 0);
  }
  EXPECT_EQ(row_text(p, *smol->id_of("7"), *smol, *llama), "\"7\" -> \"7\" 1");
  EXPECT_EQ(example_rows(p, 3).size(), 3u);
}

TEST(ProjectionReport, ByteTokensAreNotNumerals) {
  const auto llama = small_tokenizer("llama2"), smol = small_tokenizer("smol");
  EXPECT_EQ(numeral_rows(build_projection(*llama, *smol), *llama)[0].empty, 0);
}

TEST(ProjectionReport, ADifferenceHasTheWorstRowsFirst) {
  const auto smol = small_tokenizer("smol"), llama = small_tokenizer("llama2");
  const Projection a = build_projection(*smol, *llama);
  const ProjectionDifference none = difference_of(a, a);
  EXPECT_TRUE(none.rows.empty());
  EXPECT_EQ(none.same, a.student_vocab);
  const Projection b = build_projection(*smol, *llama, {.top_k = 2, .reverse = false});
  const ProjectionDifference some = difference_of(a, b);
  ASSERT_GT(some.rows.size(), 1u);
  for (size_t i = 1; i < some.rows.size(); ++i) {
    EXPECT_LE(some.rows[i].distance, some.rows[i - 1].distance);
  }
  EXPECT_EQ(some.same + int64_t(some.rows.size()), a.student_vocab);
  const Projection other = build_projection(*llama, *smol);
  EXPECT_NE(error_of([&] { difference_of(a, other); }).find("are for different tokenizers"),
            std::string::npos);
}

}  // namespace
}  // namespace xrun::projection_report_test
