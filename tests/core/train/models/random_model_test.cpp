// A model of random weights is a pure function of its sizes, its seed and its tokenizer's files.

#include "core/train/models/random_model.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "core/base/file.h"
#include "core/model/weights/hf_config.h"
#include "core/text/tokenizer/tokenizer.h"
#include "tests/core/train/tiny_pairs.h"
#include "tests/error_of.h"
#include "tests/tree.h"

namespace xrun::random_model_test {
namespace {

RandomModel small() {
  RandomModel model;
  model.layers = 1;
  model.hidden = 32;
  model.heads = 2;
  model.tokenizer = source_path("tests/data/tiny_tokenizer");
  return model;
}

class RandomModelTest : public testing::Test {
 protected:
  TinyFolder folder_;  // with the cache
};

TEST_F(RandomModelTest, TheCachedFolderHasTheBytesOfAWrittenOne) {
  const auto cached = cached_random_model(small());
  write_random_model(small(), folder_.path() / "written");
  for (const char* name : {"config.json", "generation_config.json", "model.safetensors",
                           "tokenizer.json", "tokenizer_config.json"}) {
    EXPECT_EQ(read_file(cached / name), read_file(folder_.path() / "written" / name)) << name;
  }
}

TEST_F(RandomModelTest, ItIsMadeOnceAndAgainWithTheSameBytesWhenItWasRemoved) {
  std::vector<std::string> notices;
  const auto make = [&] {
    return cached_random_model(small(), [&](const std::string& line) { notices.push_back(line); });
  };
  const auto folder = make();
  const std::string weights = read_file(folder / "model.safetensors");
  EXPECT_EQ(make(), folder);
  EXPECT_EQ(notices, (std::vector<std::string>{"making a model of random weights in " +
                                               folder.string() + ", once"}));
  std::filesystem::remove_all(folder);
  EXPECT_EQ(make(), folder);
  EXPECT_EQ(read_file(folder / "model.safetensors"), weights);
}

TEST_F(RandomModelTest, SizesSeedAndTheTokenizersFilesNameTheFolder) {
  const auto folder = cached_random_model(small());
  RandomModel other = small();
  other.seed = 1;
  EXPECT_NE(cached_random_model(other), folder);
  other = small();
  other.layers = 2;
  EXPECT_NE(cached_random_model(other), folder);
  // The folder of the tokenizer may have another name, but no other byte.
  const auto copy = folder_.path() / "copy";
  std::filesystem::copy(small().tokenizer, copy, std::filesystem::copy_options::recursive);
  other = small();
  other.tokenizer = copy.string();
  EXPECT_EQ(cached_random_model(other), folder);
  write_file_atomic(copy / "tokenizer_config.json",
                    read_file(copy / "tokenizer_config.json") + "\n");
  EXPECT_NE(cached_random_model(other), folder);
}

TEST_F(RandomModelTest, DependentSizesFollow) {
  RandomModel model = small();
  model.hidden = 96;
  model.heads = 6;
  const ModelConfig config = read_model_config(cached_random_model(model));
  EXPECT_EQ(config.ffn, 256);  // 8/3 of the width
  EXPECT_EQ(config.kv_heads, 6);
  EXPECT_EQ(config.vocab, Tokenizer::load(model.tokenizer)->vocab_size());
  model.tokenizer = "bytes";
  EXPECT_EQ(read_model_config(cached_random_model(model)).vocab, 259);
}

TEST_F(RandomModelTest, SizesThatDoNotFitAreRefused) {
  RandomModel model = small();
  model.heads = 5;
  EXPECT_NE(error_of([&] { cached_random_model(model); }).find("num_attention_heads (5)"),
            std::string::npos);
  model = small();
  model.vocab = 10;
  const std::string error = error_of([&] { cached_random_model(model); });
  EXPECT_NE(error.find("a vocabulary of 10 cannot hold them; leave vocab out or use at least "),
            std::string::npos)
      << error;
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "cache/models"));
}

TEST_F(RandomModelTest, OfSeveralThatWantItOneMakesIt) {
  std::atomic<int> made = 0;
  std::vector<std::thread> others;
  for (int i = 0; i < 3; ++i) {
    others.emplace_back([&] { cached_random_model(small(), [&](const std::string&) { ++made; }); });
  }
  for (std::thread& other : others) other.join();
  EXPECT_EQ(made, 1);
}

}  // namespace
}  // namespace xrun::random_model_test
