// A text that is tokenised in parts, cut at safe split points, has the tokens of the whole.

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/interrupt.h"
#include "core/base/json.h"
#include "core/text/tokenizer/tokenizer.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"
#include "tests/tree.h"

namespace xrun::tokenizer_encode_test {

namespace {

const std::filesystem::path kTokenizers = source_path("tests/data/tokenizers");

// Returns words with all odd neighbours that a split point may have.
std::string drawn_text(uint64_t seed) {
  static constexpr const char* kPieces[] = {
      "the",  "New York", "of",     "a",    "B",   "don't", "'s",     "'", "é",       "e\u0301",
      "字典", "привет",   "Й",      "한국", "12",  "2024",  ".",      ",", "。",      "-",
      "<s>",  "</s>",     "[MASK]", "<",    "\"",  "/",     "\u2581", "(", "<think>", "İ",
      "ﬁ",    "\ufe70",   "\u00ad", "\x01", "...", "t N",   "q'",     "ß", "Σ",       "\U0001F600"};
  static constexpr const char* kBlanks[] = {" ",    " ",  " ",    " ",    " ",      "\n", "\n",
                                            "\n\n", "  ", "\r\n", " \n ", "\u00a0", "",   "\t"};
  std::string out;
  for (int i = 0; i < 60; ++i) {
    seed = seed * 6364136223846793005 + 1442695040888963407;
    out += kPieces[(seed >> 33) % std::size(kPieces)];
    out += kBlanks[(seed >> 45) % std::size(kBlanks)];
  }
  return out;
}

Encoding in_parts(const Tokenizer& tokenizer, const std::string& text, const EncodeOptions& options,
                  size_t part_bytes) {
  Encoding out;
  const auto take = [&](Encoding&& part) {
    out.ids.insert(out.ids.end(), part.ids.begin(), part.ids.end());
    out.offsets.insert(out.offsets.end(), part.offsets.begin(), part.offsets.end());
  };
  out.replaced = tokenizer.encode_parts(text, options, take, part_bytes);
  return out;
}

void expect_same(const Tokenizer& tokenizer, const std::string& what, uint64_t texts) {
  EncodeOptions options;
  options.all_special = options.add_post_processor = true;
  for (uint64_t seed = 0; seed < texts; ++seed) {
    const std::string text = drawn_text(seed);
    const Encoding whole = in_parts(tokenizer, text, options, SIZE_MAX);
    for (const size_t part_bytes : {size_t{1}, size_t{40}}) {
      const Encoding parts = in_parts(tokenizer, text, options, part_bytes);
      ASSERT_EQ(parts.ids, whole.ids) << what << "\n" << text;
      ASSERT_EQ(parts.offsets, whole.offsets) << what << "\n" << text;
    }
  }
}

TEST(TokenizerEncode, PartsGiveTheTokensOfTheWhole) {
  for (const auto& folder : std::filesystem::directory_iterator(kTokenizers)) {
    expect_same(*Tokenizer::load(folder.path()), folder.path().filename().string(), 40);
  }
}

TEST(TokenizerEncode, PartsGiveTheTokensOfTheWholeForEveryComponent) {
  const Json golden = read_json(source_path("tests/golden/tokenizer_components.json"));
  const ScratchFolder folder;
  for (const Json& row : golden.at("rows").as_array()) {
    const auto base = kTokenizers / row.at("base").as_string() / "tokenizer.json";
    Json json = read_json(base.string());
    for (const auto& [key, value] : row.as_object()) {
      if (key != "base" && key != "hash") json.set(key, value);
    }
    folder.write("tokenizer.json", dump_json(json));
    expect_same(*Tokenizer::load(folder.path()), dump_json(row), 8);
    if (HasFatalFailure()) return;
  }
}

TEST(TokenizerEncode, ALongTextOfWordsIsEncodedInParts) {
  std::string text;
  while (text.size() < 4 * Tokenizer::kPartBytes) text += "word after word\nline after line ";
  for (const char* name :
       {"smol", "llama3", "o200k", "deepseek", "wordpiece", "metaspace", "llama2"}) {
    const auto tokenizer = Tokenizer::load(kTokenizers / name);
    size_t given = 0, most = 0;
    EncodeOptions options;
    options.add_post_processor = true;
    const auto take = [&](Encoding&& part) {
      ++given;
      most = std::max(most, part.ids.size());
    };
    tokenizer->encode_parts(text, options, take);
    EXPECT_GE(given, 2u) << name;
    EXPECT_LE(most, 2 * Tokenizer::kPartBytes) << name;
  }
}

TEST(TokenizerEncode, TheLastPartHasThePostProcessorsTokensAfterTheText) {
  const auto tokenizer = Tokenizer::load(kTokenizers / "wordpiece");
  std::string text;
  while (text.size() < 4 * Tokenizer::kPartBytes) text += "the world of data ";
  EncodeOptions options;
  options.add_post_processor = true;
  std::vector<std::vector<int32_t>> parts;
  tokenizer->encode_parts(text, options, [&](Encoding&& p) { parts.push_back(std::move(p.ids)); });
  ASSERT_GE(parts.size(), 2u);
  const std::vector<int32_t> around = tokenizer->encode("", options).ids;
  ASSERT_EQ(around.size(), 2u);
  EXPECT_EQ(parts.front().front(), around[0]);
  EXPECT_EQ(parts.back().back(), around[1]);
  EXPECT_NE(parts.front().back(), around[1]);
  EXPECT_NE(parts.back().front(), around[0]);
}

TEST(TokenizerEncode, AStripNormalizerKeepsSplitPoints) {
  const ScratchFolder folder;
  Json json = read_json((kTokenizers / "smol/tokenizer.json").string());
  std::string text = " \n ";
  while (text.size() < 2 * Tokenizer::kPartBytes) text += " word after word";
  text += "  ";
  for (const bool left : {false, true}) {
    for (const bool right : {false, true}) {
      json.set("normalizer",
               Json(Json::Object{{"type", "Strip"}, {"strip_left", left}, {"strip_right", right}}));
      folder.write("tokenizer.json", dump_json(json));
      const auto tokenizer = Tokenizer::load(folder.path());
      expect_same(*tokenizer, "Strip", 40);
      int given = 0;
      tokenizer->encode_parts(text, {}, [&](Encoding&&) { ++given; });
      EXPECT_GE(given, 2);
      EXPECT_EQ(in_parts(*tokenizer, text, {}, Tokenizer::kPartBytes).ids,
                in_parts(*tokenizer, text, {}, SIZE_MAX).ids);
    }
  }
}

TEST(TokenizerEncode, SlowABpeTokenizerModelIsCutAtSpacesWithAndWithoutLegacyPrefixes) {
  const ScratchFolder folder;
  folder.write("tokenizer.model", read_file(kTokenizers / "sp_bpe/tokenizer.model"));
  for (const char* config : {R"({"legacy": true})", R"({"legacy": false})"}) {
    folder.write("tokenizer_config.json", config);
    const auto tokenizer = Tokenizer::load(folder.path());
    expect_same(*tokenizer, config, 80);
    std::string text;
    while (text.size() < 2 * Tokenizer::kPartBytes) text += "</s>the world <s> of data \n 字 b ";
    int given = 0;
    tokenizer->encode_parts(text, {}, [&](Encoding&&) { ++given; });
    EXPECT_GE(given, 2) << config;
    EXPECT_EQ(in_parts(*tokenizer, text, {}, Tokenizer::kPartBytes).ids,
              in_parts(*tokenizer, text, {}, SIZE_MAX).ids);
  }
}

TEST(TokenizerEncode, TheTokensOfALongTextWasteLittleMemory) {
  const auto tokenizer = Tokenizer::load(kTokenizers / "smol");
  std::string text;
  while (text.size() < 9 * Tokenizer::kPartBytes) text += "the world of data ";
  const Encoding encoding = tokenizer->encode(text);
  EXPECT_LT(double(encoding.ids.capacity()), 1.2 * double(encoding.ids.size()));
  EXPECT_LT(double(encoding.offsets.capacity()), 1.2 * double(encoding.offsets.size()));
}

TEST(TokenizerEncode, AnInterruptEndsTheEncodingOfALongText) {
  const auto tokenizer = Tokenizer::load(kTokenizers / "smol");
  std::string text;
  while (text.size() < 9 * Tokenizer::kPartBytes) text += "the world of data ";
  request_interrupt(SIGINT);
  EXPECT_EQ(signal_of([&] { tokenizer->encode(text); }), SIGINT);
  clear_interrupt();
}

TEST(TokenizerEncode, AnEmptyTextIsOnePart) {
  const auto tokenizer = Tokenizer::load(kTokenizers / "smol");
  int given = 0;
  tokenizer->encode_parts("", {}, [&](Encoding&& part) {
    ++given;
    EXPECT_TRUE(part.ids.empty());
  });
  EXPECT_EQ(given, 1);
}

}  // namespace

}  // namespace xrun::tokenizer_encode_test
