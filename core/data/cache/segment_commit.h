#pragma once
// Makes a segment's file durable.

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/data/cache/cache_manifest.h"
#include "core/data/cache/segment.h"

namespace xrun {

// Writes and syncs the file of a segment that comes behind the manifest's, and adds its entry to
// the manifest; nothing refers to the file before the manifest is written. Throws Error.
void append_segment(const std::filesystem::path& dir, const SegmentData& segment,
                    SourceCursor cursor, CacheManifest& manifest);

}  // namespace xrun
