// An alignment partitions both token sequences, in order.

#include "core/align/alignment.h"

#include <utility>

#include "core/base/error.h"

namespace xrun {
namespace {

// Checks that one side of a pair begins where the previous pair ended, and returns its end.
int64_t check_side(const char* side, size_t pair, int64_t begin, int64_t end, int64_t expected) {
  // The pair is an orphan of the other side, so this side does not advance.
  if (begin == -1 && end == -1) return expected;
  XRUN_CHECK(begin == expected && end > begin,
             "alignment: pair {} has the {} tokens [{}, {}), wanted a range that begins at {}",
             pair, side, begin, end, expected);
  return end;
}

}  // namespace

void check_alignment(const Alignment& pairs, int64_t student_tokens, int64_t teacher_tokens) {
  int64_t student = 0, teacher = 0;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const AlignedPair& pair = pairs[i];
    student = check_side("student", i, pair.s_begin, pair.s_end, student);
    teacher = check_side("teacher", i, pair.t_begin, pair.t_end, teacher);
    XRUN_CHECK(pair.s_begin >= 0 || pair.t_begin >= 0, "alignment: pair {} is empty on both sides",
               i);
  }
  // A partition: no token is left over on either side.
  XRUN_CHECK(student == student_tokens && teacher == teacher_tokens,
             "alignment: the pairs cover {} student and {} teacher tokens of {} and {}", student,
             teacher, student_tokens, teacher_tokens);
}

Alignment exchanged(Alignment pairs) {
  for (AlignedPair& pair : pairs) {
    std::swap(pair.s_begin, pair.t_begin);
    std::swap(pair.s_end, pair.t_end);
  }
  return pairs;
}

}  // namespace xrun
