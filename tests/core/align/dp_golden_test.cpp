// DpAligner against NeMo-RL's own aligner (tests/golden/make/make_dp_alignments.py).

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/align/dp_align.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/json.h"
#include "core/base/utf8.h"
#include "core/text/tokenizer/tokenizer.h"
#include "tests/core/text/tokenizer/generated_strings.h"
#include "tests/tree.h"

namespace xrun::dp_golden_test {
namespace {

const Json& goldens() {
  static const Json json = read_json(source_path("tests/golden/dp_alignments.json"));
  return json;
}

// Writes pairs as the maker does: "1:1x37 1:2 0:1!".
std::string pairs_text(const Alignment& pairs) {
  std::vector<std::pair<std::string, int>> runs;
  for (const AlignedPair& pair : pairs) {
    std::string part = fmt::format("{}:{}{}", pair.s_end - pair.s_begin, pair.t_end - pair.t_begin,
                                   pair.correct ? "" : "!");
    if (runs.empty() || runs.back().first != part) runs.push_back({std::move(part), 0});
    ++runs.back().second;
  }
  std::string text;
  for (const auto& [part, count] : runs) {
    if (!text.empty()) text += ' ';
    text += count == 1 ? part : fmt::format("{}x{}", part, count);
  }
  return text;
}

std::string aligned(const std::vector<std::string_view>& student,
                    const std::vector<std::string_view>& teacher, const DpOptions& options = {}) {
  const Alignment pairs = DpAligner(options).align(student, teacher);
  check_alignment(pairs, int64_t(student.size()), int64_t(teacher.size()));
  return pairs_text(pairs);
}

std::vector<std::string_view> views(const Json& strings) {
  std::vector<std::string_view> out;
  for (const Json& each : strings.as_array()) out.push_back(each.as_string());
  return out;
}

TEST(DpGolden, AnAlignerOfManySequencesGivesThePairsOfEach) {
  DpAligner aligner;
  for (int round = 0; round < 2; ++round) {
    for (const Json& row : goldens().at("named").as_array()) {
      const std::vector<std::string_view> s = views(row.as_array()[1]),
                                          t = views(row.as_array()[2]);
      EXPECT_EQ(pairs_text(aligner.align(s, t)), row.as_array()[3].as_string());
    }
  }
}

TEST(DpGolden, NamedCasesEqualTheReferences) {
  EXPECT_GT(goldens().at("named").size(), 20u);
  for (const Json& row : goldens().at("named").as_array()) {
    const auto& [name, student, teacher, pairs] =
        std::tie(row.as_array()[0], row.as_array()[1], row.as_array()[2], row.as_array()[3]);
    EXPECT_EQ(aligned(views(student), views(teacher)), pairs.as_string()) << name.as_string();
  }
}

TEST(DpGolden, RandomPiecesOfSmallAlphabetsAlignAsInTheReference) {
  const auto& alphabets = goldens().at("alphabets").as_array();
  const auto& cases = goldens().at("random").as_array();
  EXPECT_EQ(cases.size(), 4000u);
  int wrong = 0;
  for (const Json& row : cases) {
    // "7 4 abcb|acb|1:1 1:0! ..."
    const std::string& text = row.as_string();
    const std::vector<std::string_view> letters = views(alphabets[size_t(text[0] - '0')]);
    std::vector<std::string_view> sides[2];
    size_t at = 4;
    for (auto& side : sides) {
      for (; text[at] != '|'; ++at) side.push_back(letters[size_t(text[at] - 'a')]);
      ++at;
    }
    DpOptions options;
    options.max_combination = text[2] - '0';
    const std::string pairs = aligned(sides[0], sides[1], options);
    if (pairs != text.substr(at) && ++wrong <= 10) ADD_FAILURE() << text << "\ngot " << pairs;
  }
  EXPECT_EQ(wrong, 0);
}

TEST(DpGolden, SequencesOfRealTokenizersAlignAsInTheReference) {
  const auto& rows = goldens().at("in_full").as_array();
  EXPECT_GT(rows.size(), 200u);
  for (const Json& row : rows) {
    EXPECT_EQ(aligned(views(row.as_array()[1]), views(row.as_array()[2])),
              row.as_array()[3].as_string())
        << "sequence " << row.as_array()[0].as_int();
  }
}

std::filesystem::path shared_data() {
  const char* set = std::getenv("XRUN_TEST_DATA");
  return set != nullptr ? set : source_path("../shared/data");
}

// The sequences of tests/golden/make/alignment_texts.py, draw by draw.
class AlignmentTexts {
 public:
  struct Sequence {
    std::string student, teacher, text;
    bool special;
  };
  AlignmentTexts()
      : files_{read_file((shared_data() / "text/wiki_en.txt").string()),
               read_file((shared_data() / "text/c4_en.jsonl").string())} {}

  Sequence operator()(uint64_t index) const {
    static constexpr const char* kTokenizers[] = {"gpt2", "llama2", "qwen"};
    GeneratedStrings::Draw draw{1'000'000'000 + index};
    Sequence out;
    const uint64_t student = draw.below(3);
    out.student = kTokenizers[student];
    out.teacher = kTokenizers[(student + 1 + draw.below(2)) % 3];
    out.special = draw.below(4) == 0;
    const uint64_t size = 1 + draw.below(index % 500 == 0 ? 1200 : index % 20 == 0 ? 250 : 40);
    out.text = text_of(draw, size);
    return out;
  }

 private:
  using Draw = GeneratedStrings::Draw;
  static const std::string& pick(const Json& list, Draw& draw) {
    return list.as_array()[draw.below(list.size())].as_string();
  }

  std::string text_of(Draw& draw, uint64_t size) const {
    const uint64_t kind = draw.below(8);
    const auto& fragments = goldens().at("fragments").as_array();
    std::string text;
    if (kind < 2) {
      const std::string& data = files_[kind];
      size_t begin = draw.below(data.size() - 20'000);
      while (is_continuation(data[begin])) ++begin;
      text = data.substr(begin, 4 * size);
      text.resize(text.size() - open_utf8_bytes(text));
    } else if (kind < 6) {
      for (uint64_t i = 0; i < size; ++i) text += pick(fragments[kind - 2], draw);
    } else if (kind == 6) {
      const Json& list = fragments[draw.below(fragments.size())];
      std::vector<std::string> few(1 + draw.below(3));
      for (std::string& one : few) one = pick(list, draw);
      for (uint64_t i = 0; i < size; ++i) text += few[draw.below(few.size())];
    } else {
      for (uint64_t i = 0; i < 1 + size / 20; ++i) text += generated_(draw.below(100'000));
    }
    return text;
  }

  GeneratedStrings generated_;
  std::string files_[2];
};

TEST(DpGolden, SlowTenThousandSequencesOfThreeTokenizersAlignAsInTheReference) {
  if (!std::filesystem::exists(shared_data() / "tokenizers/qwen")) GTEST_SKIP() << "no shared data";
  constexpr uint64_t kBlock = 500;
  const AlignmentTexts texts;
  std::map<std::string, std::shared_ptr<const Tokenizer>> tokenizers;
  for (const char* name : {"gpt2", "llama2", "qwen"}) {
    tokenizers[name] = Tokenizer::load(shared_data() / "tokenizers" / name);
  }
  const auto& digests = goldens().at("digests").as_array();
  ASSERT_EQ(digests.size(), 20u);
  for (uint64_t block = 0; block < digests.size(); ++block) {
    Hasher ids, pairs;
    for (uint64_t index = block * kBlock; index < (block + 1) * kBlock; ++index) {
      const AlignmentTexts::Sequence sequence = texts(index);
      EncodeOptions options;
      options.all_special = true;  // as Hugging Face does
      options.add_post_processor = sequence.special;
      std::vector<std::string_view> pieces[2];
      for (int side = 0; side < 2; ++side) {
        const Tokenizer& tokenizer = *tokenizers.at(side ? sequence.teacher : sequence.student);
        std::string text;
        for (const int32_t id : tokenizer.encode(sequence.text, options).ids) {
          if (!text.empty()) text += ',';
          text += std::to_string(id);
          pieces[side].push_back(tokenizer.piece(id));
        }
        ids.bytes(text + (side ? "\n" : "|"));
      }
      pairs.bytes(aligned(pieces[0], pieces[1]) + "\n");
    }
    EXPECT_EQ(ids.hex().substr(0, 16), digests[block].as_array()[0].as_string())
        << "ids of block " << block;
    EXPECT_EQ(pairs.hex().substr(0, 16), digests[block].as_array()[1].as_string())
        << "pairs of block " << block;
  }
}

}  // namespace
}  // namespace xrun::dp_golden_test
