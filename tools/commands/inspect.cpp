// xrun inspect over a remembered loop: the packs of a step without the recipe and without LibTorch,
// whose libraries alone take 0.3 s to load. What is remembered is checked against every byte that
// could change it; in doubt the recipe runs.

#include <cstdio>
#include <exception>

#include "core/base/cache_root.h"
#include "core/console/terminal/shown_text.h"
#include "core/data/packs/loop_note.h"
#include "core/text/tokenizer/tokenizer.h"
#include "tools/commands/command_line.h"
#include "tools/commands/commands.h"
#include "tools/commands/inspect_arguments.h"

namespace xrun {

namespace {

// The step's share of each set; nothing if the note does not hold for what is there now.
std::optional<std::vector<InspectedStep>> inspect_noted(const InspectArguments& arguments,
                                                        const LoopNote& note) {
  if (arguments.step >= note.steps) return std::nullopt;  // perhaps of another loop
  const auto tokenizer = Tokenizer::load(note.model);
  if (tokenizer->digest() != note.tokenizer) return std::nullopt;
  std::vector<InspectedStep> sets;
  int64_t pairs = 0;
  for (const LoopNote::Source& source : note.sources) {
    const DataSet set = open_noted_set(source.set, *tokenizer);
    if (!fits(source, set)) return std::nullopt;
    const InspectedSource from{set,
                               *tokenizer,
                               arguments.recipe,
                               source.name,
                               arguments.step,
                               note.steps,
                               note.max_tokens,
                               pairs};
    sets.push_back(inspect_step(from, source.plan, arguments.step, arguments.rows));
    pairs += sets.back().units;
  }
  return sets;
}

}  // namespace

std::optional<int> command_inspect_noted(int argc, char** argv) {
  InspectArguments arguments;
  CLI::App app("Shows the packs of a step as they will train: tokens, weights, roles, rows.",
               "xrun inspect");
  add_inspect_arguments(app, arguments);
  if (const auto status = parse_command_line(app, argc, argv)) return status;
  if (arguments.html == "-" && arguments.json) {
    throw UsageError("--html - and --json both write to standard output; give --html a file");
  }
  if (arguments.logprobs) return std::nullopt;
  std::optional<std::vector<InspectedStep>> sets;
  std::optional<LoopNote> note;
  try {
    note = find_loop_note(cache_root(), loop_note_key(arguments));
    if (note) sets = inspect_noted(arguments, *note);
  } catch (const Interrupted&) {
    throw;
  } catch (const std::exception&) {
    return std::nullopt;  // the recipe's own way says what is wrong
  }
  if (!sets) return std::nullopt;
  for (const std::string& notice : note->notices) {
    std::fprintf(stderr, "%s\n", shown_text(notice).c_str());
  }
  write_inspected(arguments, *sets);
  return 0;
}

}  // namespace xrun
