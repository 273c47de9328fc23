// Runs of special tokens pair by their longest common subsequence.

#include "core/align/special_roles.h"

#include <gtest/gtest.h>

namespace xrun::special_roles_test {

namespace {

TEST(SpecialRoles, EqualNamesHaveEqualNumbers) {
  EXPECT_EQ(special_role("eos"), special_role("eos"));
  EXPECT_NE(special_role("eos"), special_role("bos"));
  EXPECT_EQ(special_role_name(special_role("a role of this test")), "a role of this test");
}

class SpecialRuns : public testing::Test {
 protected:
  // One letter per token; "." pairs with none.
  SpecialRun run(const std::string& letters, int32_t begin) {
    SpecialRun out{begin, {}};
    for (const char letter : letters) {
      held_.push_back(std::make_unique<SpecialRoles>(SpecialRoles{special_role({&letter, 1})}));
      out.roles.push_back(letter == '.' ? nullptr : held_.back().get());
    }
    return out;
  }
  Alignment pair(const std::string& s, const std::string& t) {
    Alignment out;
    pair_specials(run(s, 3), run(t, 5), out);
    return out;
  }
  std::vector<std::unique_ptr<SpecialRoles>> held_;
};

TEST_F(SpecialRuns, PairTheLongestCommonSubsequence) {
  EXPECT_EQ(pair("xy", "zxy"),
            (Alignment{{-1, -1, 5, 6, false}, {3, 4, 6, 7, true}, {4, 5, 7, 8, true}}));
  EXPECT_EQ(pair("", "z"), (Alignment{{-1, -1, 5, 6, false}}));
  EXPECT_EQ(pair(".", "."), (Alignment{{3, 4, -1, -1, false}, {-1, -1, 5, 6, false}}));
}

TEST_F(SpecialRuns, ATieDoesNotDependOnTheSides) {
  const auto letter_of_pair = [&](const std::string& s, const std::string& t) {
    for (const AlignedPair& pair : pair(s, t)) {
      if (pair.correct) return s[size_t(pair.s_begin - 3)];
    }
    return '?';
  };
  EXPECT_EQ(letter_of_pair("xy", "yx"), letter_of_pair("yx", "xy"));
}

TEST_F(SpecialRuns, VeryLongRunsAreOrphans) {
  const std::string many(3000, 'x');
  const Alignment pairs = pair(many, many);
  EXPECT_EQ(pairs.size(), 6000u);
  EXPECT_FALSE(pairs[0].correct);
}

}  // namespace

}  // namespace xrun::special_roles_test
