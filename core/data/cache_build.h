#pragma once
// Builds a token cache of one source, segment by segment, so that a kill loses at most one.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/data/data_files.h"
#include "core/data/row_type.h"

namespace xrun {

struct CacheSource {
  std::string name;  // of the ledger
  std::vector<DataFile> files;
  Json key_document;                 // all that decides a byte of the cache
  uint64_t segment_bytes = 8 << 20;  // a segment ends with the row that reaches them
  std::function<void(int64_t rows, double fraction)> progress;  // at most every 0.2 s; may throw
  std::function<void(const std::string&)> notice;  // says that another process builds it; once
};

// Whether the source's cache is finished.
bool is_cached(const std::filesystem::path& data_root, const CacheSource& source);

// Returns the folder of the finished cache under `data_root`, building it first if there is none.
// One process builds, others wait. An interrupted build goes on behind its last segment; the files
// are the same bytes as those of a build without interruption, whatever the number of processes.
// Throws Error for a full disk, Interrupted on a signal (also while it waits): a later call goes on
// where this one stood. Throws Error for what RowWorker::encode throws and for a
// file that changes meanwhile: nothing of such a build is left, and a later call begins anew.
std::filesystem::path ensure_cache(const std::filesystem::path& data_root,
                                   const CacheSource& source, const RowType& row_type);

}  // namespace xrun
