#pragma once
// The files behind the inputs of a recipe: their digests for a lock, and where a locked input's
// bytes are on this machine.

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/bundle/bundle_lock.h"
#include "core/run/record/difference.h"
#include "core/share/recipe_sources.h"

namespace xrun {

// The folders of models on this machine, given by the caller: rooms below core/model do not know
// its registry.
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

// Finds the files of an input and takes their digests, remembered ones where the files are
// unchanged. Of a model: its weights and every file that config, tokenizer and templates consist
// of. Throws Error as find_data_files and ModelFolders::folder do; Interrupted.
LocalInput measure_input(const NamedInput& input, const ModelFolders& models);

// True for the files of a model that a bundle leaves out unless it is asked for the model.
bool is_weights(const LockedFile& file);

// Returns the SHA-256 of a file, a remembered one if the file is unchanged.
std::string file_sha256(const std::filesystem::path& path);

// Folders in which find_input looks.
struct InputSearch {
  std::filesystem::path folder;              // that has the bundle's members
  std::filesystem::path bundle;              // its file, whose folder is searched
  std::vector<std::filesystem::path> named;  // files and folders of --read and --set
  ModelFolders models;
};

// The result of the search for a locked input.
struct FoundInput {
  std::string path = {};                     // to open in place of the name; "": it is missing
  std::string where = {};                    // "in the bundle", "found in ...", "by its name"
  std::vector<Difference> differences = {};  // of what has its name and another digest
  std::string missing = {};  // if it was not found: the places where it was looked for
  std::string allow = {};    // then what --read has to name, if it is known
  std::string file = {};     // then the name of a file that it lacks
};

// Looks for an input: in the bundle; by its name; in the folder of the bundle's file and the named
// paths, below them by its name or directly; by digest in other bundles, among the files that
// xrun has read before, and in the caches of models. Files found elsewhere are linked into `folder`
// under their locked names. Reads only files of the locked size that may be read.
FoundInput find_input(const LockedInput& input, const InputSearch& search);

// Returns the path of an input inside a bundle, "data/1/pairs.jsonl"; "" unless the bundle has all
// of it.
std::string bundled_path(const LockedInput& input);

// Returns the folder of the extracted bundles: cache_root()/bundles.
std::filesystem::path bundles_root();

// Splits the name of a data source at its first wildcard: "pairs/" and "*.jsonl". Its files are
// locked by their names below the first part.
std::pair<std::string, std::string> split_glob(const std::string& name);

}  // namespace xrun
