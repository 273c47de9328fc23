#pragma once
// Builds a ZIP archive in memory, for fuzz targets and tests.

#include <string>
#include <utility>
#include <vector>

#include "core/base/zip_archive.h"

namespace xrun {

inline std::string archive_of(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string out;
  std::vector<ZipEntry> entries;
  for (const auto& [name, data] : members) {
    entries.push_back({name, data.size(), zip_crc32(data)});
    out += zip_header(entries.back()) + data;
  }
  return out + zip_directory(entries);
}

}  // namespace xrun
