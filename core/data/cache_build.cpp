// Commit of a segment: write and fsync its file, then replace the partial manifest (fsync, rename,
// fsync of the folder). The partial manifest holds all that a later build needs to go on: ledger,
// summary, and the cursor behind the last committed row. The finished manifest has another name, so
// an unfinished folder is never taken for a cache.
//
// The key names the files by digest, so the rows must be those of exactly these bytes: the reader
// hashes what it reads. A file's end compares that with the key's digest, and a build that goes on
// compares the bytes before its cursor with those that the committed rows were made of.

#include "core/data/cache_build.h"

#include <chrono>
#include <memory>
#include <optional>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/interrupt.h"
#include "core/data/cache_manifest.h"
#include "core/data/jsonl.h"
#include "core/data/row_columns.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
constexpr auto kProgressInterval = std::chrono::milliseconds(200);

class Build {
 public:
  Build(const fs::path& dir, const CacheSource& source, const RowType& row_type)
      : dir_(dir),
        source_(source),
        worker_(row_type.make_worker()),
        columns_(row_type.schema()) {
    for (const DataFile& file : source.files) total_bytes_ += file.bytes;
  }

  void run() {
    remove_strays();
    begin();
    if (!go_on()) {
      remove_build();
      begin();
    }
    try {
      read_rows();
    } catch (const Interrupted&) {
      throw;
    } catch (const Error&) {
      if (data_fault_) discard();
      throw;
    }
    if (segment_ && segment_->rows() > 0) commit();
    finish();
  }

 private:
  void read_rows() {
    for (; cursor_.file < static_cast<int32_t>(source_.files.size());
         ++cursor_.file, cursor_.at = {}) {
      read_file_rows(source_.files[static_cast<size_t>(cursor_.file)]);
    }
  }

  // The data itself ends this build: these bytes never give a finished cache under this key. The
  // lock goes with the folder; who waits for it makes both anew.
  void discard() {
    remove_build();
    std::error_code ignored;
    fs::remove_all(dir_, ignored);
  }

  // The partial manifest first: without it no segment is believed.
  void remove_build() {
    std::error_code ignored;
    fs::remove(dir_ / kPartialName, ignored);
    remove_files("segment_");
  }

  // Temporary files of a killed process; the lock is ours, so nobody writes them.
  void remove_strays() { remove_files(".tmp"); }

  void remove_files(const std::string& part) {
    std::error_code ignored;
    std::vector<fs::path> found;
    for (const fs::directory_entry& entry : fs::directory_iterator(dir_, ignored)) {
      if (entry.path().filename().string().find(part) != std::string::npos) {
        found.push_back(entry.path());
      }
    }
    for (const fs::path& path : found) fs::remove(path, ignored);
  }

  void begin() {
    manifest_ = CacheManifest();
    manifest_.key = cache_key(source_.key_document);
    manifest_.row_type = row_kind_name(columns_.schema().kind);
    manifest_.key_document = source_.key_document;
    manifest_.ledger.name = source_.name;
    for (const DataFile& file : source_.files) manifest_.ledger.files.push_back(file.name);
    cursor_ = {};
    bytes_before_ = 0;
    reader_.reset();
  }

  // Takes up the partial manifest. Returns false if it or its segments are not whole, or are not of
  // these bytes and columns: then only time is lost, every row is read again.
  bool go_on() {
    if (!fs::exists(dir_ / kPartialName)) return true;
    const Json fresh = columns_.summary();
    try {
      manifest_ = read_manifest(dir_, kPartialName);
      XRUN_CHECK(!manifest_.segments.empty(), "no segment is committed");
      for (const SegmentEntry& entry : manifest_.segments) check_segment(entry);
      columns_.restore(manifest_.summary);
      XRUN_CHECK(columns_.columns() == manifest_.columns, "its columns are others");
      cursor_ = manifest_.segments.back().cursor;
      const int32_t files = static_cast<int32_t>(source_.files.size());
      XRUN_CHECK(cursor_.file >= 0 && cursor_.file <= files, "its cursor is in no file");
      if (cursor_.file < files) open_file();
    } catch (const Interrupted&) {
      throw;
    } catch (const Error&) {
      columns_.restore(fresh);
      return false;
    }
    for (int32_t f = 0; f < cursor_.file; ++f) {
      bytes_before_ += source_.files[static_cast<size_t>(f)].bytes;
    }
    return true;
  }

  // Opens the cursor's file behind the bytes that are read already.
  void open_file() {
    const std::string& name = source_.files[static_cast<size_t>(cursor_.file)].name;
    reader_.emplace(name, name, cursor_.at);
    XRUN_CHECK(cursor_.at.offset == 0 || reader_->digest() == cursor_.xxh3,
               "{}: other bytes stand before the cursor", name);
  }

  void check_segment(const SegmentEntry& entry) const {
    check_interrupt();
    const MappedFile map(dir_ / entry.file);
    XRUN_CHECK(map.bytes().size() == entry.bytes && page_checksums(map.bytes()) == entry.page_xxh3,
               "{}: is damaged", entry.file);
  }

  void read_file_rows(const DataFile& file) {
    if (!reader_) open_file();
    JsonlReader& reader = *reader_;
    SourceLedger& ledger = manifest_.ledger;
    const int64_t lines_before = ledger.lines - cursor_.at.lines;
    RawRow row;
    while (next(reader, row)) {
      check_interrupt();
      cursor_.at = reader.cursor();
      ledger.lines = lines_before + cursor_.at.lines;
      ++ledger.rows;
      row.at.file = cursor_.file;
      take(row);
      report();
    }
    ledger.lines = lines_before + reader.cursor().lines;
    bytes_before_ += file.bytes;
    data_fault_ = true;
    XRUN_CHECK(reader.digest() == file.digest,
               "{}: changed while it was read ({} bytes, {} when it was opened); run again, and do "
               "not write to a data file while it is read",
               file.name, reader.cursor().offset, file.bytes);
    data_fault_ = false;
    reader_.reset();
  }

  bool next(JsonlReader& reader, RawRow& row) {
    data_fault_ = true;
    const bool more = reader.next_row(row);
    data_fault_ = false;
    return more;
  }

  void take(const RawRow& row) {
    SourceLedger& ledger = manifest_.ledger;
    data_fault_ = true;
    try {
      worker_->encode(row, ledger.place(row.at), encoded_);
      data_fault_ = false;
      if (encoded_.repairs > 0) ledger.repair(row.at, encoded_.repairs);
      columns_.accept(encoded_, ledger);
    } catch (const RowRefusal& refusal) {
      if (data_fault_ && encoded_.repairs > 0) ledger.repair(row.at, encoded_.repairs);
      data_fault_ = false;
      ledger.drop(row.at, refusal.reason(), refusal.what());
      return;
    }
    if (!segment_) segment_ = std::make_unique<SegmentData>(columns_.columns());
    columns_.append(encoded_, row.at, *segment_);
    segment_->end_row();
    ++ledger.kept;
    if (segment_->bytes() >= source_.segment_bytes) commit();
  }

  void commit() {
    SegmentEntry entry;
    const size_t index = manifest_.segments.size();
    entry.file = segment_name(index);
    entry.first_row = manifest_.rows();
    entry.rows = static_cast<int64_t>(segment_->rows());
    const std::string bytes =
        segment_->encode(index, static_cast<uint64_t>(entry.first_row), manifest_.key);
    entry.bytes = bytes.size();
    for (size_t c = 0; c < segment_->columns().size(); ++c) {
      entry.elements.push_back(static_cast<int64_t>(segment_->elements(c)));
    }
    entry.header_xxh3 = hash_u64(
        std::string_view(bytes).substr(0, segment_header_bytes(segment_->columns().size())));
    entry.page_xxh3 = page_checksums(bytes);
    entry.cursor = cursor_;
    entry.cursor.xxh3 = reader_ ? reader_->digest() : "";  // behind the last file there is none
    FileWriter writer(dir_ / entry.file);
    writer.write(bytes);
    writer.sync();
    writer.close();
    manifest_.columns = segment_->columns();
    manifest_.segments.push_back(std::move(entry));
    manifest_.summary = columns_.summary();
    write_file_atomic(dir_ / kPartialName, encode_manifest(manifest_));
    segment_.reset();
  }

  void finish() {
    manifest_.summary = columns_.summary();
    write_file_atomic(dir_ / kManifestName, encode_manifest(manifest_));
    std::error_code ignored;  // a partial manifest beside the finished one is never read
    fs::remove(dir_ / kPartialName, ignored);
  }

  void report() {
    if (!source_.progress) return;
    const Clock::time_point now = Clock::now();
    if (now - reported_ < kProgressInterval) return;
    reported_ = now;
    const double done = static_cast<double>(bytes_before_ + cursor_.at.offset);
    source_.progress(manifest_.ledger.rows,
                     total_bytes_ > 0 ? done / static_cast<double>(total_bytes_) : 1);
  }

  fs::path dir_;
  const CacheSource& source_;
  std::unique_ptr<RowWorker> worker_;
  RowColumns columns_;
  EncodedRow encoded_;  // the row last read
  CacheManifest manifest_;
  SourceCursor cursor_;
  std::optional<JsonlReader> reader_;  // of the cursor's file, while it is read
  std::unique_ptr<SegmentData> segment_;
  bool data_fault_ = false;  // an Error of this moment is one of the data
  uint64_t total_bytes_ = 0;
  uint64_t bytes_before_ = 0;
  Clock::time_point reported_ = Clock::now();
};

}  // namespace

bool is_cached(const fs::path& data_root, const CacheSource& source) {
  std::error_code code;
  return fs::exists(data_root / cache_key(source.key_document) / kManifestName, code);
}

fs::path ensure_cache(const fs::path& data_root, const CacheSource& source, const RowType& row_type) {
  const fs::path dir = data_root / cache_key(source.key_document);
  if (is_cached(data_root, source)) return dir;
  bool said = false;
  const FileLock lock(dir / "lock", true, [&] {
    check_interrupt();
    if (!said && source.notice) {
      source.notice(fmt::format("waiting for another process that caches {} (in {})", source.name,
                                dir.string()));
    }
    said = true;
  });
  if (is_cached(data_root, source)) return dir;  // another process was first
  Build(dir, source, row_type).run();
  return dir;
}

}  // namespace xrun
