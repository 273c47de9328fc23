// Any tokenizer.json or tokenizer.model gives a working tokenizer or an Error.

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/philox.h"
#include "core/text/tokenizer/tokenizer.h"
#include "tests/scratch_folder.h"
#include "tests/tree.h"

namespace xrun::tokenizer_fuzz_test {

namespace {

constexpr int kMutations = 1500;  // of each file

// A sequence of random numbers from a seed.
class MutationDraw {
 public:
  explicit MutationDraw(uint64_t seed) : seed_(seed) {}
  size_t below(size_t limit) { return philox_u64(seed_, kStreamShuffle, 0, count_++) % limit; }

 private:
  uint64_t seed_;
  uint64_t count_ = 0;
};

// Values to which the format gives a meaning.
constexpr const char* kTokens[] = {"null",
                                   "true",
                                   "false",
                                   "-1",
                                   "0",
                                   "1",
                                   "99999999999999999999",
                                   "1e400",
                                   "\"\"",
                                   "[]",
                                   "{}",
                                   "{\"a\":",
                                   "\"type\"",
                                   "\"Sequence\"",
                                   "\"ByteLevel\"",
                                   "\"Metaspace\"",
                                   "\"Split\"",
                                   "\"Regex\":\"(a*)*b\"",
                                   "\"Regex\":\"(\"",
                                   "\"BPE\"",
                                   "\"\\ud800\"",
                                   "\"\\u0000\"",
                                   ",",
                                   "]",
                                   "}",
                                   "\"id\":8388607",
                                   "\"id\":-5",
                                   "\"content\":\"\"",
                                   "\"stop\":9999999",
                                   "\"Unigram\"",
                                   "\"WordPiece\"",
                                   "\"WordLevel\"",
                                   "\"Precompiled\"",
                                   "\"AAAA\"",
                                   "\"unk_id\":7",
                                   "[[\"a\",-1e308],[\"b\",1e308]]",
                                   "\"vocab\":{}",
                                   "\"merges\":[[]]"};

std::string mutated(std::string text, MutationDraw& draw) {
  const size_t edits = 1 + draw.below(2);
  for (size_t i = 0; i < edits && !text.empty(); ++i) {
    const size_t at = draw.below(text.size());
    const size_t size = std::min<size_t>(1 + draw.below(12), text.size() - at);
    switch (draw.below(8)) {
      case 0: text[at] = char(draw.below(256)); break;
      case 1: text.erase(at, size); break;
      case 2: text.insert(at, text.substr(draw.below(text.size()), size)); break;
      case 3: text.replace(at, size, kTokens[draw.below(std::size(kTokens))]); break;
      case 4: text.resize(at); break;
      default: {  // replace a whole value
        const size_t colon = std::min(text.find(':', at), text.size() - 1);
        const size_t end = std::min(text.find_first_of(",}]", colon), text.size());
        text.replace(colon + 1, end - colon - 1, kTokens[draw.below(std::size(kTokens))]);
      }
    }
  }
  return text;
}

// Returns the file with only its first pieces and their merges, so that more mutations hit the
// structure.
std::string with_fewer_pieces(Json json) {
  Json& vocab = *json.find("model")->find("vocab");
  if (vocab.is_array()) {
    vocab.as_array().resize(std::min<size_t>(vocab.size(), 280));
    return dump_json(json);
  }
  vocab.as_object().resize(std::min<size_t>(vocab.size(), 280));
  Json remaining = Json::array();
  const Json* merges = json.find("model")->find("merges");
  for (const Json& merge : merges ? merges->as_array() : Json::Array()) {
    const std::string& left = merge.as_array()[0].as_string();
    const std::string& right = merge.as_array()[1].as_string();
    if (vocab.find(left) && vocab.find(right) && vocab.find(left + right))
      remaining.push_back(merge);
  }
  if (merges != nullptr) json.find("model")->set("merges", std::move(remaining));
  return dump_json(json);
}

// Returns a file with the components that the other files lack.
Json with_all_components() {
  Json json = parse_json(read_file(source_path("tests/data/tokenizers/wordpiece/tokenizer.json")),
                         "wordpiece");
  json.set("normalizer", parse_json(R"({"type": "Sequence", "normalizers": [
      {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
       "strip_accents": null, "lowercase": true},
      {"type": "NFKC"}, {"type": "NFKD"}, {"type": "NFD"}, {"type": "StripAccents"},
      {"type": "Strip", "strip_left": true, "strip_right": true},
      {"type": "Lowercase"}, {"type": "ByteLevel"}]})",
                                    "normalizer"));
  json.set("pre_tokenizer", parse_json(R"({"type": "Sequence", "pretokenizers": [
      {"type": "Whitespace"}, {"type": "WhitespaceSplit"}, {"type": "BertPreTokenizer"},
      {"type": "Punctuation", "behavior": "Contiguous"},
      {"type": "ByteLevel", "add_prefix_space": true}, {"type": "Digits"}]})",
                                       "pre_tokenizer"));
  json.set("post_processor", parse_json(R"({"type": "RobertaProcessing", "sep": ["[SEP]", 2],
      "cls": ["[CLS]", 1], "trim_offsets": true, "add_prefix_space": false})",
                                        "post_processor"));
  json.set("decoder", parse_json(R"({"type": "Sequence", "decoders": [
      {"type": "WordPiece", "prefix": "##", "cleanup": true},
      {"type": "BPEDecoder", "suffix": "</w>"}, {"type": "ByteLevel"},
      {"type": "Strip", "content": " ", "start": 1, "stop": 1}]})",
                                 "decoder"));
  return json;
}

Json fuzzed_file(const std::string& name) {
  if (name == "components") return with_all_components();
  return read_json(source_path("tests/data/tokenizers/" + name + "/tokenizer.json"));
}

TEST(TokenizerFuzz, AMutatedModelFileNeverCrashesSlow) {
  int loaded = 0, refused = 0;
  for (const char* name : {"sp_bpe", "sp_unigram"}) {
    const ScratchFolder folder;
    const std::string bytes =
        read_file(source_path("tests/data/tokenizers/" + std::string(name) + "/tokenizer.model"));
    MutationDraw draw(std::hash<std::string>()(name));
    for (int i = 0; i < kMutations; ++i) {
      std::string changed = bytes;
      for (size_t edits = 1 + draw.below(3); edits > 0; --edits) {
        changed[draw.below(changed.size())] = char(draw.below(256));
      }
      if (i % 10 == 0) changed.resize(draw.below(changed.size()));
      folder.write("tokenizer.model", changed);
      try {
        const auto tokenizer = Tokenizer::load(folder.path());
        const Encoding e = tokenizer->encode("The caf\u00e9 <s> 12 zz\n\n ab\xFF \u2460\u3000");
        tokenizer->decode(e.ids);
        ++loaded;
      } catch (const Error&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(loaded, kMutations / 10);
  EXPECT_GT(refused, kMutations / 10);
}

TEST(TokenizerFuzz, AMutatedFileNeverCrashesSlow) {
  ScratchFolder folder;
  int loaded = 0, refused = 0;
  for (const char* name :
       {"smol", "llama2", "regexes", "unigram", "wordpiece", "precompiled", "components"}) {
    const std::string text = with_fewer_pieces(fuzzed_file(name));
    MutationDraw draw(std::hash<std::string>()(name));
    for (int i = 0; i < kMutations; ++i) {
      folder.write("tokenizer.json", mutated(text, draw));
      try {
        const auto tokenizer = Tokenizer::load(folder.path());
        EncodeOptions options;
        options.all_special = options.add_post_processor = true;
        const Encoding e = tokenizer->encode("The café <s> 12 zz\n\n ab\xFF", options);
        tokenizer->decode(e.ids);
        ++loaded;
      } catch (const Error&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(loaded, kMutations / 10);  // a fuzzer that breaks every file tests little
  EXPECT_GT(refused, kMutations / 10);
}

}  // namespace

}  // namespace xrun::tokenizer_fuzz_test
