// Projections built from two tokenizers, and the numbers of NeMo-RL's tools.

#include "core/distill/projection_build.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "core/base/json.h"
#include "core/base/zip_archive.h"
#include "core/distill/projection_nemo.h"
#include "core/distill/projection_specials.h"
#include "core/text/tokenizer/token_bytes.h"
#include "tests/core/text/tokenizer/small_tokenizer.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"
#include "tests/tree.h"

namespace xrun::projection_build_test {
namespace {

// Names and weights of a row.
std::string row_of(const Projection& p, const Tokenizer& teacher, int32_t row) {
  std::string out;
  for (int64_t i = p.begin[size_t(row)]; i < p.begin[size_t(row) + 1]; ++i) {
    out += fmt::format("{} {:.4f};", teacher.piece(p.id[size_t(i)]), p.weight[size_t(i)]);
  }
  return out;
}

double row_sum(const Projection& p, int64_t row) {
  double sum = 0;
  for (int64_t i = p.begin[size_t(row)]; i < p.begin[size_t(row) + 1]; ++i) {
    sum += double(p.weight[size_t(i)]);
  }
  return sum;
}

const char* const kNames[] = {"smol",    "llama2", "llama3", "deepseek",   "metaspace",
                              "unigram", "o200k",  "sp_bpe", "sp_unigram", "wordpiece"};

TEST(BuildProjection, ATokenizerOntoItselfIsTheIdentity) {
  for (const char* name : {"smol", "llama2", "deepseek", "unigram"}) {
    const auto t = small_tokenizer(name);
    const Projection p = build_projection(*t, *t);
    for (int32_t row = 0; row < p.student_vocab; ++row) {
      if (t->piece(row).empty()) continue;
      ASSERT_EQ(p.row_size(row), 1) << name << " " << row;
      EXPECT_EQ(p.id[size_t(p.begin[size_t(row)])], row) << name;
      EXPECT_EQ(p.weight[size_t(p.begin[size_t(row)])], 1.0f) << name;
    }
  }
}

TEST(BuildProjection, OnlyPairsOfEqualBytesHaveWeightOne) {
  for (const char* student_name : kNames) {
    for (const char* teacher_name : kNames) {
      const auto student = small_tokenizer(student_name), teacher = small_tokenizer(teacher_name);
      const Projection p = build_projection(*student, *teacher);
      const TokenBytes mine(*student), theirs(*teacher);
      for (const auto& [s, t] : exact_map(p, 1.0)) {
        if (student->is_special(s)) continue;
        EXPECT_EQ(mine.of(s), theirs.of(t)) << student_name << " " << teacher_name << " " << s;
      }
      for (int64_t row = 0; row < p.student_vocab; ++row) {
        const double sum = row_sum(p, row);
        EXPECT_TRUE(sum == 0 || std::abs(sum - 1) < 1e-6 || std::abs(sum - 0.9) < 1e-6)
            << student_name << " " << teacher_name << " " << row << " " << sum;
        EXPECT_LE(p.row_size(row), 4);
      }
    }
  }
}

TEST(BuildProjection, BothSpellingsOfASpacePair) {
  const auto smol = small_tokenizer("smol"), llama = small_tokenizer("llama2");
  const Projection p = build_projection(*smol, *llama);
  EXPECT_EQ(row_of(p, *llama, *smol->id_of("\u0120the")), "\u2581the 1.0000;");
  EXPECT_EQ(row_of(build_projection(*llama, *smol), *smol, *llama->id_of("\u2581the")),
            "\u0120the 1.0000;");
}

TEST(BuildProjection, AByteTokenDoesNotTakeTheTokenOfItsCharacter) {
  const auto smol = small_tokenizer("smol"), llama = small_tokenizer("llama2");
  const Projection p = build_projection(*llama, *smol);
  EXPECT_EQ(row_of(p, *smol, *llama->id_of("A")), "A 1.0000;");
  EXPECT_EQ(row_of(p, *smol, *llama->id_of("<0x41>")), "");
  // A byte that no piece spells is written with its byte token.
  EXPECT_EQ(row_of(p, *smol, *llama->id_of("<0x0A>")), "\u010A 1.0000;");
}

// A tokenizer of the tree with a tokenizer_config.json that names its roles.
std::shared_ptr<const Tokenizer> with_roles(const ScratchFolder& folder, const std::string& name,
                                            const std::string& config) {
  std::filesystem::create_directories(folder / name);
  std::filesystem::copy_file(source_path("tests/data/tokenizers/" + name + "/tokenizer.json"),
                             folder / (name + "/tokenizer.json"));
  put_text(folder / (name + "/tokenizer_config.json"), config);
  return Tokenizer::load(folder / name);
}

TEST(BuildProjection, SpecialTokensPairBySpellingThenByRole) {
  const ScratchFolder folder;
  const auto smol = with_roles(folder, "smol", R"({"eos_token": "<|im_end|>"})");
  const auto llama = with_roles(folder, "llama2", R"({"eos_token": "</s>", "bos_token": "<s>"})");
  const auto deepseek = small_tokenizer("deepseek");
  const int32_t end = *smol->id_of("<|im_end|>"), start = *smol->id_of("<|im_start|>");
  const Projection p = build_projection(*smol, *llama);
  EXPECT_EQ(row_of(p, *llama, end), "</s> 1.0000;");
  EXPECT_EQ(row_of(p, *llama, start), "");
  EXPECT_EQ(row_of(build_projection(*smol, *llama, {.specials = false}), *llama, end), "");
  EXPECT_EQ(row_of(build_projection(*smol, *deepseek), *deepseek, *smol->id_of("<|endoftext|>")),
            "<|endoftext|> 1.0000;");
}

TEST(BuildProjection, SeveralTokensHaveFallingWeights) {
  EXPECT_EQ(spelling_weights(1), (std::vector<double>{1}));
  const std::vector<double> weights = spelling_weights(4);
  EXPECT_NEAR(weights[0], 0.90009, 1e-5);
  EXPECT_NEAR(weights[1], 0.090009, 1e-6);
  EXPECT_NEAR(weights[3], 0.00009001 * 10, 1e-6);
  EXPECT_NEAR(spelling_weights(2)[0], 0.9090909, 1e-7);
}

TEST(BuildProjection, RowsAreCutToTopKAndFallingInWeight) {
  const auto smol = small_tokenizer("smol"), llama = small_tokenizer("llama2");
  const Projection one = build_projection(*smol, *llama, {.top_k = 1});
  const Projection two = build_projection(*smol, *llama, {.top_k = 2, .exact = false});
  EXPECT_EQ(
      one.entries(), build_projection(*smol, *llama).student_vocab - [&] {
        int64_t empty = 0;
        for (int64_t r = 0; r < one.student_vocab; ++r) {
          empty += one.row_size(r) == 0;
        }
        return empty;
      }());
  for (int64_t row = 0; row < two.student_vocab; ++row) {
    EXPECT_LE(two.row_size(row), 2);
    for (int64_t i = two.begin[size_t(row)] + 1; i < two.begin[size_t(row) + 1]; ++i) {
      EXPECT_LE(two.weight[size_t(i)], two.weight[size_t(i) - 1]);
    }
  }
}

TEST(BuildProjection, TheReversePassAddsTheTeachersTokens) {
  const auto smol = small_tokenizer("smol"), llama = small_tokenizer("llama2");
  const Projection both = build_projection(*smol, *llama, {.top_k = 8});
  const Projection one = build_projection(*smol, *llama, {.top_k = 8, .reverse = false});
  EXPECT_GT(both.entries(), one.entries());
}

TEST(BuildProjection, IsDeterministic) {
  const auto smol = small_tokenizer("smol"), llama = small_tokenizer("llama2");
  const Projection a = build_projection(*smol, *llama), b = build_projection(*smol, *llama);
  EXPECT_EQ(a.id, b.id);
  EXPECT_EQ(a.weight, b.weight);
}

std::string base64(std::string_view text) {
  std::string out;
  uint32_t bits = 0;
  int have = 0;
  for (const char c : text) {
    const int value = c >= 'A' && c <= 'Z'   ? c - 'A'
                      : c >= 'a' && c <= 'z' ? c - 'a' + 26
                      : c >= '0' && c <= '9' ? c - '0' + 52
                      : c == '+'             ? 62
                      : c == '/'             ? 63
                                             : -1;
    if (value < 0) break;
    bits = bits << 6 | uint32_t(value);
    have += 6;
    if (have >= 8) {
      have -= 8;
      out.push_back(char(bits >> have));
    }
  }
  return out;
}

ProjectionOptions options_of(const Json& golden) {
  ProjectionOptions options;
  options.nemo = true;
  options.top_k = golden.at("top_k").as_int();
  options.prep_top_k = golden.at("prep_top_k").as_int();
  for (const Json& name : golden.at("switches").as_array()) {
    if (name.as_string() == "--use-canonicalization") options.canonical = true;
    if (name.as_string() == "--disable-scale-trick") options.scale_trick = false;
    if (name.as_string() == "--disable-reverse-pass") options.reverse = false;
    if (name.as_string() == "--disable-special-token-mapping") options.specials = false;
  }
  return options;
}

TEST(NemoProjection, MatchesNemoRlsTools) {
  const Json goldens = read_json(source_path("tests/golden/projections.json"));
  for (const Json& golden : goldens.as_array()) {
    const std::string student = golden.at("student").as_string(),
                      teacher = golden.at("teacher").as_string();
    const DenseProjection dense =
        nemo_projection(*small_tokenizer(student), *small_tokenizer(teacher), options_of(golden));
    ASSERT_EQ(dense.rows, golden.at("rows").as_int());
    const std::string ids = base64(golden.at("ids").as_string()),
                      weights = base64(golden.at("weights").as_string());
    ASSERT_EQ(ids.size(), dense.id.size() * 4);
    ASSERT_EQ(weights.size(), dense.weight.size() * 2);
    int64_t different = 0;
    for (size_t i = 0; i < dense.id.size(); ++i) {
      int32_t id = 0;
      std::memcpy(&id, ids.data() + 4 * i, 4);
      uint32_t bits = 0;
      std::memcpy(reinterpret_cast<char*>(&bits) + 2, weights.data() + 2 * i, 2);
      float weight = 0;
      std::memcpy(&weight, &bits, 4);
      if (dense.id[i] == id && dense.weight[i] == weight) continue;
      if (++different > 5) continue;
      ADD_FAILURE() << student << " -> " << teacher << " row " << int64_t(i) / dense.columns << "["
                    << int64_t(i) % dense.columns << "]: got " << dense.id[i] << " "
                    << dense.weight[i] << ", wanted " << id << " " << weight;
    }
    EXPECT_EQ(different, 0) << student << " -> " << teacher;
  }
}

// Llama 2 and GPT-2: 32,000 x 50,257, of which the tools make a dense matrix of 3.2 GB.
TEST(NemoProjection, MatchesNemoRlsToolsForRealTokenizers) {
  const char* set = std::getenv("XRUN_TEST_DATA");
  const std::filesystem::path data =
      std::filesystem::path(set != nullptr ? set : source_path("../shared/data")) / "tokenizers";
  if (!std::filesystem::exists(data / "llama2")) GTEST_SKIP() << "needs the shared tokenizers";
  ProjectionOptions options;
  options.nemo = true;
  const DenseProjection dense =
      nemo_projection(*Tokenizer::load(data / "llama2"), *Tokenizer::load(data / "gpt2"), options);
  const std::vector<int32_t> ids(dense.id.begin(), dense.id.end());
  std::vector<uint16_t> weights;
  for (const float weight : dense.weight) {
    weights.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(weight) >> 16));
  }
  const auto crc = [](const auto& list) {
    return zip_crc32({reinterpret_cast<const char*>(list.data()), list.size() * sizeof list[0]});
  };
  EXPECT_EQ(crc(ids), 4242452167u);
  EXPECT_EQ(crc(weights), 383235688u);
}

// 706 rows of so many entries are 166 beyond 2^64.
TEST(NemoProjection, RowsOfMoreEntriesThanAnyVocabularyHasAreRefused) {
  const auto smol = small_tokenizer("smol"), llama = small_tokenizer("llama2");
  const int64_t many = 26128532682308147;
  ASSERT_EQ(uint64_t(smol->vocab_size()) * uint64_t(many), 166u);
  for (const ProjectionOptions& options : {ProjectionOptions{.top_k = many, .nemo = true},
                                           ProjectionOptions{.nemo = true, .prep_top_k = many}}) {
    EXPECT_EQ(error_of([&] { build_projection(*smol, *llama, options); }),
              "a projection of NeMo-RL: 26128532682308147 entries of a row, wanted 1 to 1048576; "
              "change --top-k or --prep-top-k");
  }
}

// NeMo-RL's scale trick gives up to 28.6 % of a row of two tokens to a meaningless one.
TEST(NemoProjection, TheScaleTrickCountsALastColumnTwice) {
  const Json golden = read_json(source_path("tests/golden/projections.json")).as_array()[0];
  const DenseProjection dense =
      nemo_projection(*small_tokenizer("deepseek"), *small_tokenizer("llama2"), options_of(golden));
  int64_t doubled = 0;
  for (int64_t row = 0; row < dense.rows; ++row) {
    const auto at = size_t(row * dense.columns);
    for (size_t k = 0; k + 1 < size_t(dense.columns); ++k) {
      doubled += dense.id[at + k] >= 0 && dense.id[at + k] == dense.id[at + 3];
    }
  }
  EXPECT_GT(doubled, 100);
}

// Values of Python 3.11's difflib.
TEST(SpecialSimilarity, CombinesDifflibAndWordSimilarity) {
  EXPECT_NEAR(special_similarity("<s>", "</s>"), 0.6 * 6 / 7, 1e-12);
  EXPECT_NEAR(special_similarity("<think>", "<think>"), 1.0, 1e-12);
  EXPECT_NEAR(special_similarity("<|im_start|>", "<|im_end|>"), 0.6 * 14 / 22, 1e-12);
  EXPECT_NEAR(special_similarity("<|endoftext|>", "<|end_of_text|>"), 0.6 * 26 / 28 + 0.4 * 0,
              1e-12);
}

}  // namespace
}  // namespace xrun::projection_build_test
