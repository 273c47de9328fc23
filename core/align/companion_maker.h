#pragma once
// Makes companions: documents in the teacher's tokens, with the chunks that pair them with the
// student's.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/align/retokenizer.h"
#include "core/base/json.h"
#include "core/data/packs/companion_source.h"

namespace xrun {

// Computes every companion that align() is asked for; AlignedRows stores them.
class CompanionMaker : public CompanionSource {
 public:
  // Returns everything besides a document that decides what align() returns, for the key of a
  // cache.
  virtual Json made_by() const = 0;
  virtual int64_t vocab_size() const = 0;  // of the teacher
};

// The companions of text and token rows: the text that a document's tokens spell is encoded for the
// teacher. Works on several threads. Thread-safe.
class TextCompanions : public CompanionMaker {
 public:
  // workers 0: one per core.
  explicit TextCompanions(std::shared_ptr<const Retokenizer> retokenizer, int workers = 0);

  std::vector<CompanionTokens> align(const std::vector<Document>& documents) const override;
  const std::string& fingerprint() const override { return retokenizer_->teacher_fingerprint(); }
  Json made_by() const override { return retokenizer_->made_by(); }
  int64_t vocab_size() const override { return retokenizer_->teacher().vocab_size(); }

 private:
  std::shared_ptr<const Retokenizer> retokenizer_;
  int workers_;
};

// Returns the correct pairs of a document as chunks, and counts the others. If the document has no
// teacher token, the result has the teacher's EOS, or token 0 if it has no EOS: a model reads at
// least one token.
CompanionTokens companion_of(AlignedDocument document, const Tokenizer& teacher);

}  // namespace xrun
