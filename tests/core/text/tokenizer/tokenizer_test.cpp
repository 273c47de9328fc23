// Offsets, special tokens and replaced bytes are exact, in any number of threads.

#include "core/text/tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <thread>

#include "core/base/error.h"
#include "core/base/json.h"
#include "tests/scratch_folder.h"
#include "tests/tree.h"

namespace xrun::tokenizer_test {

namespace {

const std::filesystem::path kFolders = source_path("tests/data/tokenizers");

std::shared_ptr<const Tokenizer> smol() { return Tokenizer::load(kFolders / "smol"); }

std::vector<std::string> golden_strings() {
  std::vector<std::string> texts;
  const Json json = read_json(source_path("tests/golden/tokenizer_strings.json"));
  for (const Json& text : json.as_array()) texts.push_back(text.as_string());
  return texts;
}

TEST(Tokenizer, OffsetsOfByteLevelTokensTileTheText) {
  const auto tokenizer = smol();
  EncodeOptions all;
  all.all_special = true;
  for (const std::string& text : golden_strings()) {
    for (const EncodeOptions& options : {EncodeOptions(), all}) {
      const Encoding e = tokenizer->encode(text, options);
      uint32_t at = 0;
      for (const ByteRange range : e.offsets) {
        ASSERT_EQ(range.begin, at) << text;
        ASSERT_LT(range.begin, range.end);
        at = range.end;
      }
      ASSERT_EQ(at, text.size());
      // These two tokens take adjacent spaces, which decoding does not restore.
      const bool strips = text.find("</think>") != text.npos || text.find("[MASK]") != text.npos;
      if (!strips) {
        ASSERT_EQ(tokenizer->decode(e.ids), text);
      }
    }
  }
}

TEST(Tokenizer, ATokenOfPartOfACharacterHasExactlyItsBytes) {
  for (const char* name : {"smol", "llama2"}) {  // byte-level; byte fallback
    const Encoding e = Tokenizer::load(kFolders / name)->encode("a\U0001F600");
    ASSERT_EQ(e.ids.size(), 5u) << name;
    for (uint32_t i = 1; i < 5; ++i) EXPECT_EQ(e.offsets[i], (ByteRange{i, i + 1})) << name;
  }
}

TEST(Tokenizer, SpecialTokensMatchOnlyInsideTheAllowedRanges) {
  const auto tokenizer = smol();
  const std::string text = "<|im_start|>x<|im_end|>";  // 12 + 1 + 10 bytes
  const int32_t start = *tokenizer->id_of("<|im_start|>"), end = *tokenizer->id_of("<|im_end|>");
  const auto counts = [&](std::vector<ByteRange> ranges) {
    EncodeOptions options;
    options.special_ok = ranges;
    const Encoding e = tokenizer->encode(text, options);
    EXPECT_EQ(tokenizer->decode(e.ids), text);
    return std::pair(std::count(e.ids.begin(), e.ids.end(), start),
                     std::count(e.ids.begin(), e.ids.end(), end));
  };
  EXPECT_EQ(counts({}), std::pair(0l, 0l));
  EXPECT_EQ(counts({{0, 23}}), std::pair(1l, 1l));
  EXPECT_EQ(counts({{0, 12}}), std::pair(1l, 0l));
  EXPECT_EQ(counts({{0, 11}, {13, 23}}), std::pair(0l, 1l));
  EXPECT_EQ(counts({{0, 5}, {5, 12}}), std::pair(1l, 0l));  // touching ranges count as one
  EXPECT_EQ(counts({{0, 5}, {6, 12}}), std::pair(0l, 0l));
  EXPECT_EQ(counts({{1, 23}}), std::pair(0l, 1l));
}

TEST(Tokenizer, PlainAddedTokensMatchInAnyTextLongestFirst) {
  const auto tokenizer = smol();
  const Encoding e = tokenizer->encode("in New York City<think>");
  EXPECT_EQ(std::count(e.ids.begin(), e.ids.end(), *tokenizer->id_of("New York City")), 1);
  EXPECT_EQ(std::count(e.ids.begin(), e.ids.end(), *tokenizer->id_of("New York")), 0);
  EXPECT_EQ(e.ids.back(), *tokenizer->id_of("<think>"));
  EXPECT_EQ(e.offsets.back(), (ByteRange{16, 23}));
}

TEST(Tokenizer, InvalidBytesBecomeReplacementCharactersAndKeepTheirOffsets) {
  const auto tokenizer = smol();
  const std::string text = "a\xFF\xF0\x9F\x98z";  // a lone byte, then three of a cut-off character
  const Encoding e = tokenizer->encode(text);
  EXPECT_EQ(e.replaced, 4u);
  EXPECT_EQ(tokenizer->decode(e.ids), "a\uFFFD\uFFFDz");
  EXPECT_EQ(e.offsets.front(), (ByteRange{0, 1}));
  EXPECT_EQ(e.offsets[1], (ByteRange{1, 2}));
  EXPECT_EQ(e.offsets[e.offsets.size() - 2], (ByteRange{2, 5}));
  EXPECT_EQ(e.offsets.back(), (ByteRange{5, 6}));
}

TEST(Tokenizer, AnAddedReplacementCharacterKeepsTheRangeOfTheBytesItReplaces) {
  const ScratchFolder folder;
  Json json = read_json((kFolders / "smol/tokenizer.json").string());
  json.set("post_processor",
           Json(Json::Object{
               {"type", "ByteLevel"}, {"trim_offsets", true}, {"add_prefix_space", false}}));
  json.set("added_tokens", parse_json(R"([{"id": 9000, "content": "\ufffd"}])", ""));
  folder.write("tokenizer.json", dump_json(json));
  // With the '@' after them the two bytes look like U+3000, a space, to a reader without checks.
  const Encoding e = Tokenizer::load(folder.path())->encode("a\xE3\x80@");
  ASSERT_EQ(e.ids.size(), 3u);
  EXPECT_EQ(e.ids[1], 9000);
  EXPECT_EQ(e.offsets[1], (ByteRange{1, 3}));
}

TEST(Tokenizer, PostProcessorTokensHaveEmptyRanges) {
  const auto tokenizer = Tokenizer::load(kFolders / "llama2");
  EncodeOptions options;
  options.add_post_processor = true;
  const Encoding e = tokenizer->encode("hi", options);
  EXPECT_EQ(e.ids.front(), 1);
  EXPECT_EQ(e.ids.back(), 2);
  EXPECT_EQ(e.offsets.front(), (ByteRange{0, 0}));
  EXPECT_EQ(e.offsets.back(), (ByteRange{0, 0}));
  EXPECT_EQ(tokenizer->leading_bos(), std::vector<int32_t>{1});
  EXPECT_EQ(tokenizer->encode("", options).ids, (std::vector<int32_t>{1, 2}));
  EXPECT_TRUE(tokenizer->encode("").ids.empty());
  EXPECT_TRUE(smol()->leading_bos().empty());
}

TEST(Tokenizer, ManyThreadsGetTheSameTokens) {
  const auto tokenizer = smol();
  const std::vector<std::string> texts = golden_strings();
  const auto all = [&] {
    std::vector<int32_t> ids;
    for (const std::string& text : texts) {
      const Encoding e = tokenizer->encode(text);
      ids.insert(ids.end(), e.ids.begin(), e.ids.end());
    }
    return ids;
  };
  std::vector<std::vector<int32_t>> results(4);
  std::vector<std::thread> threads;
  for (auto& result : results) threads.emplace_back([&] { result = all(); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : results) EXPECT_EQ(result, results[0]);
}

TEST(Tokenizer, TheCacheOfAnotherTokenizerDoesNotMatter) {
  const auto first = smol(), second = Tokenizer::load(kFolders / "llama3");
  const std::string text = "the cat and the hat";
  const std::vector<int32_t> a = first->encode(text).ids, b = second->encode(text).ids;
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(first->encode(text).ids, a);
    EXPECT_EQ(second->encode(text).ids, b);
  }
}

}  // namespace

}  // namespace xrun::tokenizer_test
