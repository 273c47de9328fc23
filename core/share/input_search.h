#pragma once
// Finds the files of a locked input on this machine.

#include <filesystem>
#include <string>
#include <vector>

#include "core/bundle/bundle_lock.h"
#include "core/run/record/difference.h"
#include "core/share/input_files.h"

namespace xrun {

// Folders in which find_input looks.
struct InputSearch {
  std::filesystem::path folder;              // of the extracted bundle
  std::filesystem::path bundle;              // the bundle's file; the folder it is in is searched
  std::vector<std::filesystem::path> named;  // files and folders that --read and --set name
  ModelFolders models;
};

// The result of the search for a locked input.
struct FoundInput {
  std::string path = {};                     // the path to open; "": the input is missing
  std::string where = {};                    // "in the bundle", "found in ...", "by its name"
  std::vector<Difference> differences = {};  // of the files under its name from the locked ones
  // Set if the input was not found.
  std::string missing = {};             // the message, with the locations searched
  std::vector<std::string> allow = {};  // paths to pass to --read, if they would help
  std::string file = {};                // the name of a missing file
};

// Looks for an input, in this order:
//   1. in the bundle;
//   2. by its name;
//   3. in the folder of the bundle's file and in the named paths, under its name or directly;
//   4. by digest in other bundles, among the files that xrun has read before, and in the caches of
//      models.
// Files found in steps 3 and 4 are linked into `folder` under their locked names. If the name leads
// only to other bytes, the result has its path and the differences. Reads only files that have the
// locked size and may be read. Throws Error if a link cannot be made or a permitted file cannot be
// read. Throws Interrupted.
FoundInput find_input(const LockedInput& input, const InputSearch& search);

}  // namespace xrun
