#pragma once
// A tokenizer of 2,048 pieces and one of bytes, for tests of alignments.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/text/chat/bytes_tokenizer.h"
#include "core/text/tokenizer/token_bytes.h"
#include "core/text/tokenizer/tokenizer.h"
#include "tests/scratch_folder.h"
#include "tests/tree.h"

namespace xrun {

class TwoTokenizers : public testing::Test {
 protected:
  static std::shared_ptr<const Tokenizer> pieces() {
    static const auto loaded = Tokenizer::load(source_path("recipes/data/tokenizer"));
    return loaded;
  }
  // Ids 0 to 255 are the bytes.
  static std::shared_ptr<const Tokenizer> bytes() {
    static const auto loaded = [] {
      const ScratchFolder folder;
      write_bytes_tokenizer(folder.path());
      auto tokenizer = Tokenizer::load(folder.path());
      tokenizer->finish_loading();  // before the folder goes
      return tokenizer;
    }();
    return loaded;
  }
  // The bytes of ids [begin, end).
  static std::string spelled(const Tokenizer& tokenizer, const std::vector<int32_t>& ids,
                             int32_t begin, int32_t end) {
    const TokenBytes token(tokenizer);
    std::string text;
    for (int32_t i = begin; i < end; ++i) text += token.of(ids[static_cast<size_t>(i)]);
    return text;
  }
};

}  // namespace xrun
