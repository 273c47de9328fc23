// The prefix trie accepts empty lists and refuses lists that are too long.

#include "core/data/packs/prefix_trie.h"

#include <gtest/gtest.h>

#include "tests/error_of.h"

namespace xrun::prefix_trie_test {
namespace {

using Ids = std::vector<int32_t>;

TEST(PrefixTrie, AcceptsEmptyLists) {
  const Ids one = {1, 2};
  const std::vector<TokenList> lists = {TokenList(), one, TokenList()};
  const std::vector<int64_t> lengths = {0, 2, 0};
  const PrefixTrie trie = prefix_trie(lengths, sort_lists(lists), 1);
  EXPECT_EQ(trie.leaf, (Ids{-1, 0, -1}));
  EXPECT_EQ(trie.tokens(), 2);
}

TEST(PrefixTrie, RefusesListsOf2To31Tokens) {
  const Ids tokens(size_t{1} << 20, 7);
  const std::vector<TokenList> lists(2048, TokenList(tokens));
  EXPECT_EQ(error_of([&] { sort_lists(lists); }),
            "folding: 2147483648 tokens, the maximum is 2^31 - 1");
}

}  // namespace
}  // namespace xrun::prefix_trie_test
