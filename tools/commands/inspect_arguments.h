#pragma once
// What xrun inspect is asked for, and how it writes what it found: shared by its two ways, over a
// remembered loop and over the recipe.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "core/console/inspect/inspected_pack.h"

namespace xrun {

struct InspectArguments {
  std::string recipe;
  std::vector<std::string> sets;
  std::string run_dir;
  std::string device = "cpu";
  int threads = 0;
  int64_t step = 0;
  int64_t rows = -1;  // all
  std::string html;   // a file; "": no page
  bool json = false;
  bool logprobs = false;
  std::string color = "auto";
  int width = 0;  // 0: the terminal's
};

void add_inspect_arguments(CLI::App& app, InspectArguments& arguments);

// Writes the sets of a step to standard output, or as a page to arguments.html.
void write_inspected(const InspectArguments& arguments, const std::vector<InspectedStep>& sets);

// Under what the loop of these arguments is remembered: the recipe as it is named, its settings,
// the day and this build.
std::string loop_note_key(const InspectArguments& arguments);

// Bad usage: the step that was asked for lies behind the last one.
[[noreturn]] void throw_beyond(int64_t step, int64_t steps);

}  // namespace xrun
