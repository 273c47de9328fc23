// Equal vocabularies are recognised by their tokens and merges.

#include "core/text/tokenizer/vocabulary_fingerprint.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "core/base/file.h"
#include "tests/core/text/tokenizer/tokenizer_folder_fixture.h"
#include "tests/tree.h"

namespace xrun::vocabulary_fingerprint_test {

namespace {

std::shared_ptr<const Tokenizer> load(const Json& json, const std::string& config = "{}") {
  const ScratchFolder folder;
  folder.write("tokenizer.json", dump_json(json));
  folder.write("tokenizer_config.json", config);
  return Tokenizer::load(folder.path());
}

TEST(VocabularyFingerprint, CoversPiecesMergesAndAddedTokensAlone) {
  const auto plain = load(small_tokenizer());
  const std::string fingerprint = vocabulary_fingerprint(*plain);
  EXPECT_EQ(fingerprint.size(), 32u);

  Json other = small_tokenizer();
  other.set("pre_tokenizer", parse_json(R"({"type": "WhitespaceSplit"})", "test"));
  EXPECT_EQ(vocabulary_fingerprint(*load(other, R"({"eos_token": "c"})")),
            vocabulary_fingerprint(*load(small_tokenizer(), R"({"eos_token": "c"})")));

  Json merges = small_tokenizer();
  merges.find("model")->set("merges", parse_json(R"(["a b"])", "test"));
  EXPECT_NE(vocabulary_fingerprint(*load(merges)), fingerprint);
  EXPECT_EQ(compare_vocabularies(*plain, *load(merges)), VocabularyMatch::kDifferent);

  Json renamed = small_tokenizer();
  renamed.find("model")->find("vocab")->set("d", 5);
  EXPECT_NE(vocabulary_fingerprint(*load(renamed)), fingerprint);
  EXPECT_EQ(compare_vocabularies(*plain, *load(renamed)), VocabularyMatch::kExtended);
}

TEST(VocabularyFingerprint, AnExtendedVocabularySharesItsCommonIds) {
  const auto plain = load(small_tokenizer());
  Json more = small_tokenizer();
  more.set("added_tokens", parse_json(R"([{"id": 5, "content": "<x>", "special": true}])", "test"));
  EXPECT_EQ(compare_vocabularies(*plain, *load(more)), VocabularyMatch::kExtended);
  EXPECT_EQ(compare_vocabularies(*load(more), *plain), VocabularyMatch::kExtended);
  EXPECT_EQ(compare_vocabularies(*load(more), *load(more)), VocabularyMatch::kEqual);

  // The same id is another token; or only special on one side.
  Json other = small_tokenizer();
  other.set("added_tokens", parse_json(R"([{"id": 5, "content": "<y>"}])", "test"));
  EXPECT_EQ(compare_vocabularies(*load(more), *load(other)), VocabularyMatch::kDifferent);
  Json special = small_tokenizer();
  special.set("added_tokens", parse_json(R"([{"id": 5, "content": "<x>"}])", "test"));
  EXPECT_EQ(compare_vocabularies(*load(more), *load(special)), VocabularyMatch::kDifferent);
  // The same token has another id.
  Json moved = small_tokenizer();
  moved.set("added_tokens",
            parse_json(R"([{"id": 9, "content": "<x>", "special": true}])", "test"));
  EXPECT_EQ(compare_vocabularies(*load(more), *load(moved)), VocabularyMatch::kDifferent);
}

TEST(VocabularyFingerprint, IsEqualForTheSameTokenizerInOtherFiles) {
  const char* set = std::getenv("XRUN_TEST_DATA");
  const std::filesystem::path data = set != nullptr ? set : source_path("../shared/data");
  const auto gpt2 = data / "tokenizers/gpt2";
  if (!std::filesystem::is_directory(gpt2)) GTEST_SKIP() << gpt2 << " is missing";
  const ScratchFolder files;
  for (const char* name : {"vocab.json", "merges.txt"}) {
    files.write(name, read_file(gpt2 / name));
  }
  const auto from_json = Tokenizer::load(gpt2), from_files = Tokenizer::load(files.path());
  EXPECT_EQ(vocabulary_fingerprint(*from_json), vocabulary_fingerprint(*from_files));
  EXPECT_EQ(compare_vocabularies(*from_json, *from_files), VocabularyMatch::kEqual);

  const ScratchFolder model;
  model.write("tokenizer.model", read_file(data / "tokenizers/llama2/tokenizer.model"));
  EXPECT_EQ(compare_vocabularies(*Tokenizer::load(data / "tokenizers/llama2"),
                                 *Tokenizer::load(model.path())),
            VocabularyMatch::kEqual);
  EXPECT_EQ(compare_vocabularies(*from_json, *Tokenizer::load(data / "tokenizers/llama2")),
            VocabularyMatch::kDifferent);
}

}  // namespace

}  // namespace xrun::vocabulary_fingerprint_test
