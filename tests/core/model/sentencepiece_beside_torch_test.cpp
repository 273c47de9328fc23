// The sentencepiece library brings its own protobuf, LibTorch another one: both work in one process.

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include "core/text/tokenizer.h"

namespace xrun {

namespace {

TEST(SentencePieceBesideTorch, EncodesWhileTorchComputes) {
  EXPECT_EQ(at::arange(5).sum().item<int64_t>(), 10);
  const auto tokenizer = Tokenizer::load(XRUN_SOURCE_DIR "/tests/data/tokenizers/sp_bpe");
  const Encoding encoding = tokenizer->encode("the world");
  EXPECT_EQ(tokenizer->decode(encoding.ids), "the world");
  EXPECT_EQ(at::arange(6).sum().item<int64_t>(), 15);
}

}  // namespace

}  // namespace xrun
