#pragma once
// Shared argument handling of the commands: parsing, checks, help and bad usage.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>

#include "core/base/error.h"

namespace xrun {

// Parses a command line. Returns the exit status if the command ends here: 0 after --help, 2 after
// bad usage, which it reports; nothing if the command goes on.
std::optional<int> parse_command_line(CLI::App& app, int argc, char** argv);

// Accepts whole numbers from `lowest`.
CLI::Validator whole_number(int64_t lowest);

// Returns the largest value of --threads: 64, or four times the machine's threads if that is more.
// Thousands of threads would only wait for each other.
int64_t most_threads();
CLI::Validator thread_count();

// Accepts numbers from `lowest` to 1.
CLI::Validator share_of_one(double lowest);

// Accepts the path of a folder; refuses "" and the next option, as in `--run --steps`.
CLI::Validator folder_name();

// Warns on standard error if `threads` exceeds the machine's.
void warn_of_threads(int threads);

// Returns read(value of an option). Its exceptions become UsageError: exit status 2.
template <class Read>
auto from_option(Read read) {
  try {
    return read();
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
}

}  // namespace xrun
