// Commit of a segment: write and fsync its file, then replace the partial manifest (fsync, rename,
// fsync of the folder). The partial manifest holds all that a later build needs to go on: ledger,
// summary, and the cursor behind the last committed row. The finished manifest has another name, so
// an unfinished folder is never taken for a cache.

#include "core/data/cache_build.h"

#include <chrono>
#include <memory>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/interrupt.h"
#include "core/data/cache_manifest.h"
#include "core/data/jsonl.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
constexpr auto kProgressInterval = std::chrono::milliseconds(200);

class Build {
 public:
  Build(const fs::path& dir, const CacheSource& source, RowType& row_type)
      : dir_(dir), source_(source), row_type_(row_type) {
    for (const DataFile& file : source.files) total_bytes_ += file.bytes;
  }

  void run() {
    remove_strays();
    start();
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

  // The data itself ends this build: these bytes never give a finished cache under this key.
  void discard() {
    std::error_code ignored;
    fs::remove(dir_ / kPartialName, ignored);
    for (const SegmentEntry& entry : manifest_.segments) fs::remove(dir_ / entry.file, ignored);
  }

  // Temporary files of a killed process; the lock is ours, so nobody writes them.
  void remove_strays() {
    std::error_code ignored;
    std::vector<fs::path> strays;
    for (const fs::directory_entry& entry : fs::directory_iterator(dir_, ignored)) {
      if (entry.path().filename().string().find(".tmp") != std::string::npos) {
        strays.push_back(entry.path());
      }
    }
    for (const fs::path& stray : strays) fs::remove(stray, ignored);
  }

  // Takes up the partial manifest if it and its segments are whole; else begins anew.
  void start() {
    manifest_.key = cache_key(source_.key_document);
    manifest_.row_type = row_type_.name();
    manifest_.key_document = source_.key_document;
    manifest_.ledger.name = source_.name;
    for (const DataFile& file : source_.files) manifest_.ledger.files.push_back(file.name);
    if (!fs::exists(dir_ / kPartialName)) return;
    CacheManifest partial;
    try {
      partial = read_manifest(dir_, kPartialName);
      for (const SegmentEntry& entry : partial.segments) check_segment(entry);
      XRUN_CHECK(!partial.segments.empty(), "no segment is committed");
    } catch (const Error&) {
      return;  // only time is lost: every row is read again
    }
    manifest_ = std::move(partial);
    cursor_ = manifest_.segments.back().cursor;
    for (int32_t f = 0; f < cursor_.file; ++f) {
      bytes_before_ += source_.files[static_cast<size_t>(f)].bytes;
    }
    row_type_.restore(manifest_.summary);
  }

  void check_segment(const SegmentEntry& entry) const {
    const MappedFile map(dir_ / entry.file);
    XRUN_CHECK(map.bytes().size() == entry.bytes && page_checksums(map.bytes()) == entry.page_xxh3,
               "{}: is damaged", entry.file);
  }

  void read_file_rows(const DataFile& file) {
    JsonlReader reader(file.name, file.name, cursor_.at);
    SourceLedger& ledger = manifest_.ledger;
    const int64_t lines_before = ledger.lines - cursor_.at.lines;
    JsonLine line;
    while (next(reader, line)) {
      check_interrupt();
      cursor_.at = reader.cursor();
      ledger.lines = lines_before + cursor_.at.lines;
      ++ledger.rows;
      if (line.repairs > 0) {
        ++ledger.repaired;
        ledger.repairs += line.repairs;
      }
      take({cursor_.file, line.line}, std::move(line.value));
      report();
    }
    ledger.lines = lines_before + reader.cursor().lines;
    bytes_before_ += file.bytes;
    XRUN_CHECK(reader.cursor().offset == file.bytes,
               "{}: has {} bytes, had {} when it was opened; do not write to a data file while it "
               "is read",
               file.name, reader.cursor().offset, file.bytes);
  }

  bool next(JsonlReader& reader, JsonLine& line) {
    data_fault_ = true;
    const bool more = reader.next(line);
    data_fault_ = false;
    return more;
  }

  void take(const SourceLine& at, Json value) {
    SourceLedger& ledger = manifest_.ledger;
    data_fault_ = true;
    try {
      row_type_.read(std::move(value), at, ledger);
      data_fault_ = false;
    } catch (const RowRefusal& refusal) {
      data_fault_ = false;
      ledger.drop(at, refusal.reason(), refusal.what());
      return;
    }
    if (!segment_) segment_ = std::make_unique<SegmentData>(row_type_.columns());
    row_type_.append(*segment_);
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
    FileWriter writer(dir_ / entry.file);
    writer.write(bytes);
    writer.sync();
    writer.close();
    manifest_.columns = segment_->columns();
    manifest_.segments.push_back(std::move(entry));
    manifest_.summary = row_type_.summary();
    write_file_atomic(dir_ / kPartialName, encode_manifest(manifest_));
    segment_.reset();
  }

  void finish() {
    for (const DataFile& file : source_.files) {
      XRUN_CHECK(hash_file(file.name) == file.digest, "{}: changed while it was read; run again",
                 file.name);
    }
    manifest_.summary = row_type_.summary();
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
  RowType& row_type_;
  CacheManifest manifest_;
  SourceCursor cursor_;
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

fs::path ensure_cache(const fs::path& data_root, const CacheSource& source, RowType& row_type) {
  const fs::path dir = data_root / cache_key(source.key_document);
  if (is_cached(data_root, source)) return dir;
  make_dirs(dir);
  const FileLock lock(dir / "lock", true);
  if (is_cached(data_root, source)) return dir;  // another process was first
  Build(dir, source, row_type).run();
  return dir;
}

}  // namespace xrun
