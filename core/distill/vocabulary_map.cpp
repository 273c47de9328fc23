// CSR by student token becomes CSC by teacher token: a loss over k of the teacher's columns then
// reads only the entries of these.

#include "core/distill/vocabulary_map.h"

#include <algorithm>

#include "core/base/error.h"

namespace xrun {

namespace {

void check_entries(int64_t student_vocab, int64_t teacher_vocab, const std::vector<int64_t>& begin,
                   const std::vector<int32_t>& id, const std::vector<float>& weight) {
  XRUN_CHECK(student_vocab > 0 && teacher_vocab > 0,
             "vocabulary map: got vocabularies of {} and {}, wanted at least one token in each",
             student_vocab, teacher_vocab);
  XRUN_CHECK(std::ssize(begin) == student_vocab + 1 && begin.front() == 0 &&
                 begin.back() == std::ssize(id) && std::ranges::is_sorted(begin),
             "vocabulary map: begin has {} numbers, wanted {} that rise from 0 to the {} entries",
             begin.size(), student_vocab + 1, id.size());
  XRUN_CHECK(id.size() == weight.size(), "vocabulary map: {} ids and {} weights", id.size(),
             weight.size());
  for (size_t e = 0; e < id.size(); ++e) {
    XRUN_CHECK(id[e] >= 0 && id[e] < teacher_vocab,
               "vocabulary map: id[{}] is {}, outside the teacher's vocabulary of {}", e, id[e],
               teacher_vocab);
  }
}

void group_by_teacher(const std::vector<int64_t>& begin, const std::vector<int32_t>& id,
                      const std::vector<float>& weight, VocabularyMap& map) {
  map.begin.assign(static_cast<size_t>(map.teacher_vocab) + 1, 0);
  for (const int32_t t : id) ++map.begin[static_cast<size_t>(t) + 1];
  for (size_t t = 0; t + 1 < map.begin.size(); ++t) map.begin[t + 1] += map.begin[t];
  std::vector<int64_t> next(map.begin.begin(), map.begin.end() - 1);
  map.student.resize(id.size());
  map.weight.resize(id.size());
  for (int64_t s = 0; s < map.student_vocab; ++s) {
    for (int64_t e = begin[s]; e < begin[s + 1]; ++e) {
      const int64_t to = next[id[e]]++;
      map.student[to] = static_cast<int32_t>(s);
      map.weight[to] = weight[e];
    }
  }
}

// Marks each token of a pair and returns the others.
std::vector<int32_t> tokens_outside(const std::vector<int32_t>& common, int64_t vocab,
                                    const char* side) {
  std::vector<bool> taken(static_cast<size_t>(vocab), false);
  for (const int32_t token : common) {
    XRUN_CHECK(token >= 0 && token < vocab,
               "vocabulary map: a common token of the {} is {}, outside its vocabulary of {}", side,
               token, vocab);
    XRUN_CHECK(!taken[token], "vocabulary map: token {} of the {} is in two pairs", token, side);
    taken[token] = true;
  }
  std::vector<int32_t> rest;
  for (int32_t token = 0; token < vocab; ++token) {
    if (!taken[token]) rest.push_back(token);
  }
  return rest;
}

}  // namespace

VocabularyMap make_vocabulary_map(int64_t student_vocab, int64_t teacher_vocab,
                                  const std::vector<int64_t>& begin, const std::vector<int32_t>& id,
                                  const std::vector<float>& weight,
                                  std::vector<std::pair<int32_t, int32_t>> common) {
  check_entries(student_vocab, teacher_vocab, begin, id, weight);
  VocabularyMap map;
  map.student_vocab = student_vocab;
  map.teacher_vocab = teacher_vocab;
  group_by_teacher(begin, id, weight, map);
  std::ranges::sort(common);
  for (const auto& [s, t] : common) {
    map.common_student.push_back(s);
    map.common_teacher.push_back(t);
  }
  map.rest_student = tokens_outside(map.common_student, student_vocab, "student");
  map.rest_teacher = tokens_outside(map.common_teacher, teacher_vocab, "teacher");
  return map;
}

}  // namespace xrun
