// Random combinations of all components of tokenizer.json give the tokens of Hugging Face's
// tokenizers (tests/golden/make/component_goldens.py).

#include <gtest/gtest.h>

#include "core/base/hash.h"
#include "core/base/json.h"
#include "tests/core/text/tokenizer/described_tokens.h"
#include "tests/core/text/tokenizer/generated_strings.h"
#include "tests/scratch_folder.h"
#include "tests/tree.h"

namespace xrun::tokenizer_components_test {

namespace {

TEST(TokenizerComponents, MatchHuggingFace) {
  const Json golden = read_json(source_path("tests/golden/tokenizer_components.json"));
  const GeneratedStrings generated;
  std::vector<std::string> texts;
  for (uint64_t i = 0; i < 300; ++i) texts.push_back(generated(i));
  for (const Json& text : golden.at("fixed").as_array()) texts.push_back(text.as_string());
  EncodeOptions options;
  options.all_special = options.add_post_processor = true;
  const ScratchFolder folder;
  for (const Json& row : golden.at("rows").as_array()) {
    Json json = read_json(source_path("tests/data/tokenizers/") + row.at("base").as_string() +
                          "/tokenizer.json");
    for (const auto& [key, value] : row.as_object()) {
      if (key != "base" && key != "hash") json.set(key, value);
    }
    folder.write("tokenizer.json", dump_json(json));
    const auto tokenizer = Tokenizer::load(folder.path());
    std::string lines;
    for (const std::string& text : texts) lines += described(*tokenizer, text, options);
    EXPECT_EQ(hash_hex(lines).substr(0, 16), row.at("hash").as_string()) << dump_json(row);
  }
}

}  // namespace

}  // namespace xrun::tokenizer_components_test
