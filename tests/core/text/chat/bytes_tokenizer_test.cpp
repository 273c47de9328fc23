#include "core/text/chat/bytes_tokenizer.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "core/base/error.h"
#include "core/text/tokenizer/tokenizer.h"

namespace xrun::bytes_tokenizer_test {

class BytesTokenizer : public testing::Test {
 protected:
  BytesTokenizer() {
    std::string name = std::filesystem::temp_directory_path() / "xrun_bytes_XXXXXX";
    XRUN_CHECK(mkdtemp(name.data()) != nullptr, "{}: cannot be made", name);
    dir_ = name;
    write_bytes_tokenizer(dir_);
  }
  ~BytesTokenizer() override { std::filesystem::remove_all(dir_); }
  std::filesystem::path dir_;
};

TEST_F(BytesTokenizer, HasATokenForEveryByte) {
  const auto tokenizer = Tokenizer::load(dir_);
  EXPECT_EQ(tokenizer->vocab_size(), 259);
  EXPECT_EQ(tokenizer->eos_id(), 258);
  EXPECT_EQ(tokenizer->pad_id(), 256);
  const std::string text = "a \n\xE4\xBD\xA0\x7F";
  const auto ids = tokenizer->encode(text).ids;
  ASSERT_EQ(ids.size(), text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    EXPECT_EQ(ids[i], static_cast<unsigned char>(text[i])) << i;
  }
}

TEST_F(BytesTokenizer, NeedsAFolder) {
  EXPECT_THROW(write_bytes_tokenizer(dir_ / "nowhere"), Error);
}

}  // namespace xrun::bytes_tokenizer_test
