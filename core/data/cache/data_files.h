#pragma once
// The files of a data source: found by path or glob, named by their content.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/data/cache/file_digests.h"

namespace xrun {

struct DataFile {
  std::string name;  // as the recipe spells it; a glob's files as it expands
  uint64_t bytes = 0;
  std::string digest;  // of the content, 32 hexadecimal digits
};

// Called with how much of a file's bytes are hashed; may throw.
using HashProgress = std::function<void(const std::string& file, uint64_t done, uint64_t total)>;

// Returns the files of one source, in byte order of their names for a glob, each read once for its
// digest unless `digests` knows it. Throws Error with the way out if there is none, for a folder,
// and for a kind of file that is not read here (a conversion is named); Interrupted when the run is
// asked to stop.
std::vector<DataFile> find_data_files(const std::string& path, const HashProgress& progress = {},
                                      const FileDigests& digests = FileDigests());

// [{"name", "bytes", "xxh3"}, ...] for cache keys.
Json data_files_json(const std::vector<DataFile>& files);

}  // namespace xrun
