#pragma once
// Answers an option that a command does not have with the --set, the argument or the option that
// was probably meant.

#include <CLI/CLI.hpp>
#include <string>

namespace xrun {

// Returns "--lr is not an option; config keys are set with --set optim.lr=1e-5" and the like for
// the first unknown option of the command line, which `app` has failed to parse; "" if there is
// none or if the command takes no --set.
std::string unknown_option_text(const CLI::App& app, int argc, char** argv);

// Returns the options that a mistyped one may mean, or "": "--all" for "--al", "--with-data or
// --with-model" for "--with-weights".
std::string near_option(const CLI::App& app, const std::string& option);

}  // namespace xrun
