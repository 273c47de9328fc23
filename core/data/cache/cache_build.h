#pragma once
// Builds a token cache of one source, segment by segment, so that a kill loses at most one.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/data/cache/data_files.h"
#include "core/data/cache/file_digests.h"
#include "core/data/rows/row_type.h"

namespace xrun {

// Columns of one file. A kill loses what is not yet in a file: some 25 million tokens, which two
// cores make in about two seconds; and a cache of 10 million rows has some forty files to open.
constexpr uint64_t kSegmentBytes = uint64_t{64} << 20;

struct CacheSource {
  std::string name;  // of the ledger
  std::vector<DataFile> files;
  Json key_document;                       // all that decides a byte of the cache
  uint64_t segment_bytes = kSegmentBytes;  // a segment ends with the row that reaches them
  int workers = 0;                         // threads that encode rows; 0: one a core
  size_t block_bytes = size_t{1} << 20;    // of content that a worker takes at a time
  bool strict = false;                     // the first dropped, cut or repaired row is an Error
  FileDigests digests;                     // where those of `files` may be remembered
  std::function<void(int64_t rows, double fraction)> progress;  // at most every 0.2 s; may throw
  // Says, once each, that another process builds it, and why an interrupted build cannot go on.
  std::function<void(const std::string&)> notice;
};

// Whether the source's cache is finished.
bool is_cached(const std::filesystem::path& data_root, const CacheSource& source);

// Returns the folder of the finished cache under `data_root`, building it first if there is none.
// One process builds, others wait. An interrupted build goes on behind its last segment; the files
// are the same bytes as those of a build without interruption, whatever the number of processes,
// of workers and the size of blocks. Memory is bounded by the segment, some blocks a worker and the
// longest row. Call it from the thread that answers interrupts.
// Throws FileError for a full disk or a file that cannot be read, Error for the first row that
// `strict` takes not, Interrupted on a signal (also while it waits): a later call goes on where
// this one stood. Throws Error for rows that cannot be told apart, for the first row, in source
// order, of which RowWorker::encode throws more than a RowRefusal, and for a file that changes
// meanwhile: nothing of such a build is left, and a later call begins anew.
std::filesystem::path ensure_cache(const std::filesystem::path& data_root,
                                   const CacheSource& source, const RowType& row_type);

}  // namespace xrun
