#pragma once
// What every command does with its arguments: check numbers, parse, end with help or bad usage.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>

#include "core/base/error.h"

namespace xrun {

// Returns the exit status if the command is over: 0 after --help, 2 after bad usage, which is said.
std::optional<int> parse_command_line(CLI::App& app, int argc, char** argv);

// Accepts whole numbers from `lowest`.
CLI::Validator whole_number(int64_t lowest);

// Accepts numbers of threads that this machine can be asked for: at most 64, or four times what it
// runs at once. Thousands of them only wait for each other.
CLI::Validator thread_count();

// Accepts folders that are there and may be entered.
CLI::Validator existing_folder();

// Says on standard error if `threads` are more than this machine runs at once.
void warn_of_threads(int threads);

// Returns what `read` makes of an option's value. What it throws is bad usage: exit status 2.
template <class Read>
auto from_option(Read read) {
  try {
    return read();
  } catch (const Interrupted&) {
    throw;
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
}

}  // namespace xrun
