#pragma once
// The files of a data source: found by path or glob, named by their content.

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/json.h"

namespace xrun {

struct DataFile {
  std::string name;  // as the recipe spells it; a glob's files as it expands
  uint64_t bytes = 0;
  std::string digest;  // of the content, 32 hexadecimal digits
};

// Returns the files of one source, in byte order of their names for a glob, each read once for its
// digest. Throws Error with the way out if there is none, for a folder, and for a kind of file that
// is not read here (a conversion is named).
std::vector<DataFile> find_data_files(const std::string& path);

// [{"name", "bytes", "xxh3"}, ...] for cache keys.
Json data_files_json(const std::vector<DataFile>& files);

}  // namespace xrun
