// Bad usage ends with status 2, whatever status CLI11 gives it.

#include "tools/commands/command_line.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <string>
#include <thread>

namespace xrun {

namespace {

constexpr int64_t kAnyMachine = 64;  // threads that even one core gets through (4 s on two)

int64_t hardware_threads() { return std::max(1u, std::thread::hardware_concurrency()); }

// CLI11's own range checks print their limits as doubles with 309 digits.
CLI::Validator whole_number_within(int64_t lowest, int64_t highest, const std::string& wanted) {
  return CLI::Validator(
      [=](std::string& text) {
        int64_t value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        const bool whole = error == std::errc() && end == text.data() + text.size();
        return whole && value >= lowest && value <= highest
                   ? std::string()
                   : fmt::format("got {}, wanted {}", text, wanted);
      },
      "");
}

}  // namespace

std::optional<int> parse_command_line(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return std::nullopt;
}

CLI::Validator whole_number(int64_t lowest) {
  return whole_number_within(lowest, std::numeric_limits<int64_t>::max(),
                             fmt::format("a whole number from {}", lowest));
}

CLI::Validator thread_count() {
  const int64_t highest = std::max(kAnyMachine, 4 * hardware_threads());
  return whole_number_within(
      1, highest,
      fmt::format("a whole number from 1 to {}; this machine runs {} at once", highest,
                  hardware_threads()));
}

CLI::Validator existing_folder() {
  return CLI::Validator(
      [](std::string& path) {
        std::error_code code;
        if (std::filesystem::is_directory(path, code)) return std::string();
        return fmt::format("{}: {}", path,
                           code ? "cannot be opened: " + code.message() : "is not a folder");
      },
      "");
}

void warn_of_threads(int threads) {
  if (threads <= hardware_threads()) return;
  fmt::print(stderr, "xrun: {} threads on a machine that runs {} at once wait for each other\n",
             threads, hardware_threads());
}

}  // namespace xrun
