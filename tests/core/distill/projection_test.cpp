// Files of projections, and the exact map that gold and h-kl read from them.

#include "core/distill/projection.h"

#include <gtest/gtest.h>

#include "core/base/file.h"
#include "core/model/weights/safetensors.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace xrun::projection_test {
namespace {

using Row = std::vector<std::pair<int32_t, float>>;
using Pairs = std::vector<std::pair<int32_t, int32_t>>;

Projection projection_of_rows(const std::vector<Row>& rows, int64_t teacher_vocab) {
  Projection projection;
  ProjectionRows builder(projection);
  for (const Row& row : rows) {
    for (const auto& [id, weight] : row) builder.add(id, weight);
    builder.end_row();
  }
  projection.student_vocab = static_cast<int64_t>(rows.size());
  projection.teacher_vocab = teacher_vocab;
  projection.student = "aaaa";
  projection.teacher = "bbbb";
  projection.made_by.set("student", "small");
  projection.made_by.set("teacher", "large");
  return projection;
}

Projection small() {
  return projection_of_rows({{{1, 1}}, {}, {{2, 0.7f}, {0, 0.3f}}, {{0, 1}}}, 3);
}

TEST(Projections, AreReadBackAsTheyWereWritten) {
  const ScratchFolder folder;
  const Projection written = small();
  save_projection(written, folder / "p");
  const Projection read = load_projection(folder / "p");
  EXPECT_EQ(read.begin, written.begin);
  EXPECT_EQ(read.id, written.id);
  EXPECT_EQ(read.weight, written.weight);
  EXPECT_EQ(read.student_vocab, 4);
  EXPECT_EQ(read.teacher_vocab, 3);
  EXPECT_EQ(read.student, "aaaa");
  EXPECT_EQ(read.teacher, "bbbb");
  EXPECT_EQ(read.made_by, written.made_by);
}

TEST(Projections, WithEqualContentsHaveEqualBytes) {
  const ScratchFolder folder;
  save_projection(small(), folder / "a");
  save_projection(load_projection(folder / "a"), folder / "b");
  EXPECT_EQ(read_file(folder / "a"), read_file(folder / "b"));
}

TEST(Projections, AnEmptyOneIsReadBack) {
  const ScratchFolder folder;
  save_projection(projection_of_rows({{}, {}}, 5), folder / "p");
  EXPECT_EQ(load_projection(folder / "p").entries(), 0);
}

TEST(Projections, RowsAreSortedByFallingWeightAndTiesKeepTheirOrder) {
  const Projection p = projection_of_rows({{{4, 0.25f}, {3, 0.5f}, {1, 0.25f}}}, 5);
  EXPECT_EQ(p.id, (std::vector<int32_t>{3, 4, 1}));
}

TEST(Projections, OtherTokenizersAreAnErrorThatNamesBoth) {
  const ScratchFolder folder;
  save_projection(small(), folder / "p");
  EXPECT_NO_THROW(load_projection(folder / "p", "aaaa", "bbbb"));
  const std::string message =
      message_of<Error>([&] { load_projection(folder / "p", "aaaa", "cccc"); });
  EXPECT_NE(message.find("made for the student tokenizer small aaaa and the teacher tokenizer "
                         "large bbbb, but the student's is aaaa and the teacher's cccc; build it "
                         "again"),
            std::string::npos)
      << message;
  const std::string exchanged =
      message_of<Error>([&] { load_projection(folder / "p", "bbbb", "aaaa"); });
  EXPECT_NE(exchanged.find("it is the projection of the other direction"), std::string::npos);
}

// Returns the error of saving a projection.
std::string error_with(const ScratchFolder& folder, Projection projection) {
  return error_of([&] { save_projection(projection, folder / "p"); });
}

TEST(Projections, BrokenRowsAreRefused) {
  const ScratchFolder folder;
  Projection p = small();
  p.id[0] = 3;
  EXPECT_NE(
      error_with(folder, p).find("row 0 names the teacher token 3, but the teacher has 3 tokens"),
      std::string::npos);
  p = small();
  p.weight[0] = 0;
  EXPECT_NE(error_with(folder, p).find("row 0 has a weight of 0"), std::string::npos);
  p = small();
  p.weight[2] = 0.8f;
  EXPECT_NE(error_with(folder, p).find("row 2 is not sorted by falling weight"), std::string::npos);
  p = small();
  p.begin[1] = 9;
  EXPECT_NE(error_with(folder, p).find("its rows do not cover its 4 entries"), std::string::npos);
  p = small();
  p.weight[1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_NE(error_with(folder, p).find("has a weight of nan"), std::string::npos);
}

TEST(Projections, OtherFilesAreRefusedWithTheFix) {
  const ScratchFolder folder;
  write_safetensors(folder / "model", std::vector<NamedTensor>());
  EXPECT_NE(message_of<Error>([&] {
              load_projection(folder / "model");
            }).find("has no 'format' in its metadata; `xrun projection build` makes"),
            std::string::npos);
  EXPECT_NE(message_of<Error>([&] {
              load_projection(folder / "x.pt");
            }).find("is a file of torch.save; `xrun projection import` converts"),
            std::string::npos);
}

TEST(Projections, ATruncatedFileIsRefused) {
  const ScratchFolder folder;
  save_projection(small(), folder / "p");
  const std::string bytes = read_file(folder / "p");
  for (const size_t size : {size_t{0}, size_t{7}, bytes.size() / 2, bytes.size() - 1}) {
    const std::string file = folder.write("cut", bytes.substr(0, size));
    const std::string message = error_of([&] { load_projection(file); });
    EXPECT_TRUE(message.starts_with(file + ": ") && message.ends_with(" fetch it again"))
        << message;
  }
}

TEST(Projections, EveryFlippedByteIsNamed) {
  const ScratchFolder folder;
  save_projection(small(), folder / "p");
  const std::string bytes = read_file(folder / "p");
  for (const char bit : {char{1}, char{0x10}}) {
    for (size_t at = 0; at < bytes.size(); ++at) {
      std::string flipped = bytes;
      flipped[at] = static_cast<char>(flipped[at] ^ bit);
      const std::string file = folder.write("flipped", flipped);
      EXPECT_TRUE(error_of([&] { load_projection(file); }).starts_with(file)) << at;
    }
  }
}

// Row 1 is empty and the weights of row 2 are 0.7 and 0.3: neither has a partner.
TEST(ExactMap, TakesRowsOfWeightOne) { EXPECT_EQ(exact_map(small()), (Pairs{{0, 1}, {3, 0}})); }

TEST(ExactMap, TheLowestStudentTokenWinsACollision) {
  EXPECT_EQ(exact_map(projection_of_rows({{{1, 1}}, {{1, 1}}, {{2, .7f}, {0, .3f}}, {{0, 1}}}, 3)),
            (Pairs{{0, 1}, {3, 0}}));
}

TEST(ExactMap, RelaxedTakesTheLargestWeightThenTheLowestStudentToken) {
  const Projection p = projection_of_rows({{{0, 0.65f}, {1, 0.35f}},
                                           {{0, 0.9f}, {1, 0.1f}},
                                           {{0, 0.9f}, {2, 0.1f}},
                                           {{2, 0.59f}, {1, 0.41f}},
                                           {{3, 1}}},
                                          4);
  EXPECT_EQ(exact_map(p, 0.6), (Pairs{{1, 0}, {4, 3}}));
}

TEST(ExactMap, AnEmptyMapIsAnError) {
  const Projection p = projection_of_rows({{{0, 0.6f}, {1, 0.4f}}, {}}, 2);
  EXPECT_NE(message_of<Error>([&] { exact_map(p); })
                .find("maps none of the 2 student tokens onto one of the 2 teacher tokens with a "
                      "weight of at least 1"),
            std::string::npos);
  EXPECT_EQ(exact_map(p, 0.5), (Pairs{{0, 0}}));
}

TEST(ExactMap, CountsAreAnError) {
  EXPECT_NE(message_of<Error>([&] {
              exact_map(projection_of_rows({{{0, 3}}}, 1));
            }).find("row 0 of the projection has a weight of 3: its weights are counts"),
            std::string::npos);
}

}  // namespace
}  // namespace xrun::projection_test
