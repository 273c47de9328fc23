#pragma once
// Makes companions: a document in the teacher's tokens, paired with the student's.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/align/retokenizer.h"
#include "core/base/json.h"
#include "core/data/packs/companion_source.h"

namespace xrun {

// Computes every companion that it is asked for. AlignedRows stores them.
class CompanionMaker : public CompanionSource {
 public:
  // Everything besides a document that decides what align() returns: the key of a cache.
  virtual Json made_by() const = 0;
  virtual int64_t vocab_size() const = 0;  // of the teacher
};

// Text and token rows: the teacher's encoding of the text that a document's tokens spell, on worker
// threads. Thread-safe.
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

// Returns the correct pairs of a document as chunks, and counts the others. If the teacher has
// no token, the result has its EOS, since a model reads at least one.
CompanionTokens companion_of(AlignedDocument document, const Tokenizer& teacher);

}  // namespace xrun
