#pragma once
// The files that a recipe consists of and the inputs it names, read from its text: nothing is run.

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "core/bundle/bundle_lock.h"
#include "core/config/config.h"

namespace xrun {

// A Lua file of the recipe, or a base of its config.
struct SourceFile {
  std::filesystem::path path;
  std::string member;  // its name in a bundle: the tree of the files is kept
  std::string text;
};

struct NamedInput {
  InputKind kind;
  std::string name;  // as the recipe spells it
  bool operator==(const NamedInput&) const = default;
};

struct RecipeSources {
  std::string recipe;             // its member
  std::vector<SourceFile> files;  // the recipe first
  std::vector<NamedInput> inputs;
  std::set<std::string> words;       // every name after a dot or a colon, in any of the files
  std::vector<std::string> notices;  // what cannot be read from the text
};

// Reads a recipe, the modules that it and they require by a literal name, and the bases of its
// config. The inputs are
//   - the model, template and projection of the resolved config, and every `path` in it;
//   - models and tokenizers that a file opens by a literal or by a key of the config;
//   - data, templates, projections and tokenizers that a file names as an option outside the
//     config, if such files exist.
// Throws as scan_with_bases does.
RecipeSources read_recipe_sources(const std::string& recipe, const ScannedRecipe& scanned,
                                  const Config& config);

}  // namespace xrun
