#pragma once
// An alignment of two tokenisations of one text: pairs of a student span and a teacher span.

#include <cstdint>
#include <vector>

namespace xrun {

// Half-open token ranges over the same text. An empty side is [-1, -1); the other side is then an
// orphan of one token.
struct AlignedPair {
  int32_t s_begin = -1, s_end = -1;  // of the student
  int32_t t_begin = -1, t_end = -1;  // of the teacher
  bool correct = false;              // both sides spell the same bytes, or are specials of one role
  bool operator==(const AlignedPair&) const = default;
};

using Alignment = std::vector<AlignedPair>;

// The invariant of every aligner, for tests, fuzz targets and benchmarks. Throws Error that names
// the first pair at fault unless the pairs ascend on both sides and cover every one of the
// student's and the teacher's tokens exactly once.
void check_alignment(const Alignment& pairs, int64_t student_tokens, int64_t teacher_tokens);

// Returns the same alignment with student and teacher exchanged.
Alignment exchanged(Alignment pairs);

}  // namespace xrun
