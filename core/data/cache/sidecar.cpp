// The folder is made under a temporary name and renamed, so that it is never there in part.

#include "core/data/cache/sidecar.h"

#include "core/base/error.h"
#include "core/base/folder_list.h"
#include "core/base/hash.h"
#include "core/base/interrupt.h"
#include "core/data/cache/cache_folder.h"
#include "core/data/cache/segment_commit.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;
constexpr const char* kRowType = "column";

std::vector<Column> columns_of(ColumnType type, bool jagged) {
  if (!jagged) return {{"values", type, -1}};
  return {{"offsets", ColumnType::kI64, -1}, {"values", type, 0}};
}

fs::path sidecar_dir(const fs::path& cache_dir, const SidecarKey& key) {
  return cache_dir / kSidecarFolder / cache_key(key.document());
}

void check_rows(const fs::path& dir, int64_t got, int64_t rows) {
  XRUN_CHECK(got == rows, "{}: has {} rows, its cache has {}; remove the folder", dir.string(), got,
             rows);
}

}  // namespace

Json SidecarKey::document() const {
  Json document = Json::object();
  document.set("row_type", kRowType);
  document.set("cache_version", kCacheVersion);
  document.set("cache", cache);
  document.set("name", name);
  document.set("made_by", made_by);
  return document;
}

Sidecar::Sidecar(const fs::path& dir) : reader_(dir, kRowType) {
  const std::vector<Column>& columns = reader_.manifest().columns;
  values_ = columns.empty() ? 0 : columns.size() - 1;
}

std::unique_ptr<const Sidecar> Sidecar::open(const fs::path& cache_dir, const SidecarKey& key,
                                             int64_t rows) {
  const fs::path dir = sidecar_dir(cache_dir, key);
  if (!path_exists(dir / kManifestName)) return nullptr;
  std::unique_ptr<const Sidecar> sidecar(new Sidecar(dir));
  const Json& document = sidecar->reader_.manifest().key_document;
  XRUN_CHECK(cache_dir.filename() == key.cache && document == key.document(),
             "{}: is the column {}, wanted {} of cache {}; remove the folder", dir.string(),
             dump_json(document), dump_json(key.document()), cache_dir.string());
  check_rows(dir, sidecar->rows(), rows);
  return sidecar;
}

void verify_sidecars(const fs::path& cache_dir, int64_t rows) {
  const fs::path folder = cache_dir / kSidecarFolder;
  const std::string cache = fs::weakly_canonical(cache_dir).filename().string();
  for (const fs::path& dir : list_folder(folder)) {
    if (!is_cache_key(dir.filename().string())) continue;  // a writer's own, a lock
    const CacheReader reader(dir, kRowType);
    const Json* of = reader.manifest().key_document.find("cache");
    XRUN_CHECK(of != nullptr && *of == Json(cache),
               "{}: belongs to another cache; remove the folder", dir.string());
    check_rows(dir, reader.rows(), rows);
    reader.verify();
  }
}

SidecarWriter::SidecarWriter(const fs::path& cache_dir, const SidecarKey& key, ColumnType type,
                             bool jagged, uint64_t segment_bytes)
    : dir_(sidecar_dir(cache_dir, key)),
      temporary_(dir_.string() + ".tmp"),
      lock_(dir_.string() + ".lock", true, check_interrupt),
      segment_(columns_of(type, jagged)),
      segment_bytes_(segment_bytes) {
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);  // of a killed process
  make_dirs(temporary_);
  manifest_.key_document = key.document();
  manifest_.key = cache_key(manifest_.key_document);
  manifest_.row_type = kRowType;
  manifest_.ledger.name = key.name;
  manifest_.columns = segment_.columns();
  manifest_.summary = Json::object();
}

SidecarWriter::~SidecarWriter() {
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);
}

void SidecarWriter::end_row() {
  segment_.end_row();
  if (segment_.bytes() >= segment_bytes_) commit();
}

void SidecarWriter::commit() {
  append_segment(temporary_, segment_, {}, manifest_);
  segment_ = SegmentData(manifest_.columns);
}

void SidecarWriter::finish(int64_t rows) {
  if (segment_.rows() > 0) commit();
  XRUN_CHECK(manifest_.rows() == rows, "{}: {} rows were written, wanted {}", dir_.string(),
             manifest_.rows(), rows);
  if (path_exists(dir_ / kManifestName)) return;  // another writer of the same key was first
  write_file_atomic(temporary_ / kManifestName, encode_manifest(manifest_));
  rename_durable(temporary_, dir_);
}

}  // namespace xrun
