// The byte tokenizer has a token for every byte.

#include "core/text/chat/bytes_tokenizer.h"

#include <gtest/gtest.h>

#include <string>

#include "core/base/error.h"
#include "core/text/tokenizer/tokenizer.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace xrun::bytes_tokenizer_test {

class BytesTokenizer : public testing::Test {
 protected:
  BytesTokenizer() { write_bytes_tokenizer(dir_); }

  const ScratchFolder scratch_;
  const std::filesystem::path dir_ = scratch_.path();
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
  EXPECT_TRUE(
      throws<Error>("tokenizer.json: cannot be opened for writing: No such file or directory",
                    [&] { write_bytes_tokenizer(dir_ / "nowhere"); }));
}

}  // namespace xrun::bytes_tokenizer_test
