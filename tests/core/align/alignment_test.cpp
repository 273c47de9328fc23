// An alignment partitions both sides.

#include "core/align/alignment.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/error_of.h"

namespace xrun::alignment_test {

TEST(Alignment, CoversBothSidesOnce) {
  const Alignment pairs = {{0, 1, -1, -1, false}, {1, 3, 0, 1, true}, {-1, -1, 1, 2, false}};
  check_alignment(pairs, 3, 2);
  EXPECT_EQ(error_of([&] { check_alignment(pairs, 4, 2); }),
            "alignment: the pairs cover 3 student and 2 teacher tokens of 4 and 2");
  EXPECT_EQ(error_of([&] {
              check_alignment({{1, 2, 0, 1, true}}, 2, 1);
            }),
            "alignment: pair 0 has the student tokens [1, 2), wanted a range that begins at 0");
  EXPECT_EQ(error_of([&] {
              check_alignment({{0, 1, 0, 0, true}}, 1, 0);
            }),
            "alignment: pair 0 has the teacher tokens [0, 0), wanted a range that begins at 0");
  EXPECT_EQ(error_of([&] { check_alignment({{}}, 0, 0); }),
            "alignment: pair 0 is empty on both sides");
}

TEST(Alignment, ExchangedTwiceIsTheSame) {
  const Alignment pairs = {{0, 1, -1, -1, false}, {1, 3, 0, 1, true}};
  EXPECT_EQ(exchanged(pairs), (Alignment{{-1, -1, 0, 1, false}, {0, 1, 1, 3, true}}));
  EXPECT_EQ(exchanged(exchanged(pairs)), pairs);
}

}  // namespace xrun::alignment_test
