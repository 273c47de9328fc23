#pragma once
// Rows of a data source as a run trained them, read from its token cache if that still exists.

#include <filesystem>
#include <string>
#include <vector>

#include "core/base/json.h"

namespace xrun {

// The text of neighbouring tokens that are all trained or all not.
struct RowPiece {
  std::string text;
  bool trained;
};

struct SampleRow {
  std::string location;  // "pairs.jsonl:17"; "rows.jsonl:17, label true" for feedback
  // One stream; the chosen and the rejected side for a pair.
  std::vector<std::vector<RowPiece>> streams;
};

struct SourceSample {
  std::string name;                          // as the recipe spells the source
  std::vector<std::string> streams;          // their names
  std::vector<SampleRow> rows;               // some, spread over the source
  std::vector<std::vector<double>> lengths;  // [streams] tokens of each row, or of some thousands
  std::string gap;                           // the reason for missing rows or lengths, or ""
};

// Returns an entry for every source in run.json's "inputs". The caches are looked for in `store`;
// texts need the run's tokenizer, which is taken from the exported model in `run_dir`/hf or from a
// model that is a folder. Nothing is built or written; whatever fails is the entry's gap.
std::vector<SourceSample> sample_sources(const Json& record, const Json& config,
                                         const std::filesystem::path& run_dir,
                                         const std::filesystem::path& store);

}  // namespace xrun
