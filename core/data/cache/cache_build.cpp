// To commit a shard, its file and the list of bad rows are written and synced, then the partial
// manifest is replaced. It holds everything that a later build needs to continue: ledger, summary,
// and the cursor after the last committed row. A commit runs while the next shard is gathered, and
// ends before the next commit begins. The finished manifest has another name, so an unfinished
// folder is never taken for a cache.
//
// The key names the files by digest, so the rows must come from exactly these bytes: the reader
// hashes them. At a file's end the hash is compared with the key's digest, and a build that
// continues compares the content before its cursor with the content of the committed rows.

#include "core/data/cache/cache_build.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <optional>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/file_lock.h"
#include "core/base/hash.h"
#include "core/base/interrupt.h"
#include "core/base/utf8.h"
#include "core/data/cache/bad_row_log.h"
#include "core/data/cache/cache_folder.h"
#include "core/data/cache/cache_manifest.h"
#include "core/data/cache/row_columns.h"
#include "core/data/cache/row_pipeline.h"
#include "core/data/cache/shard_file.h"
#include "core/data/rows/data_fault.h"
#include "core/data/rows/ledger.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;
constexpr auto kProgressInterval = std::chrono::milliseconds(200);
// A shard contains a huge row if it exceeds shard_bytes by more than this fraction, 1/8.
constexpr uint64_t kHugeRowDivisor = 8;

// Returns true if an error says nothing about the data, so that committed shards stay.
bool is_of_system(const Error& error) {
  const auto* data = dynamic_cast<const DataError*>(&error);
  return (data != nullptr && data->of_system()) ||
         dynamic_cast<const FileError*>(&error) != nullptr;
}

// One build of a cache, by the process that holds its lock.
class Build {
 public:
  Build(const fs::path& dir, const CacheSource& source)
      : dir_(dir), source_(source), columns_(source.schema) {}

  void run() {
    remove_temporaries(dir_);  // this process holds the lock, so nobody writes them
    if (!continue_build()) begin();
    // A build that continues may have committed bad rows before the recipe became strict.
    if (source_.strict) check_strict(manifest_.ledger, true);
    try {
      take_rows();
    } catch (const Error& error) {
      // After an error of the disk the committed shards stay: the next run continues from them.
      if (data_fault_ && !is_of_system(error)) discard();
      throw;
    }
    finish();
  }

 private:
  // Removes everything: the data is at fault, so these bytes never give a finished cache.
  void discard() {
    // The thread of a commit still writes into the folder.
    if (committing_.valid()) committing_.wait();
    remove_cache_folder(dir_);
  }

  // Starts from nothing: leftovers of an older build must not be appended to.
  void begin() {
    remove_build(dir_);
    manifest_ = CacheManifest();
    manifest_.key = cache_key(source_.key_document);
    manifest_.row_type = row_kind_name(columns_.schema().kind);
    manifest_.key_document = source_.key_document;
    manifest_.ledger.name = source_.name;
    for (const DataFile& file : source_.files) manifest_.ledger.files.push_back(file.name);
    cursor_ = {};
    content_ = Hasher();
    splitter_.reset();
    bad_rows_.emplace(dir_ / kBadRowsName, BadRowsEntry());
  }

  // Continues from the partial manifest. Returns false, and every row is then read again, if there
  // is none, or, with a notice, if it or its files are damaged or of other bytes or columns.
  bool continue_build() {
    if (!path_exists(dir_ / kPartialName)) return false;
    // Restored below if restoring the columns fails halfway.
    const Json fresh = columns_.summary();
    try {
      // Reads every committed page once: a torn shard must not end up in a finished cache.
      manifest_ = read_interrupted_build(dir_);
      columns_.restore(manifest_.summary);
      XRUN_CHECK(columns_.columns() == manifest_.columns, "its columns have changed");
      bad_rows_.emplace(dir_ / kBadRowsName, manifest_.bad_rows);
      open_at_cursor();
    } catch (const Error& error) {
      if (is_of_system(error)) throw;  // a later call may read it
      columns_.restore(fresh);
      // Reported, since reading every row again may take hours.
      if (source_.notice) {
        source_.notice(
            fmt::format("the interrupted build of {} cannot continue, every row is read again: {}",
                        source_.name, error.what()));
      }
      return false;
    }
    return true;
  }

  // Opens the file of the last commit after the content of the committed rows.
  void open_at_cursor() {
    // The build continues at the cursor of the last shard: rows after it were read but never
    // committed.
    cursor_ = manifest_.shards.back().cursor;
    const int32_t files = static_cast<int32_t>(source_.files.size());
    XRUN_CHECK(cursor_.file >= 0 && cursor_.file <= files,
               "its cursor does not point into any file");
    if (cursor_.file == files) return;
    const std::string& name = source_.files[static_cast<size_t>(cursor_.file)].name;
    splitter_ = RowSplitter::open(name, name, cursor_.at);
    content_ = splitter_->take_prefix();
    // The key has the digest of the whole file, which is not read again; this proves the part that
    // is skipped.
    XRUN_CHECK(content_.hex() == cursor_.xxh3, "{}: the bytes before the cursor have changed",
               name);
  }

  void take_rows() {
    // Line numbers of the ledger count all files; the splitter counts within one.
    lines_before_ = manifest_.ledger.lines - cursor_.at.lines;
    for (size_t f = 0; f < source_.files.size(); ++f) {
      total_bytes_ += source_.files[f].bytes;
      if (f < static_cast<size_t>(cursor_.file)) bytes_before_ += source_.files[f].bytes;
    }
    RowPipeline pipeline(source_.files, source_.schema, source_.make_encoder,
                         {source_.workers, source_.block_bytes}, cursor_.file,
                         std::move(splitter_));
    // Interrupts are answered here, on the caller's thread.
    while (std::unique_ptr<EncodedBlock> block = pipeline.next([] { check_interrupt(); })) {
      // Before take_block, which counts the file among those before at its end.
      const uint64_t read_bytes = bytes_before_ + block->raw_bytes;
      take_block(*block);
      report(read_bytes);
      pipeline.release(std::move(block));
    }
  }

  void take_block(EncodedBlock& block) {
    // Counted within the block, whose content begins at its own offset.
    hashed_ = 0;
    for (size_t row = 0; row < block.encoded; ++row) {
      check_interrupt();
      take_row(block, row);
      if (source_.strict) check_strict(manifest_.ledger, true);
    }
    // The rows before the error come first: they are in the ledger that the message shows.
    if (block.error) {
      data_fault_ = true;
      std::rethrow_exception(block.error);
    }
    hash_content(block.raw, block.raw.after.offset);
    cursor_.at = block.raw.after;
    if (block.ends_file) end_file(block);
  }

  // A row is counted first and judged after, so that rows = kept + dropped at every moment.
  void take_row(EncodedBlock& block, size_t index) {
    SourceLedger& ledger = manifest_.ledger;
    const RowBlock::RowExtent& raw = block.raw.rows[index];
    const SourceLine at{block.file, raw.line};
    RowOutcome& outcome = block.outcomes[index];
    ++ledger.rows;
    if (outcome.row.repairs > 0) {
      ledger.repair(at, outcome.row.repairs, is_valid_utf8(block.raw.text(index)));
    }
    // The row was refused on the thread that encoded it.
    if (!outcome.reason.empty()) {
      drop(at, outcome.reason, outcome.detail);
      ledger.longest_dropped = std::max(ledger.longest_dropped, outcome.tokens_above);
      return;
    }
    try {
      columns_.accept(outcome.row, at, ledger);
    } catch (const RowRefusal& refusal) {
      // Some refusals need the earlier rows, such as the type of a column.
      drop(at, refusal.reason(), refusal.what());
      return;
    }
    // At the first row, since the columns are known only then.
    if (!shard_) shard_ = std::make_unique<ShardData>(columns_.columns());
    columns_.append(outcome.row, at, *shard_);
    shard_->end_row();
    ++ledger.kept;
    if (shard_->bytes() < source_.shard_bytes) return;
    // Up to the end of this row: the cursor and the hash must name the same byte.
    hash_content(block.raw, raw.after.offset);
    cursor_.at = raw.after;
    ledger.lines = lines_before_ + cursor_.at.lines;
    commit();
  }

  void drop(const SourceLine& at, const std::string& reason, const std::string& detail) {
    manifest_.ledger.drop(at, reason, detail);
    // The recipe's own filter left it out on purpose: counted, not listed as bad.
    if (reason == kFilteredReason) return;
    bad_rows_->add(source_.files[static_cast<size_t>(at.file)].name, at.line, reason, detail);
  }

  void hash_content(const RowBlock& block, uint64_t file_offset) {
    const size_t end = file_offset - block.from.offset;
    content_.bytes(std::string_view(block.content).substr(hashed_, end - hashed_));
    hashed_ = end;
  }

  void end_file(const EncodedBlock& block) {
    const DataFile& file = source_.files[static_cast<size_t>(block.file)];
    data_fault_ = true;
    // The remembered digest may be of an earlier content with the same size and time.
    if (block.file_digest != file.digest) source_.digests.forget(file.name);
    XRUN_CHECK(block.file_digest == file.digest,
               "{}: changed while it was read ({} bytes, {} when it was opened); run again, and do "
               "not write to a data file while it is read",
               file.name, block.raw_bytes, file.bytes);
    data_fault_ = false;
    // A last line without its line end counts as a line.
    lines_before_ += cursor_.at.lines + (cursor_.at.column > 0 ? 1 : 0);
    manifest_.ledger.lines = lines_before_;
    bytes_before_ += file.bytes;
    cursor_ = {block.file + 1, {}, ""};
    content_ = {};
  }

  // Makes the manifest describe all rows so far, except those of the shard being gathered.
  void describe() {
    // The manifest lists shards in order, so the one in flight goes first.
    finish_commit();
    if (shard_) manifest_.columns = shard_->columns();
    manifest_.bad_rows = bad_rows_->commit();
    manifest_.summary = columns_.summary();
  }

  SourceCursor hashed_cursor() const {
    SourceCursor cursor = cursor_;
    // At the beginning of a file there is nothing to prove.
    if (cursor.at.offset > 0) cursor.xxh3 = content_.hex();
    return cursor;
  }

  void commit() {
    describe();
    const uint64_t usual = source_.shard_bytes + source_.shard_bytes / kHugeRowDivisor;
    const bool has_huge_row = shard_->bytes() > usual;
    // By value: this object changes the manifest while the thread writes.
    auto write = [dir = dir_, manifest = manifest_, cursor = hashed_cursor(),
                  shard = std::move(shard_)]() mutable {
      append_shard(dir, *shard, std::move(cursor), manifest);
      shard.reset();
      // After the shard is synced: a manifest never names bytes that a power cut could take.
      write_file_atomic(dir / kPartialName, encode_manifest(manifest));
      return manifest.shards.back();
    };
    committing_ = std::async(std::move(write));  // deferred if there are no more threads
    if (has_huge_row) finish_commit();           // there is no memory for two such shards
  }

  void finish_commit() {
    if (committing_.valid()) manifest_.shards.push_back(committing_.get());
  }

  void finish() {
    describe();
    if (shard_) append_shard(dir_, *shard_, hashed_cursor(), manifest_);
    // This line finishes the cache: a folder without it is not one.
    write_file_atomic(dir_ / kManifestName, encode_manifest(manifest_));
    std::error_code ignored;  // a partial manifest beside the finished one is never read
    fs::remove(dir_ / kPartialName, ignored);
  }

  void report(uint64_t read_bytes) {
    const auto now = std::chrono::steady_clock::now();
    if (!source_.progress || now - reported_ < kProgressInterval) return;
    reported_ = now;
    const auto done = static_cast<double>(read_bytes);
    const auto all = static_cast<double>(std::max<uint64_t>(total_bytes_, 1));
    source_.progress(manifest_.ledger.rows, done / all);
  }

  fs::path dir_;
  const CacheSource& source_;
  RowColumns columns_;
  CacheManifest manifest_;
  SourceCursor cursor_;
  Hasher content_;                         // of the cursor's file, before the cursor
  size_t hashed_ = 0;                      // bytes of the present block that are in content_
  std::unique_ptr<RowSplitter> splitter_;  // at the cursor, if a build continues
  std::optional<BadRowLog> bad_rows_;
  std::unique_ptr<ShardData> shard_;    // gathered since the last commit, never empty
  std::future<ShardEntry> committing_;  // writes the previous shard; ~future waits
  bool data_fault_ = false;             // an Error thrown now is about the data
  int64_t lines_before_ = 0;            // lines of the files before the cursor's
  uint64_t total_bytes_ = 0;
  uint64_t bytes_before_ = 0;  // bytes of the files before the cursor's
  std::chrono::steady_clock::time_point reported_ = std::chrono::steady_clock::now();
};

}  // namespace

bool is_cached(const fs::path& data_root, const CacheSource& source) {
  std::error_code code;
  return fs::exists(data_root / cache_key(source.key_document) / kManifestName, code);
}

fs::path ensure_cache(const fs::path& data_root, const CacheSource& source) {
  const fs::path dir = data_root / cache_key(source.key_document);
  // Without the lock: the usual case, and readers must not wait for each other.
  if (is_cached(data_root, source)) return dir;
  bool reported = false;
  const FileLock lock(dir / kLockName, true, [&] {
    check_interrupt();
    if (!reported && source.notice) {
      source.notice(fmt::format("waiting for another process that caches {} (in {})", source.name,
                                dir.string()));
    }
    reported = true;
  });
  if (is_cached(data_root, source)) return dir;  // another process was first
  Build(dir, source).run();
  return dir;
}

}  // namespace xrun
