#pragma once
// The interface through which a data set gets its documents in a teacher's tokens, so that packs
// need not know alignments.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/data/packs/packed_batch.h"

namespace xrun {

// One document of a pack in a teacher's tokens.
struct CompanionTokens {
  // Two token ranges that spell the same bytes, half-open.
  struct Chunk {
    int32_t s_begin, s_end;  // of the document's own tokens
    int32_t t_begin, t_end;  // of `ids`
    bool operator==(const Chunk&) const = default;
  };
  std::vector<int32_t> ids;   // at least one
  std::vector<Chunk> chunks;  // rising on both sides
  int64_t wrong = 0;          // pairs that spell different bytes
  int64_t one_sided = 0;      // tokens of either side without a partner
  // The number of the document's own tokens in the prefix that both models read; -1: all of them.
  int32_t covered = -1;
  bool operator==(const CompanionTokens&) const = default;
};

// Aligns documents with their tokens in a teacher's tokenizer. Thread-safe.
class CompanionSource {
 public:
  // The tokens of a row, or of the part of it in a window; `ids` must outlive the call.
  struct Document {
    int64_t row;
    int32_t side;  // as PackedBatch::side
    std::span<const int32_t> ids;
  };
  virtual ~CompanionSource() = default;

  // Returns the companion of each document, in order; a pure function of its ids. Throws Error if
  // a document cannot be aligned.
  virtual std::vector<CompanionTokens> align(const std::vector<Document>& documents) const = 0;
  // Returns the fingerprint of the teacher's vocabulary.
  virtual const std::string& fingerprint() const = 0;
};

// Gives a batch without chunks its companion from one CompanionTokens for each segment, in order:
// cuts each segment to its covered prefix, and fills PackedBatch::companion, ::chunk and
// ::alignment. Chunks that are not valid (packed_batch.h) are left out. `seconds` goes into the
// counts. Throws Error if a chunk is out of its document's range.
void add_companion(PackedBatch& batch, const std::vector<CompanionTokens>& documents,
                   const std::string& fingerprint, double seconds = 0);

// Aligns the segments of all packs at once and gives each pack its companion. The counts of the
// first pack have the time that it took.
void add_companions(std::vector<PackedBatch>& packs, const CompanionSource& source);

// Numbers the chunks for a teacher with the student's own vocabulary: one for each loss row of
// positive weight. Such a pack has no companion, since the teacher reads the pack itself. First
// cuts segments to the `limit` tokens that the teacher can read; 0: any number.
void number_row_chunks(PackedBatch& batch, int64_t limit = 0);

}  // namespace xrun
