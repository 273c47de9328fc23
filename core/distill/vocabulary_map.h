#pragma once
// A projection between two vocabularies, in the order in which the losses read it.

#include <cstdint>
#include <utility>
#include <vector>

namespace xrun {

// Immutable once made, so threads may share it.
struct VocabularyMap {
  int64_t student_vocab = 0, teacher_vocab = 0;  // Vs, Vt
  // The projection by teacher token (CSC): token t receives weight[e] of the probability of
  // student token student[e], for e from begin[t] to begin[t + 1].
  std::vector<int64_t> begin;    // [Vt + 1]
  std::vector<int32_t> student;  // rising within a teacher token
  std::vector<float> weight;
  // Pairs of common tokens, rising on the student's side, and the tokens in no pair, rising.
  std::vector<int32_t> common_student, common_teacher;
  std::vector<int32_t> rest_student, rest_teacher;
};

// Makes the map from a projection by student token (CSR).
//   begin       [Vs + 1], from 0 to the number of entries, never falling
//   id, weight  teacher tokens and weights of the entries
//   common      pairs (student token, teacher token), each token in at most one pair
// Throws Error for another shape, an id out of range, or a token in two pairs.
VocabularyMap make_vocabulary_map(int64_t student_vocab, int64_t teacher_vocab,
                                  const std::vector<int64_t>& begin, const std::vector<int32_t>& id,
                                  const std::vector<float>& weight,
                                  std::vector<std::pair<int32_t, int32_t>> common);

}  // namespace xrun
