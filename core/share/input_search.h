#pragma once
// The search for the files of a locked input on this machine.

#include <filesystem>
#include <string>
#include <vector>

#include "core/bundle/bundle_lock.h"
#include "core/run/record/difference.h"
#include "core/share/input_files.h"

namespace xrun {

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
  std::vector<Difference> differences = {};  // between the locked files and those of its name
  // If the input was not found: the message with the places searched, paths to pass to --read if
  // known, and the name of a missing file.
  std::string missing = {};
  std::vector<std::string> allow = {};
  std::string file = {};
};

// Looks for an input: in the bundle; by its name; in the folder of the bundle's file and the named
// paths, below them by its name or directly; by digest in other bundles, among the files that
// xrun has read before, and in the caches of models. Files found elsewhere are linked into `folder`
// under their locked names. Reads only files of the locked size that may be read. Throws Error if a
// link cannot be made or a permitted file cannot be read. Throws Interrupted.
FoundInput find_input(const LockedInput& input, const InputSearch& search);

}  // namespace xrun
