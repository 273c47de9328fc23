// The sentencepiece library has its own protobuf, LibTorch another: both work in one process.

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "core/text/tokenizer/tokenizer.h"
#include "tests/error_of.h"
#include "tests/tree.h"

namespace xrun::sentencepiece_beside_torch_test {

namespace {

TEST(SentencePieceBesideTorch, EncodesWhileTorchComputes) {
  EXPECT_EQ(at::arange(5).sum().item<int64_t>(), 10);
  const auto tokenizer = Tokenizer::load(source_path("tests/data/tokenizers/sp_bpe"));
  const Encoding encoding = tokenizer->encode("the world");
  EXPECT_EQ(tokenizer->decode(encoding.ids), "the world");
  EXPECT_EQ(at::arange(6).sum().item<int64_t>(), 15);
  // Both have a FLAGS_minloglevel. In one scope sentencepiece's would overwrite the flag next to
  // c10's that makes a failed allocation abort the process.
  EXPECT_TRUE(throws<c10::Error>("allocate", [] { at::empty({int64_t{1} << 60}); }));
}

}  // namespace

}  // namespace xrun::sentencepiece_beside_torch_test
