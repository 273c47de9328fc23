#pragma once
// Caches the companions of a data set's rows beside the token cache.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/align/companion_maker.h"
#include "core/data/cache/sidecar.h"

namespace xrun {

class DataSet;

// Stores the companions that a maker computes, in a sidecar with the key CompanionMaker::made_by.
// Cached and computed companions are equal. Thread-safe.
class AlignedRows : public CompanionSource {
 public:
  // `root` is the folder of the sidecars (sidecar_root()). Throws Error if the sidecar cannot be
  // opened.
  AlignedRows(std::shared_ptr<const CompanionMaker> maker, const std::filesystem::path& root);
  ~AlignedRows() override;  // flushes; never throws
  AlignedRows(const AlignedRows&) = delete;
  AlignedRows& operator=(const AlignedRows&) = delete;

  std::vector<CompanionTokens> align(const std::vector<Document>& documents) const override;
  const std::string& fingerprint() const override { return maker_->fingerprint(); }

  // Writes what is not yet on disk. Throws Error as Sidecar::flush does.
  void flush() const;

  SidecarCounts counts() const;  // counts documents

 private:
  std::vector<size_t> read_cached(const std::vector<Document>& documents,
                                  const std::vector<uint64_t>& stamps,
                                  std::vector<CompanionTokens>& out) const;

  std::shared_ptr<const CompanionMaker> maker_;
  mutable std::mutex mutex_;  // guards the members below
  std::unique_ptr<Sidecar> sidecar_;
  mutable SidecarCounts counts_;
};

// The coverage of a set by a teacher's tokens, estimated from evenly spaced rows. Counts the chunks
// that train, as a step does for align/coverage.
struct AlignmentSample {
  struct LossyRow {
    int64_t row;
    int64_t tokens;  // that could be trained
    int64_t lost;    // of these, in no chunk
  };
  int64_t rows = 0, tokens = 0, lost = 0;
  int64_t chunks = 0;           // that train
  int64_t cut_rows = 0;         // longer than the teacher reads
  std::vector<LossyRow> worst;  // at most 3 rows with lost tokens, the largest share first

  double coverage() const;  // 1 without tokens
};
// Aligns `rows` rows of the set, or all if it has fewer.
AlignmentSample sample_alignment(const DataSet& set, const CompanionSource& source, int64_t rows);

}  // namespace xrun
