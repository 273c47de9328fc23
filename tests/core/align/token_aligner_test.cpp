// Pairs of real tokenizers: everything is aligned, whatever the script, by offsets and by bytes.

#include "core/align/token_aligner.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <random>

#include "core/align/alignment_quality.h"
#include "core/text/tokenizer/byte_alphabet.h"
#include "tests/core/align/piece_tokenizer.h"
#include "tests/tree.h"

namespace xrun::token_aligner_test {

namespace {

const std::vector<std::string>& texts() {
  static const std::vector<std::string> all = {
      "The quick brown fox jumps over the lazy dog, 12345 times.",
      "  two spaces first\n\n\tdef f(x):\n        return x ** 2  # indented\n",
      "敏捷的棕色狐狸跳过了懒狗。今天天气很好，我们去公园散步吧！",
      "😀 👩‍👩‍👧‍👦 🏳️‍🌈 flags 🇩🇪🇯🇵 and 🧑🏽‍💻",
      "naïve café, Übergrößenträger, हिन्दी, العربية, 한국어, ру́сский, zürich",
      "\x01\x02 control \x7f and ∑∏∂∇∞√∫≈≠≤≥ 中文",
      "a",
      "你",
      "x▁y",
      "Hel\xff\xfelo \xE4\xBD broken"};
  return all;
}

double coverage_of(const TokenAligner& aligner, const AlignedTokens& aligned) {
  check_alignment(aligned.pairs, int64_t(aligned.student_ids.size()),
                  int64_t(aligned.teacher_ids.size()));
  AlignmentQuality quality;
  quality.add({1, aligner.student(), aligned.student_ids, aligner.teacher(), aligned.teacher_ids,
               aligned.pairs, aligned.findings});
  return quality.coverage();
}

// Returns true if the ids alone say which bytes the text has.
bool spelled_by_ids(const std::string& text) { return text[0] != 'x' && text[0] != 'H'; }

void check_all_texts(const std::shared_ptr<const Tokenizer>& s,
                     const std::shared_ptr<const Tokenizer>& t) {
  const TokenAligner aligner(s, t);
  for (const std::string& text : texts()) {
    const AlignedTokens by_offsets = aligner.text(text);
    EXPECT_EQ(coverage_of(aligner, by_offsets), 1.0) << text;
    if (!aligner.student().exact() || !aligner.teacher().exact() || !spelled_by_ids(text)) continue;
    const AlignedTokens by_bytes = aligner.ids(by_offsets.student_ids, by_offsets.teacher_ids);
    EXPECT_EQ(by_bytes.pairs, by_offsets.pairs) << text;
    EXPECT_EQ(by_bytes.findings.differs_at, -1) << text;
  }
}

TEST(TokenAligner, AlignsEveryTextOfTheSmallTokenizers) {
  std::vector<std::shared_ptr<const Tokenizer>> all;
  for (const char* name :
       {"tiny_tokenizer", "tokenizers/smol", "tokenizers/llama2", "tokenizers/llama3",
        "tokenizers/deepseek", "tokenizers/o200k", "tokenizers/sp_bpe", "tokenizers/unigram"}) {
    all.push_back(Tokenizer::load(source_path(std::string("tests/data/") + name)));
  }
  for (const auto& s : all) {
    for (const auto& t : all) check_all_texts(s, t);
  }
}

// The public vocabularies, on which string alignment covers nothing of a Chinese text.
class PublicTokenizers : public testing::Test {
 protected:
  void SetUp() override {
    const char* set = std::getenv("XRUN_TEST_DATA");
    const std::filesystem::path data = set != nullptr ? set : source_path("../shared/data");
    for (const char* name : {"gpt2", "llama2", "qwen"}) {
      const auto folder = data / "tokenizers" / name;
      if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << folder << " is missing";
      all_.push_back(Tokenizer::load(folder));
    }
  }
  std::vector<std::shared_ptr<const Tokenizer>> all_;
};

TEST_F(PublicTokenizers, SlowCoverEveryText) {
  for (const auto& s : all_) {
    for (const auto& t : all_) check_all_texts(s, t);
  }
}

// Replaces tokens at random by those of their bytes, as a sampler may choose.
std::vector<int32_t> other_segmentation(const Tokenizer& tokenizer, const TokenTable& table,
                                        const std::vector<int32_t>& ids, std::mt19937& random) {
  std::vector<int32_t> out;
  for (size_t k = 0; k < ids.size(); ++k) {
    std::vector<int32_t> bytes;
    for (const char byte : table.bytes(ids[k])) {
      std::string spelled;
      append_spelled(spelled, {&byte, 1});
      if (!table.spelling().byte_level) {
        spelled = fmt::format("<0x{:02X}>", static_cast<unsigned char>(byte));
      }
      bytes.push_back(tokenizer.id_of(spelled).value());
    }
    // The first token of a text may hold the space that is not part of it.
    const bool replace = k > 0 && random() % 3 == 0 && !bytes.empty();
    if (replace) {
      out.insert(out.end(), bytes.begin(), bytes.end());
    } else {
      out.push_back(ids[k]);
    }
  }
  return out;
}

TEST_F(PublicTokenizers, SlowAlignIdsThatNoTokenizerWouldChoose) {
  std::mt19937 random(5);
  for (const auto& s : all_) {
    for (const auto& t : all_) {
      const TokenAligner aligner(s, t);
      for (const std::string& text : texts()) {
        if (!spelled_by_ids(text)) continue;
        const auto sampled = other_segmentation(*s, aligner.student(), s->encode(text).ids, random);
        const AlignedTokens aligned = aligner.ids(sampled, t->encode(text).ids);
        EXPECT_EQ(coverage_of(aligner, aligned), 1.0) << text;
      }
    }
  }
}

TEST_F(PublicTokenizers, SpecialsOfAPostProcessorPairByRole) {
  const TokenAligner aligner(all_[1], all_[1]);
  const AlignedTokens same = aligner.text("Hello", true);
  EXPECT_EQ(aligner.vocabularies(), VocabularyMatch::kEqual);
  EXPECT_EQ(same.pairs, identity_alignment(int64_t(same.student_ids.size())));
  // Qwen has an end of text, and no beginning.
  const TokenAligner other(all_[1], all_[2]);
  const std::vector<int32_t> s = {1, *all_[1]->id_of("▁Hello"), 2};
  const std::vector<int32_t> t = {*all_[2]->id_of("Hello"), *all_[2]->eos_id()};
  EXPECT_EQ(other.ids(s, t).pairs,
            (Alignment{{0, 1, -1, -1, false}, {1, 2, 0, 1, true}, {2, 3, 1, 2, true}}));
}

TEST(TokenAligner, EqualIdsOfEqualVocabulariesPairOneByOne) {
  const auto one = piece_tokenizer({"a", "b", "ab"}, {{"<s>", "bos_token"}});
  const auto two = piece_tokenizer({"a", "b", "ab"}, {{"<s>", "bos_token"}, {"<new>", ""}});
  const TokenAligner aligner(one, two);
  EXPECT_EQ(aligner.vocabularies(), VocabularyMatch::kExtended);
  // An id without a piece is otherwise an orphan.
  const std::vector<int32_t> ids = {3, 0, 1 << 20, 2};
  EXPECT_EQ(aligner.ids(ids, ids).pairs, identity_alignment(4));
  EXPECT_EQ(aligner.ids(std::vector<int32_t>{2}, std::vector<int32_t>{0, 1}).pairs,
            (Alignment{{0, 1, 0, 2, true}}));
}

TEST(TokenAligner, NormalisingTokenizersAlignByOffsets) {
  const auto words = Tokenizer::load(source_path("tests/data/tokenizers/wordpiece"));
  const auto bytes = Tokenizer::load(source_path("tests/data/tiny_tokenizer"));
  const TokenAligner aligner(bytes, words);
  const AlignedTokens aligned = aligner.text("The THE the");
  check_alignment(aligned.pairs, int64_t(aligned.student_ids.size()),
                  int64_t(aligned.teacher_ids.size()));
  for (const AlignedPair& pair : aligned.pairs) EXPECT_GE(pair.t_begin, 0);
  EXPECT_EQ(aligned.pairs.back().s_end, 11);
}

}  // namespace

}  // namespace xrun::token_aligner_test
