#pragma once
// The state of a DataSet: its open sources, and the ids of rows and windows.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/data/cache/row_cache.h"
#include "core/data/packs/data_set.h"
#include "core/data/packs/row_stream.h"
#include "core/data/packs/text_windows.h"
#include "core/data/rows/line_index.h"
#include "core/data/rows/row_encoder.h"

namespace xrun {

// Row ids count through the sources in order: row r of source s is first_row[s] + r.
struct DataSet::State {
  struct MixedSource {
    std::shared_ptr<const RowCache> cache;
    int64_t first_row = 0;
    double weight = 1;
    RowEncoding encoding = {};                 // without a tokenizer
    std::vector<int32_t> extra;                // the cache's column for each of the set's, or -1
    int64_t quota_rows = 0, quota_tokens = 0;  // 0: none
  };
  RowKind kind = RowKind::kPreference;
  std::vector<MixedSource> sources;
  std::vector<std::string> source_names;
  int64_t rows = 0;
  Ledger ledger;
  std::string fingerprint;
  std::vector<ExtraColumn> extra;
  MixtureStop stop = MixtureStop::kAll;
  MixtureOrder order = MixtureOrder::kBlocks;
  std::vector<MixtureStage> stages;
  int64_t vocab_limit = 0;  // token ids are below
  // The line indexes of files whose rows are read again, which happens step after step.
  std::shared_ptr<LineIndexes> indexes = std::make_shared<LineIndexes>();

  struct SourceRow {
    const MixedSource& source;
    size_t index;
    int64_t row;
  };
  SourceRow find(int64_t row) const {
    XRUN_CHECK(row >= 0 && row < rows, "row {} is out of range, the set has {}", row, rows);
    size_t s = sources.size() - 1;
    while (sources[s].first_row > row) --s;
    return {sources[s], s, row - sources[s].first_row};
  }

  // Merges the extra columns of all sources. Throws Error if a column holds numbers in one source,
  // and strings or nothing in another.
  void merge_extra();
  size_t extra_index(const std::string& name) const;
};

// The streams of a set's plans. Each is made once, since a quota in tokens reads the length of
// every row.
struct DataSet::Streams {
  std::mutex mutex;
  std::vector<std::pair<StepPlan, std::shared_ptr<const RowStream>>> known;
};

// Window ids count through the sources as row ids do: window w of source s is first[s] + w.
struct DataSet::Windows {
  int64_t length = 0;
  std::vector<TextWindows> sources;
  std::vector<int64_t> first = {0};  // first window of each source, then the number of windows

  size_t source_of(int64_t window) const {
    XRUN_CHECK(window >= 0 && window < first.back(), "window {} is out of range, the set has {}",
               window, first.back());
    const auto next = std::upper_bound(first.begin(), first.end(), window);
    return static_cast<size_t>(next - first.begin()) - 1;
  }
  std::vector<TextWindows::WindowPiece> pieces(int64_t window) const {
    const size_t s = source_of(window);
    return sources[s].pieces(window - first[s]);
  }
};

}  // namespace xrun
