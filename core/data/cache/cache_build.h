#pragma once
// Builds the token cache of one source shard by shard, so that a kill loses little work.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/data/cache/data_files.h"
#include "core/data/cache/file_digests.h"
#include "core/data/rows/row.h"
#include "core/data/rows/row_encoder.h"

namespace xrun {

// Bytes of one shard's columns. A kill loses the rows that are in no shard yet: some 25 million
// tokens, about two seconds of work on two cores. A cache of 10 million rows has some forty files.
constexpr uint64_t kShardBytes = uint64_t{64} << 20;

struct CacheSource {
  std::string name;  // of the ledger
  RowSchema schema;
  RowEncoderMaker make_encoder;  // called once per worker
  std::vector<DataFile> files;
  Json key_document;                     // everything that decides a byte of the cache
  uint64_t shard_bytes = kShardBytes;    // a shard ends with the row that reaches them
  int workers = 0;                       // threads that encode rows; 0: one per core
  size_t block_bytes = size_t{1} << 20;  // of content that a worker takes at a time
  bool strict = false;                   // the first dropped, cut or repaired row is an Error
  FileDigests digests;                   // the store that may remember those of `files`
  std::function<void(int64_t rows, double fraction)> progress;  // at most every 0.2 s; may throw
  // Takes two kinds of notices: another process builds the cache; an interrupted build cannot
  // continue.
  std::function<void(const std::string&)> notice;
};

// Returns true if the source's cache is finished.
bool is_cached(const std::filesystem::path& data_root, const CacheSource& source);

// Returns the folder of the finished cache under `data_root`, building it first if there is none.
// One process builds, others wait. An interrupted build continues after its last shard; the files
// have the same bytes as those of an uninterrupted build, whatever the number of processes and
// workers and the size of blocks. Memory is bounded by two shards, a few blocks per worker and the
// longest row. Call it from the thread that answers interrupts.
// A later call continues the build after
//   FileError    a full disk or an unreadable file
//   Error        the first row that `strict` rejects
//   Interrupted  a signal, also while it waits for another process
// Nothing of the build is left, and a later call starts again, after an Error for rows that cannot
// be told apart, for the first row in source order for which RowEncoder::encode throws anything but
// a RowRefusal, and for a file that changes meanwhile.
std::filesystem::path ensure_cache(const std::filesystem::path& data_root,
                                   const CacheSource& source);

}  // namespace xrun
