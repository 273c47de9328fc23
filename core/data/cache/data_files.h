#pragma once
// The files of a data source: found by path or glob, identified by their content.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/data/cache/file_digests.h"

namespace xrun {

struct DataFile {
  std::string name;  // as the recipe spells it, or as its glob expands
  uint64_t bytes = 0;
  std::string digest;  // of the content, 32 hexadecimal digits
};

// Called with the bytes of a file that are hashed so far; may throw.
using HashProgress = std::function<void(const std::string& file, uint64_t done, uint64_t total)>;

// Returns the files of one source, those of a glob in byte order of their names. Reads each file
// once for its digest unless `digests` knows it. Throws Error with the fix if there is none, for a
// folder, and for an unsupported kind of file (with the command that converts it); Interrupted when
// the run is asked to stop.
std::vector<DataFile> find_data_files(const std::string& path, const HashProgress& progress = {},
                                      const FileDigests& digests = FileDigests());

// Throws Error as find_data_files does, but hashes nothing.
void check_data_files(const std::string& path);

// Returns true for rows.jsonl, rows.json.gz, rows.csv or rows.parquet: a name that no recipe has.
bool is_data_name(const std::string& path);

// Returns the sentence for a data file in place of a recipe.
std::string data_as_recipe_text(const std::string& path);

// [{"name", "bytes", "xxh3"}, ...] for cache keys.
Json data_files_json(const std::vector<DataFile>& files);

}  // namespace xrun
