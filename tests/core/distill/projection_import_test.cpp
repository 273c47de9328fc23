// Projections of NeMo-RL's files, and reports on projections.

#include "core/distill/projection_import.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/distill/projection_nemo.h"
#include "core/distill/projection_report.h"
#include "core/text/tokenizer/vocabulary_fingerprint.h"
#include "tests/error_of.h"
#include "tests/tree.h"

namespace xrun::projection_import_test {
namespace {

std::shared_ptr<const Tokenizer> tokenizer(const std::string& name) {
  return Tokenizer::load(source_path("tests/data/tokenizers/" + name));
}

TorchFile golden(const std::string& name) {
  return TorchFile(std::filesystem::path(source_path("tests/golden/" + name)));
}

TEST(ImportProjection, ADenseFileIsWhatTheToolsOfNemoMake) {
  const auto student = tokenizer("deepseek"), teacher = tokenizer("smol");
  const ProjectionImport imported =
      import_projection(golden("projection_dense.pt"), *student, *teacher);
  ProjectionOptions options;
  options.nemo = true;
  options.prep_top_k = 8;
  const Projection built = build_projection(*student, *teacher, options);
  EXPECT_EQ(imported.projection.begin, built.begin);
  EXPECT_EQ(imported.projection.id, built.id);
  EXPECT_EQ(imported.projection.weight, built.weight);
  EXPECT_EQ(imported.projection.student, vocabulary_fingerprint(*student));
  EXPECT_EQ(imported.padded_rows, 0);
  EXPECT_EQ(imported.projection.made_by.at("settings").at("student_model_id").as_string(),
            "deepseek");
}

TEST(ImportProjection, ASparseFileKeepsItsCounts) {
  const auto student = tokenizer("smol"), teacher = tokenizer("llama2");
  const Projection p =
      import_projection(golden("projection_sparse.pt"), *student, *teacher).projection;
  EXPECT_EQ(p.student_vocab, student->vocab_size());
  EXPECT_EQ(p.entries(), 4);
  EXPECT_EQ(p.row_size(5), 2);
  EXPECT_EQ(p.id[size_t(p.begin[5])], 7);
  EXPECT_EQ(p.weight[size_t(p.begin[5])], 3.0f);
  EXPECT_EQ(p.weight[size_t(p.begin[5]) + 1], 1.0f);
  EXPECT_NE(error_of([&] { exact_map(p); }).find("its weights are counts"), std::string::npos);
}

TEST(ImportProjection, AnotherTokenizerIsAnError) {
  const auto smol = tokenizer("smol"), llama = tokenizer("llama2"), small = tokenizer("regexes"),
             deepseek = tokenizer("deepseek");
  const auto message = [](const std::string& file, const Tokenizer& student,
                          const Tokenizer& teacher) {
    return error_of([&] { import_projection(golden(file), student, teacher); });
  };
  EXPECT_NE(message("projection_dense.pt", *llama, *smol)
                .find("has 800 rows, but the student's tokenizer has 903 tokens; was it made for "
                      "another student?"),
            std::string::npos);
  EXPECT_NE(message("projection_dense.pt", *small, *smol)
                .find("has 800 rows, but the student's tokenizer has only 500 tokens, fewer than "
                      "padding explains; was it made for another student?"),
            std::string::npos);
  EXPECT_NE(message("projection_dense.pt", *deepseek, *small)
                .find("the teacher's tokenizer has 500; was it made for another teacher?"),
            std::string::npos);
  EXPECT_NE(message("projection_sparse.pt", *small, *smol)
                .find("names the student token 698, the student's tokenizer has 500"),
            std::string::npos);
}

TEST(ImportProjection, RowsOfAPaddedEmbeddingAreLeftOut) {
  const ProjectionImport imported =
      import_projection(golden("projection_padded.pt"), *tokenizer("deepseek"), *tokenizer("smol"));
  EXPECT_EQ(imported.padded_rows, 20);
  EXPECT_EQ(imported.projection.student_vocab, 800);
}

TEST(ImportProjection, OtherContentsAreNamed) {
  const auto smol = tokenizer("smol");
  const auto message = [&](const std::string& name) {
    return error_of([&] {
      import_projection(
          TorchFile(read_file(source_path("tests/data/fuzz/torch_file/" + name)).substr(1), name),
          *smol, *smol);
    });
  };
  EXPECT_EQ(message("good"),
            "good: its dict maps a str to a tensor, wanted \"indices\" and \"likelihoods\", or "
            "counts by pairs of token ids");
  EXPECT_NE(message("inside_itself").find("its dict maps a int to a dict"), std::string::npos);
}

TEST(ProjectionReports, CountRowsAndNumerals) {
  const auto smol = tokenizer("smol"), llama = tokenizer("llama2");
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

TEST(ProjectionReports, ByteTokensAreNotNumerals) {
  const auto llama = tokenizer("llama2"), smol = tokenizer("smol");
  EXPECT_EQ(numeral_rows(build_projection(*llama, *smol), *llama)[0].empty, 0);
}

TEST(ProjectionReports, ADifferenceHasTheWorstRowsFirst) {
  const auto smol = tokenizer("smol"), llama = tokenizer("llama2");
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
}  // namespace xrun::projection_import_test
