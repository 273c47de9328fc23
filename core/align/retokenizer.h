#pragma once
// Retokenises a student's tokens for a teacher: encodes the text that they spell with the teacher's
// tokenizer and aligns both. If the tokens of both sides are known, use TokenAligner.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/align/alignment.h"
#include "core/align/token_table.h"
#include "core/align/walker.h"
#include "core/base/json.h"
#include "core/text/tokenizer/tokenizer.h"

namespace xrun {

struct AlignedDocument {
  std::vector<int32_t> teacher_ids;
  Alignment pairs;       // of all teacher_ids and the student's tokens up to the teacher's limit
  int32_t covered = -1;  // number of the student's tokens up to that limit; -1: it cut nothing
};

// Cuts a document before the first pair that ends beyond a limit.
//   student  limit in the student's tokens
//   teacher  limit in the teacher's tokens; 0: none
void cut_document(AlignedDocument& document, int64_t student, int64_t teacher);

struct RetokenizerOptions {
  int64_t limit = 0;  // tokens of a document that the teacher can read; 0: any number
  WalkOptions walk = {};
};

// Two tokenizers and their byte tables. Immutable and thread-safe.
//
// The student's own tokens stay as they are, and their exact bytes are the text. A special token
// becomes the teacher's special token of the same role, if there is one. The teacher's text begins
// with the BOS that its own encoding adds. In a document, tokens whose bytes are not UTF-8 (at the
// border of a window, for example) have no partner.
class Retokenizer {
 public:
  // Throws Error if a tokenizer is null or damaged.
  Retokenizer(std::shared_ptr<const Tokenizer> student, std::shared_ptr<const Tokenizer> teacher,
              const RetokenizerOptions& options = {});

  // Returns true if the teacher can read the student's ids, so that no alignment is needed: both
  // give the same ids to the same pieces, and the teacher may have more pieces.
  bool same_vocabulary() const { return same_vocabulary_; }
  const std::string& teacher_fingerprint() const { return fingerprint_t_; }
  const Tokenizer& student() const { return *student_; }
  const Tokenizer& teacher() const { return *teacher_; }
  const TokenTable& student_table() const { return table_s_; }
  const TokenTable& teacher_table() const { return table_t_; }
  int64_t limit() const { return options_.limit; }
  const WalkOptions& walk() const { return options_.walk; }

  // Returns the teacher's tokens of the student's text, cut after the last pair within the limit,
  // and the pairs. Throws Error for an id out of range.
  AlignedDocument align(std::span<const int32_t> ids) const;
  // Aligns a sampled answer, which follows a prompt: adds no BOS and applies no limit. Bytes that
  // are not UTF-8 become the teacher's tokens of single bytes, if it has them. An incomplete
  // character at the end, where the answer was cut off, has no partner; nor has an id beyond the
  // vocabulary, which a model may sample.
  //   turn_end  the teacher's token for the end of a turn, the partner of the answer's last token
  //             if that is a special one of any role; nullopt: roles decide
  AlignedDocument align_answer(std::span<const int32_t> ids,
                               std::optional<int32_t> turn_end = std::nullopt) const;

  // Returns everything that decides what align() returns, for the key of a cache.
  Json made_by() const;

 private:
  class Builder;

  std::shared_ptr<const Tokenizer> student_, teacher_;
  TokenTable table_s_, table_t_;
  std::string fingerprint_s_, fingerprint_t_;
  bool same_vocabulary_;
  RetokenizerOptions options_;
  std::unordered_map<int32_t, int32_t> teacher_special_;  // by role, the lowest id
  std::array<int32_t, 256> byte_token_;                   // by byte: the last such token; -1: none
  std::vector<int32_t> leading_;                          // begins every text of the teacher
};

}  // namespace xrun
