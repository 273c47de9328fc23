#pragma once
// The files behind the inputs of a recipe, with their digests for a lock.

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/bundle/bundle_lock.h"
#include "core/data/cache/file_digests.h"
#include "core/share/recipe_sources.h"

namespace xrun {

// The folders of models on this machine. The caller gives them, since this room may not include the
// registry of core/model.
struct ModelFolders {
  // Returns the folder of a model's name without downloading anything; throws UsageError with the
  // command that fetches it.
  std::function<std::filesystem::path(const std::string& name)> folder;
  std::vector<std::filesystem::path> cached;  // every model folder in the caches
};

// A locked input with its files on this machine, in the order of locked.files.
struct LocalInput {
  LockedInput locked;
  std::vector<std::filesystem::path> files;
};

// Finds the files of an input and takes their digests, remembered ones for unchanged files. For a
// model: its weights and every file of its config, tokenizer and templates. Throws Error as
// find_data_files and ModelFolders::folder do; Interrupted.
LocalInput measure_input(const NamedInput& input, const ModelFolders& models);

// True for the files of a model that a bundle leaves out unless it is asked for the model.
bool is_weights(const LockedFile& file);

// Returns the store of the digests of data files.
FileDigests data_digests();

// Returns the size of a file, 0 if it cannot be examined.
uint64_t file_bytes(const std::filesystem::path& path);

// Returns the files that had the locked digest when xrun last read them.
std::vector<std::filesystem::path> files_read_before(const LockedFile& locked);

// Returns the SHA-256 of a file, a remembered one if the file is unchanged.
std::string file_sha256(const std::filesystem::path& path);

// Returns the folder of an input's files in a bundle that is extracted at `bundle`. It may not
// exist yet.
std::filesystem::path input_folder(const LockedInput& input, const std::filesystem::path& bundle);

// Returns the path that opens an input whose files are in a folder under their locked names.
std::string path_in(const LockedInput& input, const std::filesystem::path& folder);

// Returns the path of an input inside a bundle, "data/1/pairs.jsonl"; "" unless the bundle has all
// of it.
std::string bundled_path(const LockedInput& input);

// Returns the folder of the extracted bundles: cache_root()/bundles.
std::filesystem::path bundles_root();

// Splits the name of a data source at the last slash before its first wildcard: "pairs/" and
// "*.jsonl". Its files are locked by their names below the first part.
std::pair<std::string, std::string> split_glob(const std::string& name);

}  // namespace xrun
