#pragma once
// The state of a DataSet: open sources, and where a row id lies in them.

#include <memory>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/data/packs/data_set.h"
#include "core/data/cache/row_cache.h"

namespace xrun {

// Row ids count through the sources in order: row r of source s is first_row[s] + r.
struct DataSet::State {
  // What the rows of a source were encoded with.
  struct RowEncoding {
    RowSettings settings = {};
    std::shared_ptr<const RowTransformSource> transform = nullptr;
    std::shared_ptr<const ChatTemplate> chat_template = nullptr;
  };
  static RowEncoding row_encoding(const DataOptions& options, size_t source,
                                  const std::shared_ptr<const ChatTemplate>& chat_template);
  struct Source {
    std::shared_ptr<const RowCache> cache;
    int64_t first_row = 0;
    double weight = 1;
    RowEncoding encoding = {};
    std::vector<int32_t> kept;  // for each column of the set the cache's, or -1
  };
  RowKind kind = RowKind::kPreference;
  std::vector<Source> sources;
  int64_t rows = 0;
  Ledger ledger;
  std::string fingerprint;
  std::vector<Kept> kept;
  MixtureStop stop = MixtureStop::kAll;
  std::vector<MixtureStage> stages;
  int64_t vocab_limit = 0;  // token ids are below

  struct Place {
    const Source& source;
    size_t index;
    int64_t row;
  };
  Place place(int64_t row) const {
    XRUN_CHECK(row >= 0 && row < rows, "row {} is out of range, the set has {}", row, rows);
    size_t s = sources.size() - 1;
    while (sources[s].first_row > row) --s;
    return {sources[s], s, row - sources[s].first_row};
  }

  // Brings the kept columns of all sources together. Throws Error if one holds numbers in one
  // source and strings, or nothing, in another.
  void merge_kept();
  size_t kept_index(const std::string& name) const;
};

}  // namespace xrun
