#include "core/data/cache/build_folder.h"

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/folder_list.h"
#include "core/base/interrupt.h"
#include "core/data/cache/segment_file.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;

void remove_files(const fs::path& dir, const std::string& part) {
  std::error_code ignored;  // what stays is written over
  for (const fs::path& path : list_folder(dir, ignored)) {
    if (path.filename().string().find(part) != std::string::npos) fs::remove(path, ignored);
  }
}

}  // namespace

void remove_temporaries(const fs::path& dir) { remove_files(dir, ".tmp"); }

// The partial manifest first: without it no segment is believed.
void remove_build(const fs::path& dir) {
  std::error_code ignored;
  fs::remove(dir / kPartialName, ignored);
  remove_files(dir, "segment_");
}

std::error_code remove_cache_folder(const fs::path& dir) {
  const fs::path aside = dir.string() + ".removed";
  std::error_code code;
  fs::remove_all(aside, code);  // of a process that was killed here
  fs::rename(dir, aside, code);
  if (!code) fs::remove_all(aside, code);
  return code;
}

CacheManifest read_interrupted_build(const fs::path& dir) {
  CacheManifest manifest = read_manifest(dir, kPartialName);
  XRUN_CHECK(!manifest.segments.empty(), "no segment is committed");
  for (const SegmentEntry& entry : manifest.segments) {
    const fs::path path = dir / entry.file;
    XRUN_CHECK(path_exists(path), "{}: is gone", path.string());
    const SegmentFile file(path, manifest.columns,
                           {entry.bytes, entry.head_bytes, entry.head_xxh3});
    for (uint64_t page = 0; page < file.header().pages; ++page) {
      check_interrupt();
      file.check_page(page);
    }
  }
  return manifest;
}

}  // namespace xrun
