// Files of projections that NeMo-RL's tools wrote become projections here.

#include "core/distill/projection_import.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/distill/projection_nemo.h"
#include "core/text/tokenizer/vocabulary_fingerprint.h"
#include "tests/core/text/tokenizer/small_tokenizer.h"
#include "tests/error_of.h"
#include "tests/tree.h"

namespace xrun::projection_import_test {
namespace {

TorchFile golden(const std::string& name) {
  return TorchFile(std::filesystem::path(source_path("tests/golden/" + name)));
}

TEST(ImportProjection, ADenseFileEqualsTheProjectionBuiltAsNemoRlDoes) {
  const auto student = small_tokenizer("deepseek"), teacher = small_tokenizer("smol");
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
  const auto student = small_tokenizer("smol"), teacher = small_tokenizer("llama2");
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
  const auto smol = small_tokenizer("smol"), llama = small_tokenizer("llama2"),
             small = small_tokenizer("regexes"), deepseek = small_tokenizer("deepseek");
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
  EXPECT_NE(
      message("projection_dense.pt", *deepseek, *small)
          .find("but the teacher's tokenizer has 500 tokens; was it made for another teacher?"),
      std::string::npos);
  EXPECT_NE(message("projection_sparse.pt", *small, *smol)
                .find("names the student token 698, but the student's tokenizer has 500 tokens"),
            std::string::npos);
}

TEST(ImportProjection, RowsOfAPaddedEmbeddingAreLeftOut) {
  const ProjectionImport imported = import_projection(
      golden("projection_padded.pt"), *small_tokenizer("deepseek"), *small_tokenizer("smol"));
  EXPECT_EQ(imported.padded_rows, 20);
  EXPECT_EQ(imported.projection.student_vocab, 800);
}

TEST(ImportProjection, AFileOfOtherContentsIsRefusedWithItsTypes) {
  const auto smol = small_tokenizer("smol");
  const auto message = [&](const std::string& name) {
    return error_of([&] {
      import_projection(
          TorchFile(read_file(source_path("tests/data/fuzz/torch_file/" + name)).substr(1), name),
          *smol, *smol);
    });
  };
  EXPECT_EQ(
      message("good"),
      "good: its dict maps str keys to tensor values, wanted \"indices\" and \"likelihoods\", or "
      "counts by pairs of token ids");
  EXPECT_NE(message("inside_itself").find("its dict maps int keys to dict values"),
            std::string::npos);
}

}  // namespace
}  // namespace xrun::projection_import_test
