#include "core/data/cache/segment_commit.h"

#include "core/base/file.h"
#include "core/base/hash.h"

namespace xrun {

void append_segment(const std::filesystem::path& dir, const SegmentData& segment,
                    SourceCursor cursor, CacheManifest& manifest) {
  const size_t index = manifest.segments.size();
  SegmentEntry entry;
  entry.file = segment_name(index);
  entry.first_row = manifest.rows();
  entry.rows = static_cast<int64_t>(segment.rows());
  entry.cursor = std::move(cursor);
  for (size_t c = 0; c < segment.columns().size(); ++c) {
    entry.elements.push_back(static_cast<int64_t>(segment.elements(c)));
  }
  const std::string head =
      segment.head(index, static_cast<uint64_t>(entry.first_row), manifest.key);
  entry.head_bytes = head.size();
  entry.head_xxh3 = hash_u64(head);
  FileWriter writer(dir / entry.file);
  writer.write(head);
  segment.body([&](std::string_view piece) { writer.write(piece); });
  writer.sync();
  writer.close();
  entry.bytes = writer.size();
  manifest.segments.push_back(std::move(entry));
}

}  // namespace xrun
