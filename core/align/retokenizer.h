#pragma once
// Retokenises a student's tokens for a teacher: the teacher's encoding of the text that they spell,
// aligned with them. If the tokens of both sides are known, use TokenAligner.

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
  int32_t covered = -1;  // the student's tokens up to that limit; -1: it cut nothing
};

// Cuts a document before its first pair that ends beyond one of the limits.
//   student  limit in the student's tokens
//   teacher  limit in the teacher's tokens; 0: none
void cut_document(AlignedDocument& document, int64_t student, int64_t teacher);

struct RetokenizerOptions {
  int64_t limit = 0;  // tokens of a document that the teacher can read; 0: any number
  WalkOptions walk = {};
};

// Two tokenizers and their byte tables. Immutable and thread-safe.
//
// The student's own tokens stay as they are: their exact bytes are the text. A special token
// becomes the teacher's special of the same role, where it has one. The teacher's text begins with
// the BOS that its own encoding adds. Tokens whose bytes are not UTF-8, as at the border of a
// window or in a sampled answer, have no partner.
class Retokenizer {
 public:
  // Throws Error if a tokenizer is null or damaged.
  Retokenizer(std::shared_ptr<const Tokenizer> student, std::shared_ptr<const Tokenizer> teacher,
              const RetokenizerOptions& options = {});

  // Returns true if the teacher reads the student's ids as they are, so that no alignment is
  // needed: both give the same ids to the same pieces, or the teacher has more pieces beyond them.
  bool same_vocabulary() const { return same_vocabulary_; }
  const std::string& teacher_fingerprint() const { return fingerprint_t_; }
  const Tokenizer& student() const { return *student_; }
  const Tokenizer& teacher() const { return *teacher_; }
  const TokenTable& student_table() const { return table_s_; }
  const TokenTable& teacher_table() const { return table_t_; }
  int64_t limit() const { return options_.limit; }
  const WalkOptions& walk() const { return options_.walk; }

  // Returns the teacher's tokens of the student's text, cut at the last pair within the limit, and
  // the pairs of both. Throws Error for an id out of range.
  AlignedDocument align(std::span<const int32_t> ids) const;
  // Aligns a sampled answer, which follows a prompt: adds no BOS and applies no limit. Bytes that
  // are not UTF-8 become the teacher's tokens of single bytes, where it has them; only the
  // beginning of a character at the end, where the answer was cut off, has no partner. Ids beyond
  // the vocabulary, which a model may sample, have no partner either.
  //   turn_end  the teacher's token for the end of a turn, the partner of the answer's last token
  //             if that is special, whatever its role; nullopt: roles decide
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
  std::array<int32_t, 256> byte_token_;                   // the last token of one byte; -1: none
  std::vector<int32_t> leading_;                          // before every text of the teacher
};

}  // namespace xrun
