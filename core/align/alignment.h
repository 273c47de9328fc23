#pragma once
// The alignment of two tokenisations of one text: pairs of a student span and a teacher span.

#include <cstdint>
#include <vector>

namespace xrun {

// Half-open token ranges over the same text. An empty side is [-1, -1); the other side is then an
// orphan, of one token except in a DpAligner's result.
struct AlignedPair {
  int32_t s_begin = -1, s_end = -1;  // of the student
  int32_t t_begin = -1, t_end = -1;  // of the teacher
  bool correct = false;  // both sides spell the same bytes, or are special tokens of one meaning
  bool operator==(const AlignedPair&) const = default;
};

using Alignment = std::vector<AlignedPair>;

// Checks the invariant of every aligner, for tests, fuzz targets and benchmarks: the pairs ascend
// on both sides and cover each token of the student and of the teacher exactly once. Throws Error
// that names the first pair at fault.
void check_alignment(const Alignment& pairs, int64_t student_tokens, int64_t teacher_tokens);

// Returns the same alignment with student and teacher exchanged.
Alignment exchanged(Alignment pairs);

}  // namespace xrun
