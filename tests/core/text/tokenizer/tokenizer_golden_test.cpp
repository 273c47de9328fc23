// Every tokenizer gives the tokens of Hugging Face's (tests/golden/make/tokenizer_goldens.py).

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/json.h"
#include "core/text/tokenizer/tokenizer.h"
#include "tests/core/text/tokenizer/described_tokens.h"
#include "tests/core/text/tokenizer/generated_strings.h"
#include "tests/scratch_folder.h"
#include "tests/tree.h"

namespace xrun::tokenizer_golden_test {

namespace {

namespace fs = std::filesystem;

const fs::path kSource = source_path();

fs::path shared_data() {
  const char* set = std::getenv("XRUN_TEST_DATA");
  return set != nullptr ? fs::path(set) : kSource / "../shared/data";
}

// CRC-32 as in zlib.
uint32_t crc32(std::string_view bytes, uint32_t crc = 0) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> t{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t c = i;
      for (int k = 0; k < 8; ++k) c = c & 1 ? 0xEDB88320u ^ (c >> 1) : c >> 1;
      t[i] = c;
    }
    return t;
  }();
  crc = ~crc;
  for (const unsigned char b : bytes) crc = table[(crc ^ b) & 0xFF] ^ (crc >> 8);
  return ~crc;
}

// Returns the text encoded with three sets of options.
std::string described_all(const Tokenizer& tokenizer, const std::string& text) {
  EncodeOptions plain, special, post;
  special.all_special = true;
  post.all_special = post.add_post_processor = true;
  return described(tokenizer, text, plain) + described(tokenizer, text, special) +
         described(tokenizer, text, post);
}

std::string hex(uint32_t crc) { return fmt::format("{:08x}", crc); }

const Json& goldens() {
  static const Json json = read_json((kSource / "tests/golden/tokenizer_checksums.json").string());
  return json;
}

fs::path folder_of(const std::string& name) {
  return name.starts_with("test/") ? kSource / "tests/data/tokenizers" / name.substr(5)
                                   : shared_data() / "tokenizers" / name;
}

// Returns the folder of a tokenizer of tokenizer_generated.json; "llama2 model" is its
// tokenizer.model alone.
fs::path generated_folder_of(const std::string& name, const ScratchFolder& scratch) {
  if (name == "smollm2") {
    const char* cache = std::getenv("XRUN_CACHE");
    return fs::path(cache != nullptr ? cache : "") / "models/smollm2-135m-instruct";
  }
  if (name != "llama2 model") return folder_of(name);
  const fs::path model = shared_data() / "tokenizers/llama2/tokenizer.model";
  if (fs::exists(model)) fs::copy(model, scratch.path() / "tokenizer.model");
  return fs::exists(model) ? scratch.path() : model;
}

// SmolLM2 has no token for some bytes, after which the package's offsets are shifted.
std::string without_lost_bytes(const Tokenizer& tokenizer, const std::string& text,
                               const EncodeOptions& options) {
  std::string line = described(tokenizer, text, options);
  if (tokenizer.decode(tokenizer.encode(text, options).ids) == text) return line;
  const size_t begin = line.find('|') + 1;
  return line.replace(begin, line.find('|', begin) - begin, "-");
}

// The hashes are those of tests/golden/make/generated_goldens.py.
TEST(TokenizerGenerated, MatchesThePackageOnAHundredThousandStringsSlow) {
  constexpr uint64_t kBlock = 1000;
  const GeneratedStrings generated;
  const Json golden =
      read_json((kSource / "tests/golden/tokenizer_generated.json").string()).at("hashes");
  std::vector<std::string> texts;
  for (uint64_t i = 0; i < 100 * kBlock; ++i) texts.push_back(generated(i));
  for (const auto& [name, hashes] : golden.as_object()) {
    const ScratchFolder scratch;
    const fs::path folder = generated_folder_of(name, scratch);
    if (!fs::exists(folder)) continue;  // a larger one that is not on this machine
    const auto tokenizer = Tokenizer::load(folder);
    const bool is_model =
        fs::exists(folder / "tokenizer.model") && !fs::exists(folder / "tokenizer.json");
    EncodeOptions options;
    options.all_special = options.add_post_processor = !is_model;
    std::istringstream wanted(hashes.as_string());
    for (uint64_t block = 0; block < 100; ++block) {
      std::string hash, lines;
      ASSERT_TRUE(wanted >> hash);
      for (uint64_t i = 0; i < kBlock; ++i) {
        const std::string& text = texts[block * kBlock + i];
        lines += name == "smollm2" ? without_lost_bytes(*tokenizer, text, options)
                                   : described(*tokenizer, text, options);
      }
      EXPECT_EQ(hash_hex(lines).substr(0, 16), hash) << name << ", block " << block;
    }
  }
}

class TokenizerGolden : public testing::TestWithParam<const char*> {};

TEST_P(TokenizerGolden, MatchesHuggingFaceOnStringsOverAllOfUnicode) {
  const fs::path folder = folder_of(GetParam());
  if (!fs::exists(folder)) GTEST_SKIP() << folder << " is missing";
  const auto tokenizer = Tokenizer::load(folder);
  const Json texts = read_json((kSource / "tests/golden/tokenizer_strings.json").string());
  std::istringstream wanted(goldens().at("strings").at(GetParam()).as_string());
  int wrong = 0;
  for (const Json& text : texts.as_array()) {
    std::string crc;
    ASSERT_TRUE(wanted >> crc);
    if (hex(crc32(described_all(*tokenizer, text.as_string()))) == crc || ++wrong > 5) continue;
    ADD_FAILURE() << dump_json(text, {.ascii = true}) << " gives "
                  << described_all(*tokenizer, text.as_string());
  }
  EXPECT_EQ(wrong, 0);
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerGolden,
                         testing::Values("test/smol", "test/llama3", "test/llama2",
                                         "test/metaspace", "test/regexes", "gpt2", "llama2",
                                         "qwen"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = c == '/' ? '_' : c;
                           return name;
                         });

TEST(TokenizerGoldenFiles, MatchHuggingFaceOnEveryLineOfTheSharedDataSlow) {
  if (!fs::exists(shared_data() / "tokenizers")) GTEST_SKIP() << shared_data() << " is missing";
  EncodeOptions options;
  options.all_special = true;
  for (const auto& [name, crc] : goldens().at("files").as_object()) {
    const size_t space = name.find(' ');
    const auto tokenizer = Tokenizer::load(folder_of(name.substr(0, space)));
    std::ifstream file(shared_data() / name.substr(space + 1), std::ios::binary);
    ASSERT_TRUE(file) << name;
    std::stringstream bytes;
    bytes << file.rdbuf();
    const std::string text = bytes.str();
    uint32_t sum = 0;
    for (size_t at = 0; at <= text.size();) {  // the text after the last '\n' is also a line
      const size_t end = std::min(text.find('\n', at), text.size());
      sum = crc32(described(*tokenizer, text.substr(at, end - at), options), sum);
      at = end + 1;
    }
    EXPECT_EQ(hex(sum), crc.as_string()) << name;
  }
}

}  // namespace

}  // namespace xrun::tokenizer_golden_test
