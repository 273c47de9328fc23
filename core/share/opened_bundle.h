#pragma once
// A bundle ready to run: members extracted, inputs found, differences from the lock listed.

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/bundle/bundle_file.h"
#include "core/run/record/difference.h"
#include "core/share/bundle_maker.h"
#include "core/share/input_search.h"

namespace xrun {

// The facts of this program that a lock is compared with.
struct ProgramFacts {
  Json binary;  // {"source", "torch", "compiler", "engine", "core"}
  std::function<std::vector<std::string>(const std::string& name)> operators;
  ModelFolders models;
};

struct OpenedBundle {
  std::string file;              // as the user named it
  std::filesystem::path folder;  // that has the members
  BundleLock lock;
  // The path to open for an input that is not found under its own name.
  std::map<std::pair<InputKind, std::string>, std::string> inputs;
  std::vector<Difference> differences;  // each changes the numbers, or may
  std::vector<std::string> missing;     // a message for each missing input
  std::string missing_fix;              // "to go on: " and the command that finds them all
  std::vector<std::string> notices;

  // The recipe and its modules are called FILE.xrb/MEMBER in messages.
  std::string recipe() const { return file + "/" + lock.recipe; }
  // Returns the path on disk of a file that the recipe names: in `folder` for a member, else
  // `path`.
  std::string local_path(const std::string& path) const;
  // Returns what to open for an input's name.
  std::string local_input(InputKind kind, const std::string& name) const;
};

// Extracts the members into the cache, looks for the inputs, and compares the program, the
// operators, the settings as they resolve now, and inputs whose name leads to other bytes. An input
// whose name `sets` (of the command line) replace is not looked for. Throws as Bundle::open does,
// and UsageError for a wrong setting of `sets`; the result has everything else.
OpenedBundle open_bundle(const std::filesystem::path& file, const ProgramFacts& program,
                         const std::vector<std::string>& sets = {});

// Only extracts the members: compares nothing and looks for no inputs.
OpenedBundle extract_bundle(const std::filesystem::path& file);

// Throws UsageError for a missing input, and for differences unless `force`; returns the notices,
// differences under `force` among them.
std::vector<std::string> accept_bundle(const OpenedBundle& bundle, bool force);

}  // namespace xrun
