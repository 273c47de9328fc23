#pragma once
// Makes a segment's file durable.

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/data/cache_manifest.h"
#include "core/data/segment.h"

namespace xrun {

// Writes and syncs dir/segment_name(index). Returns its entry without a cursor; nothing refers to
// the file before a manifest has that. Throws Error.
SegmentEntry write_segment(const std::filesystem::path& dir, const SegmentData& segment,
                           size_t index, int64_t first_row, const std::string& key);

}  // namespace xrun
