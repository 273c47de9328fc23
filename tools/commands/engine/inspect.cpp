// xrun inspect RECIPE.lua shows the packs of a step as they will train. The recipe runs up to its
// loop and no further; only --logprobs loads weights.
// xrun inspect RUN shows the groups of answers that a run sampled at a step, from its folder.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/file.h"
#include "core/base/strings.h"
#include "core/console/inspect/inspected_pack.h"
#include "core/console/inspect/rollout_text.h"
#include "core/console/terminal/shown_text.h"
#include "core/run/record/run_files.h"
#include "core/train/batches/data_batch.h"
#include "core/train/evaluate.h"
#include "core/train/models/logprob_stand_in.h"
#include "core/train/models/policy.h"
#include "core/train/models/reference.h"
#include "lua/bind/run/run_loop.h"
#include "lua/prompt/inspect_loop.h"
#include "lua/prompt/preview.h"
#include "tools/commands/command_line.h"
#include "tools/commands/engine/cuda_plugin.h"
#include "tools/commands/engine/engine_commands.h"
#include "tools/commands/engine/recipe_arguments.h"
#include "tools/commands/trust_arguments.h"

namespace xrun {

namespace {

constexpr uint64_t kSeed = 1;  // for log-probs that nobody sees

struct InspectArguments {
  RecipeOptions recipe;
  std::optional<int64_t> step;  // default: 0 for a recipe, the last with rollouts for a run
  int64_t rows = -1;            // all
  std::string html;             // a file; "": no page
  bool json = false;
  bool logprobs = false;
  std::string color = "auto";
  int width = 0;  // 0: the terminal's
};

PackTextStyle text_style(const InspectArguments& arguments) {
  const ConsoleTraits traits = console_traits(STDOUT_FILENO);
  PackTextStyle style{traits.colors, arguments.width > 0 ? arguments.width : traits.width};
  if (arguments.color == "always") style.colors = terminal_colors();
  if (arguments.color == "never") style.colors = ColorDepth::kNone;
  return style;
}

void put(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void add_inspect_arguments(CLI::App& app, InspectArguments& arguments) {
  add_recipe_arguments(app, arguments.recipe);
  add_trust_arguments(app);
  app.add_option("--step", arguments.step, "which step, counted from 0 (0; of a run the last)")
      ->check(whole_number(0));
  app.add_option("--rows", arguments.rows,
                 "only the first rows, or groups of a run, of the step (all)")
      ->check(whole_number(1));
  app.add_option("--html", arguments.html,
                 "write one self-contained page to this file; - is standard output")
      ->type_name("FILE");
  app.add_flag("--json", arguments.json, "one JSON object per pack");
  app.add_flag("--logprobs", arguments.logprobs,
               "log-probs of every token under the policy and its reference; loads the weights");
  app.add_option("--color", arguments.color, "auto, always or never (auto: on a terminal)")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  app.add_option("--width", arguments.width, "columns of a line (the terminal's)")
      ->check(whole_number(1));
}

// Writes a page, JSON or both if they are asked for, else text.
void write_inspected(const InspectArguments& arguments, const std::vector<InspectedStep>& sets) {
  if (!arguments.html.empty()) {
    const std::string page = pack_page(sets);
    if (arguments.html == "-") {
      put(page);
    } else {
      write_file_atomic(arguments.html, page);
      std::fprintf(stderr, "%s: written; open it in a browser\n",
                   shown_text(arguments.html).c_str());
    }
  }
  for (const InspectedStep& step : sets) {
    if (arguments.json) {
      for (const InspectedPack& pack : step.packs) put(dump_json(pack_json(step, pack)) + "\n");
    } else if (arguments.html.empty()) {
      if (&step != &sets.front()) put("\n");
      put(step_text(step, text_style(arguments)));
    }
  }
}

[[noreturn]] void throw_beyond(int64_t step, int64_t steps) {
  throw UsageError(fmt::format("--step {} is beyond the last step: the recipe has {}, 0 to {}",
                               step, counted(steps, "step"), steps - 1));
}

// Throws the error that ended the recipe, or one that says that it has no loop.
void require_pause(Preview& preview) {
  if (preview.pause() != nullptr) return;
  if (preview.error() == nullptr) throw UsageError(preview.no_loop_text());
  if (preview.error()->usage) throw UsageError(preview.error()->text());
  throw Error(preview.error()->text());
}

// Leaves loops until the one that has the step.
const LoopPause& find_step(Preview& preview, int64_t step) {
  // Code after a loop evaluates, and would print results of stand-ins.
  static const auto quiet = std::make_shared<Console>([](std::string_view) {}, ConsoleTraits{});
  for (;;) {
    const LoopPause& pause = *preview.pause();
    const int64_t end = pause.loop->first_step + pause.loop->steps;
    if (step < end) return pause;
    const auto console = std::exchange(preview.session().console, quiet);
    const bool more = preview.next_loop();
    preview.session().console = console;
    if (more) continue;
    if (preview.error() != nullptr) require_pause(preview);
    throw_beyond(step, end);
  }
}

// Copies the scores of a pack's tokens into the field of the shown tokens.
void add_scores(InspectedPack& shown, const PackedBatch& pack, const std::vector<float>& scores,
                std::optional<float> InspectedToken::*field) {
  size_t next = 0;  // the next segment of `shown` to find; they are in the order of the pack
  for (size_t s = 0; s + 1 < pack.cu_seqlens.size() && next < shown.segments.size(); ++s) {
    InspectedSegment& segment = shown.segments[next];
    const auto begin = static_cast<size_t>(pack.cu_seqlens[s]);
    const bool same =
        segment.row == pack.row_id[s] && segment.side == pack.side[s] &&
        static_cast<int32_t>(segment.tokens.size()) == pack.cu_seqlens[s + 1] - pack.cu_seqlens[s];
    if (!same) continue;
    for (size_t i = 0; i < segment.tokens.size(); ++i) {
      // NaN is not a score.
      if (!std::isnan(scores[begin + i])) segment.tokens[i].*field = scores[begin + i];
    }
    ++next;
  }
}

// Adds log-probs of the policy, and of its reference if the recipe has one.
void score(Preview& preview, const StepSource& source, const LoopPause& pause, int64_t step,
           const std::vector<PackedBatch>& packs, InspectedStep& shown) {
  Policy& policy = *source.data->policy;
  BatchInfo info;
  info.step = step;
  info.unit = unit_of_rows(source.data->set.kind());
  info.max_tokens = pause.loop->max_tokens;
  info.fold = pause.loop->fold;
  info.device = pause.run->device();
  for (InspectedPack& pack : shown.packs) {
    const PackedBatch& packed = packs[static_cast<size_t>(pack.index)];
    add_scores(pack, packed, token_scores(policy, packed, info), &InspectedToken::policy);
    for (const auto& reference : preview.session().models.references()) {
      // A reference of another policy has other values.
      if (reference->policy().get() != &policy) continue;
      add_scores(pack, packed, token_scores(*reference, packed, info), &InspectedToken::reference);
      break;
    }
  }
}

// Returns the step's packs of each set of the loop that has the step.
std::vector<InspectedStep> inspect_sets(Preview& preview, const InspectArguments& arguments) {
  const int64_t step = arguments.step.value_or(0);
  const LoopPause& pause = find_step(preview, step);
  std::vector<InspectedStep> sets =
      inspect_loop(pause, arguments.recipe.recipe, step, arguments.rows);
  for (size_t i = 0; arguments.logprobs && i < sets.size(); ++i) {
    score(preview, pause.loop->sources[i], pause, step, pause.loop->packs(step, i), sets[i]);
  }
  return sets;
}

// Prints the sampled answers of a run's step, without evaluating the recipe.
void inspect_run(const InspectArguments& arguments) {
  const std::filesystem::path dir = arguments.recipe.recipe;
  check_run_format(read_run_record(dir), dir);
  const std::vector<int64_t> steps = rollout_steps(dir);
  if (steps.empty()) {
    throw UsageError(fmt::format(
        "{}: the run has no rollouts, which are what inspect shows of a run; xrun report {} shows "
        "the rest",
        dir.string(), dir.string()));
  }
  const int64_t step = arguments.step.value_or(steps.back());
  if (!std::binary_search(steps.begin(), steps.end(), step)) {
    throw UsageError(fmt::format("--step {}: the run has rollouts of {}, {} to {}", step,
                                 counted(std::ssize(steps), "step"), steps.front(), steps.back()));
  }
  // A run's folder has no packs, which these options show.
  if (arguments.json || arguments.logprobs || !arguments.html.empty()) {
    throw UsageError(fmt::format(
        "--json, --html and --logprobs are for recipes; zstdcat {}/rollouts/step_{:07}.jsonl.zst "
        "gives the answers as JSON, xrun report a page",
        dir.string(), step));
  }
  put(rollout_groups_text(read_rollouts(dir, step), arguments.rows, text_style(arguments).width));
}

}  // namespace

int command_inspect(int argc, char** argv) {
  InspectArguments arguments;
  CLI::App app(
      "Shows the packs of a step as they will train: tokens, weights, roles, rows. Of a "
      "run's folder instead of a recipe: the groups of answers that it sampled.",
      "xrun inspect");
  add_inspect_arguments(app, arguments);
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  if (arguments.html == "-" && arguments.json) {
    throw UsageError("--html - and --json both write to standard output; give --html a file");
  }
  if (is_folder(arguments.recipe.recipe)) {
    inspect_run(arguments);
    return 0;
  }
  arguments.recipe = preview_options(app, std::move(arguments.recipe));
  if (arguments.recipe.device == "cuda") load_cuda_plugin();
  warn_of_threads(arguments.recipe.threads);
  const auto preview = open_preview(arguments.recipe, console_on(stderr));
  require_pause(*preview);
  if (!arguments.logprobs) {  // code between two loops evaluates and samples without weights
    preview->session().models.stand_in(
        std::make_shared<LogprobStandIn>(LogprobStandIn::seeded(kSeed), at::kDouble));
  }
  const std::vector<InspectedStep> sets = inspect_sets(*preview, arguments);
  for (const std::string& notice : preview->session().notices.lines) {
    preview->session().console->print_escaped(notice);
  }
  write_inspected(arguments, sets);
  return 0;
}

}  // namespace xrun
