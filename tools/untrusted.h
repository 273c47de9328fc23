#pragma once
// Recipes that are not trusted: finds them on the command line, and limits what they may open.

#include <string>
#include <string_view>
#include <vector>

#include "core/sandbox/sandbox.h"

namespace xrun {

// Returns true if an argument names a recipe or a bundle.
bool is_recipe(std::string_view file);

// The options of trust, taken out of a command line.
struct TrustOptions {
  bool untrusted = false;   // the command works in a child with limits
  bool by_default = false;  // because of the recipe, without --untrusted
  std::string foreign;      // recipes of strangers, each with what shows it
  FileAccess named;         // what the command line names, and the folders of the recipes
  std::vector<std::filesystem::path> read;  // those of --read and --set alone
  SandboxLimits limits;
};

// Takes --trusted, --untrusted, --read and --limit-... out of the arguments of a command that opens
// recipes; those of other commands stay as they are. Bundles, and recipes with a bundle's lock
// beside or above them, are not trusted by default; so is the recipe.lua of a run that was not.
// Opens no file but a run's run.json. Throws UsageError.
TrustOptions take_trust_options(std::vector<char*>& arguments);

// Returns true in the child that run_untrusted started.
bool is_untrusted_child();

// Runs the command line again in a child and returns the exit status: the child's own, 1 after a
// limit ended it, 128 + N after signal N did. Messages go to standard error.
int run_untrusted(const TrustOptions& options, char** argv);

// Sets the limits in the child. Call it before anything of the recipe is opened.
void enter_untrusted(const TrustOptions& options);

}  // namespace xrun
