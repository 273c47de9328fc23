// Teacher's encodings of a student's tokens: both sides of every chunk spell the same bytes.

#include "core/align/retokenizer.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <utility>

#include "core/align/token_table.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "tests/core/align/piece_tokenizer.h"
#include "tests/core/align/two_tokenizers.h"
#include "tests/error_of.h"

namespace xrun::retokenizer_test {
namespace {

using Retokenizers = TwoTokenizers;

TEST_F(Retokenizers, BothSidesOfAChunkSpellTheSameBytes) {
  const Retokenizer retokenizer(pieces(), bytes());
  EXPECT_FALSE(retokenizer.same_vocabulary());
  for (const std::string text :
       {"Albury is a town on the Cold Water with 9281 people.",
        "naïve café, 中文 and 🙂🙂!", "\n\n  tabs\tand\r\nlines  ", "a"}) {
    const std::vector<int32_t> ids = pieces()->encode(text).ids;
    const AlignedDocument aligned = retokenizer.align(ids);
    check_alignment(aligned.pairs, std::ssize(ids), std::ssize(aligned.teacher_ids));
    EXPECT_EQ(bytes()->decode(aligned.teacher_ids), text);
    for (const AlignedPair& pair : aligned.pairs) {
      EXPECT_TRUE(pair.correct) << text;
      EXPECT_EQ(spelled(*pieces(), ids, pair.s_begin, pair.s_end),
                spelled(*bytes(), aligned.teacher_ids, pair.t_begin, pair.t_end));
    }
    EXPECT_EQ(walk_tokens(retokenizer.student_table(), ids, retokenizer.teacher_table(),
                          aligned.teacher_ids),
              aligned.pairs);
  }
}

TEST_F(Retokenizers, AnEndOfTextBecomesTheTeachersOwn) {
  const Retokenizer retokenizer(pieces(), bytes());
  std::vector<int32_t> ids = pieces()->encode("a town").ids;
  ids.push_back(*pieces()->eos_id());
  const AlignedDocument aligned = retokenizer.align(ids);
  EXPECT_EQ(aligned.teacher_ids.back(), *bytes()->eos_id());
  EXPECT_EQ(aligned.pairs.back(), (AlignedPair{.s_begin = static_cast<int32_t>(ids.size()) - 1,
                                               .s_end = static_cast<int32_t>(ids.size()),
                                               .t_begin = 6,
                                               .t_end = 7,
                                               .correct = true}));
}

// A window or a sampled answer may end inside a character.
TEST_F(Retokenizers, BytesThatAreNotACharacterHaveNoPartner) {
  const Retokenizer retokenizer(bytes(), pieces());
  const std::string smile = "🙂";
  const std::string text =
      smile.substr(2) + "town" + smile.substr(0, 3) + "hill" + smile + smile.substr(0, 1);
  std::vector<int32_t> ids;
  for (const char byte : text) ids.push_back(static_cast<uint8_t>(byte));
  const AlignedDocument aligned = retokenizer.align(ids);
  check_alignment(aligned.pairs, std::ssize(ids), std::ssize(aligned.teacher_ids));
  EXPECT_EQ(pieces()->decode(aligned.teacher_ids), "townhill" + smile);
  int64_t covered = 0, orphans = 0;
  for (const AlignedPair& pair : aligned.pairs) {
    if (pair.correct) covered += pair.s_end - pair.s_begin;
    if (pair.t_begin < 0) ++orphans;
  }
  EXPECT_EQ(covered, 4 + 4 + 4);
  EXPECT_EQ(orphans, 2 + 3 + 1);
}

// Neither side is exact for all texts, as SmolLM2's tokenizer, which lacks some control characters.
TEST_F(Retokenizers, SampledTokensPairWhereAMissingByteDoesNotOccur) {
  const auto student = piece_tokenizer({"t", "o", "w", "n", " ", "to", "x"});
  const auto teacher = piece_tokenizer({"t", "o", "w", "n", " "});
  const Retokenizer retokenizer(student, teacher);
  ASSERT_FALSE(retokenizer.student_table().exact() || retokenizer.teacher_table().exact());
  const std::vector<int32_t> ids = ids_of_pieces(*student, {"to", "w", "n", " ", "to"});
  ASSERT_NE(ids, student->encode("town to").ids) << "the student itself would not choose them";
  for (const AlignedDocument& aligned :
       {retokenizer.align(ids), retokenizer.align_answer(ids, std::nullopt)}) {
    ASSERT_EQ(aligned.pairs.size(), ids.size());
    for (const AlignedPair& pair : aligned.pairs) EXPECT_TRUE(pair.correct);
    EXPECT_EQ(teacher->decode(aligned.teacher_ids), "town to");
  }
  const AlignedDocument lost = retokenizer.align(ids_of_pieces(*student, {"to", "x", "n"}));
  ASSERT_EQ(lost.pairs.size(), 2u);
  EXPECT_TRUE(lost.pairs[0].correct);
  EXPECT_EQ(lost.pairs[1].s_end, 3) << "the teacher has no x: it belongs to the next token";
}

// Qwen's tokenizer normalises, SmolLM2's lacks some bytes, Llama 2's takes U+2581 for a space.
TEST_F(Retokenizers, WindowsAndTokensThatNoEncodingWouldChooseKeepTheirPartners) {
  const char* const set = std::getenv("XRUN_TEST_DATA");
  const std::filesystem::path data = set != nullptr ? set : source_path("../shared/data");
  std::vector<std::pair<std::string, std::shared_ptr<const Tokenizer>>> all = {{"pieces", pieces()},
                                                                               {"bytes", bytes()}};
  for (const auto& dir :
       {std::filesystem::path(source_path("tests/data/tokenizers/smol")), data / "tokenizers/gpt2",
        data / "tokenizers/llama2", data / "tokenizers/qwen"}) {
    if (std::filesystem::exists(dir)) all.emplace_back(dir.filename(), Tokenizer::load(dir));
  }
  const std::string text =
      "Albury is a town on the Cold Water; 中文分词, naïve café, 🙂🙂 and 9281 people \u2581 here.";
  for (const auto& [student_name, student] : all) {
    std::vector<int32_t> ids = student->encode(text).ids;
    const auto letters = student->encode("w").ids;  // "w" and "n" follow "to" in no encoding
    ids.insert(ids.begin() + 3, letters.begin(), letters.end());
    for (const auto& [teacher_name, teacher] : all) {
      const Retokenizer retokenizer(student, teacher);
      if (retokenizer.same_vocabulary()) continue;
      // Windows begin inside words and end before the text's end.
      for (const size_t begin : {0, 1, 2, 4}) {
        const std::vector<int32_t> window(ids.begin() + static_cast<int64_t>(begin),
                                          ids.begin() + static_cast<int64_t>(ids.size() / 2));
        int64_t covered = 0;
        for (const AlignedPair& pair : retokenizer.align_answer(window, std::nullopt).pairs) {
          if (pair.correct) covered += pair.s_end - pair.s_begin;
        }
        // A character that is cut has no partner.
        EXPECT_GE(covered, std::ssize(window) - 3)
            << student_name << " to " << teacher_name << " from " << begin;
      }
    }
  }
}

TEST_F(Retokenizers, ATextLongerThanTheTeacherReadsIsCutAtTheLastPair) {
  const std::vector<int32_t> ids = pieces()->encode("a town on the Cold Water").ids;
  const AlignedDocument whole = Retokenizer(pieces(), bytes()).align(ids);
  const AlignedDocument cut = Retokenizer(pieces(), bytes(), {.limit = 10}).align(ids);
  ASSERT_FALSE(cut.pairs.empty());
  EXPECT_LT(cut.pairs.size(), whole.pairs.size());
  EXPECT_LE(cut.teacher_ids.size(), 10u);
  EXPECT_EQ(cut.pairs.back().t_end, std::ssize(cut.teacher_ids));
  EXPECT_GT(whole.pairs[cut.pairs.size()].t_end, 10) << "the next pair does not fit";
  EXPECT_TRUE(std::equal(cut.pairs.begin(), cut.pairs.end(), whole.pairs.begin()));
  EXPECT_EQ(cut.covered, cut.pairs.back().s_end);
  EXPECT_EQ(whole.covered, -1);
}

TEST_F(Retokenizers, AreLimitedToShortPairsAndLeaveSpecialTokensAloneIfAsked) {
  std::vector<int32_t> ids = pieces()->encode("a town").ids;
  ids.push_back(*pieces()->eos_id());
  const AlignedDocument all = Retokenizer(pieces(), bytes()).align(ids);
  const AlignedDocument some =
      Retokenizer(pieces(), bytes(), {.walk = {.pair_specials = false, .max_span = 2}}).align(ids);
  EXPECT_TRUE(all.pairs.back().correct);
  EXPECT_EQ(some.pairs.back(),
            (AlignedPair{int32_t(std::ssize(ids)) - 1, int32_t(std::ssize(ids)), -1, -1, false}));
  for (size_t i = 0; i + 1 < some.pairs.size(); ++i) {
    const AlignedPair& pair = some.pairs[i];
    EXPECT_EQ(pair.correct, pair.t_end - pair.t_begin <= 2 && pair.s_end - pair.s_begin <= 2);
  }
  EXPECT_NE(Retokenizer(pieces(), bytes(), {.walk = {.max_span = 2}}).made_by(),
            Retokenizer(pieces(), bytes()).made_by());
}

TEST_F(Retokenizers, NameAnIdOutOfRangeAndAMissingTokenizer) {
  const Retokenizer retokenizer(pieces(), bytes());
  EXPECT_EQ(error_of([&] {
              retokenizer.align(std::vector<int32_t>{1, 5000});
            }),
            "align: token 1 of the student is 5000, its tokenizer has 2048 ids");
  EXPECT_EQ(error_of([&] { Retokenizer(pieces(), nullptr); }),
            "an alignment needs the tokenizers of student and teacher");
  EXPECT_TRUE(Retokenizer(pieces(), pieces()).same_vocabulary());
}

TEST_F(Retokenizers, AnAnswerIsAlignedByTheBytesOfTheIdsThatWereSampled) {
  const Retokenizer retokenizer(pieces(), bytes());
  // No tokenizer would spell the text so.
  std::vector<int32_t> ids;
  for (const char letter : std::string("the town")) {
    ids.push_back(pieces()->encode(std::string(1, letter)).ids.front());
  }
  ASSERT_NE(ids, pieces()->encode("the town").ids);
  const AlignedDocument answer = retokenizer.align_answer(ids);
  EXPECT_EQ(bytes()->decode(answer.teacher_ids), "the town");
  ASSERT_EQ(answer.pairs.size(), ids.size());
  for (const AlignedPair& pair : answer.pairs) EXPECT_TRUE(pair.correct);
}

TEST_F(Retokenizers, TheTokenThatEndedAnAnswerPairsWithTheEndOfATurn) {
  const Retokenizer retokenizer(pieces(), bytes());
  std::vector<int32_t> ids = pieces()->encode("a town").ids;
  ids.push_back(*pieces()->eos_id());
  constexpr int32_t kPadding = 256;
  const AlignedDocument answer = retokenizer.align_answer(ids, kPadding);
  EXPECT_EQ(answer.teacher_ids.back(), kPadding);
  EXPECT_TRUE(answer.pairs.back().correct);
  EXPECT_EQ(answer.pairs.back().s_end, std::ssize(ids));
  // An answer that was cut off ends with text.
  ids.pop_back();
  EXPECT_EQ(bytes()->decode(retokenizer.align_answer(ids, kPadding).teacher_ids), "a town");
}

TEST_F(Retokenizers, SampledBytesThatAreNoTextAreReadByteByByte) {
  const Retokenizer retokenizer(bytes(), pieces());
  const std::string smile = "🙂";
  const std::string text = smile.substr(2) + "town" + smile.substr(0, 3) + "hill" + smile;
  std::vector<int32_t> ids;
  for (const char byte : text) ids.push_back(static_cast<uint8_t>(byte));
  const auto check = [&](size_t unpaired) {
    const AlignedDocument answer = retokenizer.align_answer(ids);
    check_alignment(answer.pairs, std::ssize(ids), std::ssize(answer.teacher_ids));
    size_t paired = 0;
    for (const AlignedPair& pair : answer.pairs) {
      if (pair.s_begin < 0 || pair.t_begin < 0) continue;
      EXPECT_TRUE(pair.correct);
      paired += static_cast<size_t>(pair.s_end - pair.s_begin);
    }
    EXPECT_EQ(paired, ids.size() - unpaired);
    EXPECT_EQ(spelled(*pieces(), answer.teacher_ids, 0, std::ssize(answer.teacher_ids)),
              spelled(*bytes(), ids, 0, std::ssize(ids) - static_cast<int32_t>(unpaired)));
  };
  check(0);
  ids.pop_back();
  check(3);  // cut off within its last character
  ids.push_back(*bytes()->eos_id());
  EXPECT_EQ(retokenizer.align_answer(ids, 0).pairs.back().t_begin,
            std::ssize(retokenizer.align_answer(ids, 0).teacher_ids) - 1);
}

TEST_F(Retokenizers, SampledIdsBeyondTheVocabularyHaveNoPartner) {
  const Retokenizer retokenizer(bytes(), pieces());
  const std::vector<int32_t> ids = {'a', 5000, 'b'};
  const AlignedDocument answer = retokenizer.align_answer(ids);
  EXPECT_EQ(pieces()->decode(answer.teacher_ids), "ab");
  ASSERT_EQ(answer.pairs.size(), 3u);
  EXPECT_TRUE(answer.pairs[0].correct && answer.pairs[2].correct);
  EXPECT_EQ(answer.pairs[1].t_begin, -1);
}

TEST_F(Retokenizers, ATeacherWithMoreTokensReadsTheStudentsOwn) {
  const ScratchFolder folder;
  write_bytes_tokenizer(folder.path());
  Json json = read_json((folder.path() / "tokenizer.json").string());
  Json more = json.at("added_tokens").as_array().back();
  more.set("id", int64_t{259});
  more.set("content", "<|tool|>");
  Json added = json.at("added_tokens");
  added.push_back(more);
  json.set("added_tokens", added);
  write_file_atomic(folder.path() / "tokenizer.json", dump_json(json));
  const auto extended = Tokenizer::load(folder.path());
  EXPECT_TRUE(Retokenizer(bytes(), extended).same_vocabulary());
  // A student with more tokens may use them, so it is aligned by bytes.
  EXPECT_FALSE(Retokenizer(extended, bytes()).same_vocabulary());
}

}  // namespace
}  // namespace xrun::retokenizer_test
