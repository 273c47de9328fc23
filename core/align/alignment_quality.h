#pragma once
// Measures how well two tokenizers align: how many of the student's tokens are supervised, and
// where the rest are lost.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/align/alignment.h"
#include "core/align/token_table.h"
#include "core/align/walker.h"
#include "core/base/json.h"

namespace xrun {

// One aligned document.
struct QualityDocument {
  int64_t row = 0;  // the document's number, for the examples
  const TokenTable& student;
  std::span<const int32_t> student_ids;
  const TokenTable& teacher;
  std::span<const int32_t> teacher_ids;
  std::span<const AlignedPair> pairs;
  WalkFindings findings = {};
};

// Adds up the counts of many documents. Not thread-safe.
class AlignmentQuality {
 public:
  // A run of tokens that no correct pair supervises, or a long correct pair, with its text.
  struct Example {
    int64_t row = 0;
    bool lost = false;   // false: a correct pair of many tokens
    int64_t tokens = 0;  // lost: of the student; otherwise of both sides together
    std::string text;    // the student's text, in UTF-8
    std::vector<std::string> student, teacher;  // the tokens; a special one by its spelling
  };

  void add(const QualityDocument& document);

  int64_t documents() const { return documents_; }
  int64_t student_tokens() const { return student_.tokens; }
  // Returns the share of the student's tokens in correct pairs; 1 without tokens.
  double coverage() const { return student_.coverage(); }
  double teacher_coverage() const { return teacher_.coverage(); }
  // Returns the worst examples first: lost runs by length, then long pairs.
  const std::vector<Example>& worst() const { return worst_; }

  // Returns a warning that names the coverage and the worst example, "file:row", if the coverage is
  // below kLeastCoverage.
  std::optional<std::string> warning(const std::string& file) const;
  // Two tokenizers whose pieces spell bytes reach 1; below this, too many tokens go without
  // supervision.
  static constexpr double kLeastCoverage = 0.98;

  std::string text() const;  // as lines, with pieces quoted as in JSON
  Json json() const;

 private:
  struct SideCounts {
    int64_t tokens = 0, in_correct_pairs = 0, orphans = 0, longest = 0;
    double coverage() const {
      return tokens == 0 ? 1.0 : double(in_correct_pairs) / double(tokens);
    }
  };
  void count(const AlignedPair& pair);
  void offer(const QualityDocument& document, size_t begin, size_t end, bool lost);

  int64_t documents_ = 0, differing_ = 0, long_pairs_ = 0;
  SideCounts student_, teacher_;
  // Correct pairs by numbers of student and teacher tokens: 1:1, 1:n, n:1, n:m.
  int64_t one_one_ = 0, one_many_ = 0, many_one_ = 0, many_many_ = 0;
  int64_t wrong_ = 0;  // two-sided pairs that are not correct
  std::vector<Example> worst_;
};

}  // namespace xrun
