#pragma once
// Finds the files of a data source by path or glob, and identifies them by their content.

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

// Called with the number of bytes of a file that are hashed so far, and of all; may throw.
using HashProgress = std::function<void(const std::string& file, uint64_t done, uint64_t total)>;

// Returns the files of one source, those of a glob in byte order of their names. Reads each file
// once for its digest unless `digests` knows it. Throws Error with the fix if there is no file, for
// a folder, and for an unsupported kind of file (with the command that converts it); Interrupted on
// a signal.
std::vector<DataFile> find_data_files(const std::string& path, const HashProgress& progress = {},
                                      const FileDigests& digests = FileDigests());

// Throws Error as find_data_files does, but hashes nothing.
void check_data_files(const std::string& path);

// Returns true if the name is that of data, not of a recipe: rows.jsonl, rows.json.gz, rows.csv,
// rows.parquet.
bool is_data_name(const std::string& path);

// Returns the error message for a data file that was given as a recipe.
std::string data_as_recipe_text(const std::string& path);

// Returns [{"name", "bytes", "xxh3"}, ...] for the key of a cache, so that a file that moves or
// changes gives another cache.
Json data_files_json(const std::vector<DataFile>& files);

}  // namespace xrun
