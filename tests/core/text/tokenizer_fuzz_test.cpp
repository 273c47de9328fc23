// A tokenizer.json is another's file: whatever stands in it, loading ends with a tokenizer that
// works or with an Error.

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/philox.h"
#include "core/text/tokenizer.h"
#include "tests/core/data/scratch_folder.h"

namespace xrun {

namespace {

constexpr int kMutations = 1500;  // of each file

// Numbers that are drawn one after the other from a seed.
class Draw {
 public:
  explicit Draw(uint64_t seed) : seed_(seed) {}
  size_t below(size_t limit) { return philox_u64(seed_, kStreamShuffle, 0, count_++) % limit; }

 private:
  uint64_t seed_;
  uint64_t count_ = 0;
};

// What the fuzzer knows of the format: values that matter somewhere.
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
                                   "\"vocab\":{}",
                                   "\"merges\":[[]]"};

std::string mutated(std::string text, Draw& draw) {
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
      default: {  // a whole value by another one
        const size_t colon = std::min(text.find(':', at), text.size() - 1);
        const size_t end = std::min(text.find_first_of(",}]", colon), text.size());
        text.replace(colon + 1, end - colon - 1, kTokens[draw.below(std::size(kTokens))]);
      }
    }
  }
  return text;
}

// Returns the file with the first pieces and their merges alone, so that more mutations hit the
// structure around them.
std::string with_fewer_pieces(Json json) {
  Json& vocab = *json.find("model")->find("vocab");
  vocab.as_object().resize(std::min<size_t>(vocab.size(), 280));
  Json kept = Json::array();
  for (const Json& merge : json.find("model")->find("merges")->as_array()) {
    const std::string& left = merge.as_array()[0].as_string();
    const std::string& right = merge.as_array()[1].as_string();
    if (vocab.find(left) && vocab.find(right) && vocab.find(left + right)) kept.push_back(merge);
  }
  json.find("model")->set("merges", std::move(kept));
  return dump_json(json);
}

TEST(TokenizerFuzz, AMutatedFileNeverCrashes) {
  ScratchFolder folder;
  int loaded = 0, refused = 0;
  for (const char* name : {"smol", "llama2", "regexes"}) {
    std::string text =
        read_file(fmt::format("{}/tests/data/tokenizers/{}/tokenizer.json", XRUN_SOURCE_DIR, name));
    text = with_fewer_pieces(parse_json(text, name));
    Draw draw(std::hash<std::string>()(name));
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
  EXPECT_GT(loaded, kMutations / 10);   // a fuzzer that breaks every file tests little
  EXPECT_GT(refused, kMutations / 10);
}

}  // namespace

}  // namespace xrun
