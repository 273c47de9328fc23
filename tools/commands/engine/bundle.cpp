// xrun bundle RECIPE.lua: one file with everything that decides the numbers of a recipe.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <string>

#include "core/base/file.h"
#include "core/base/running_program.h"
#include "core/base/strings.h"
#include "core/console/terminal/shown_text.h"
#include "core/run/record/run_files.h"
#include "core/run/resume.h"
#include "core/run/resumed_run.h"
#include "core/share/bundle_maker.h"
#include "lua/bind/recipe_text.h"
#include "lua/bind/session.h"
#include "tools/commands/command_line.h"
#include "tools/commands/engine/bundle_arguments.h"
#include "tools/commands/engine/engine_commands.h"
#include "tools/commands/trust_arguments.h"

namespace xrun {

namespace {

// Returns the folder that the recipe runs in by default; "" if it has not run there.
std::filesystem::path default_run_of(const std::string& recipe,
                                     const std::vector<std::string>& sets) {
  RecipeOptions options;
  options.recipe = recipe;
  RunIdentity identity;
  identity.recipe_name = recipe_name(recipe);
  identity.recipe_text = read_recipe(options);
  const ScannedRecipe scanned = scan_recipe_of(options, identity.recipe_text);
  identity.config = Config::resolve(scanned, sets).values();
  const std::filesystem::path dir = default_run_dir(identity);
  return is_file(dir / "run.json") ? dir : std::filesystem::path();
}

// Returns a line on an input: its size, and whether it is in the bundle or found by digest.
std::string input_text(const LockedInput& input) {
  const auto left = std::count_if(input.files.begin(), input.files.end(),
                                  [](const LockedFile& file) { return file.member.empty(); });
  const std::string size = format_bytes(static_cast<double>(input.bytes()));
  return fmt::format("{} {} ({}): {}", input_kind_name(input.kind), input.name, size,
                     left == 0 ? "in the bundle"
                     : input.kind == InputKind::kModel
                         ? "tokenizer in the bundle, weights by digest"
                         : "by digest");
}

void report_bundle(const MadeBundle& made, bool has_run) {
  std::error_code none;
  const auto say = [](const std::string& line) { fmt::print("{}\n", shown_text(line)); };
  say(fmt::format("{} ({}, {})", made.path.string(),
                  format_bytes(static_cast<double>(std::filesystem::file_size(made.path, none))),
                  counted(std::ssize(made.lock.members), "member")));
  for (const LockedInput& input : made.lock.inputs) say("  " + input_text(input));
  if (made.lock.run) {
    say(fmt::format("  first steps: {} of the run", made.lock.run->steps.size()));
  } else {
    say(fmt::format("  first steps: none, {}",
                    has_run ? "see the note" : "the recipe has no run; --run DIR names one"));
  }
  for (const std::string& notice : made.notices) say("note: " + notice);
  say(fmt::format("to run it: {} {}", called_as(), shell_word(made.path.string())));
}

}  // namespace

int command_bundle(int argc, char** argv) {
  BundleRequest request;
  std::string out, run;
  CLI::App app(
      "Makes one file of a recipe with its modules, templates, tokenizer and settings, locked by "
      "SHA-256 to its data, its model and this program, with the first steps of its run to compare "
      "with. xrun FILE.xrb runs it. The recipe is read, not run.",
      "xrun bundle");
  app.add_option("RECIPE", request.recipe, "the recipe, a Lua file")->required();
  app.add_option("--set", request.sets, "a config key of the bundle, as of a run")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
  app.add_option("-o,--out", out, "the file (NAME.xrb)")->type_name("FILE");
  app.add_option("--run", run,
                 "the run whose settings and first steps the bundle has (runs/<recipe>-<hash>)")
      ->type_name("DIR")
      ->check(folder_name());
  app.add_flag("--with-data", request.with_data, "put the files of rows into the bundle");
  app.add_flag("--with-model", request.with_model, "put the weights into the bundle");
  add_trust_arguments(app);
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  if (is_bundle_name(request.recipe)) {
    throw UsageError(fmt::format("{}: is a bundle already; xrun init --from {} copies its recipe",
                                 request.recipe, shell_word(request.recipe)));
  }
  std::error_code none;
  if (std::filesystem::is_directory(request.recipe, none)) {
    throw UsageError(fmt::format(
        "{0}: is a folder; a bundle is made of a recipe, with the run's settings and first steps: "
        "{1} bundle {2}.lua --run {3}",
        request.recipe, called_as(),
        is_file(std::filesystem::path(request.recipe) / "run.json")
            ? text_member(read_run_record(request.recipe), "recipe")
            : "RECIPE",
        shell_word(request.recipe)));
  }
  request.run_given = !run.empty();
  if (request.run_given) {
    request.run = run;
    const ResumedRun of_run = find_resumed_run(recipe_name(request.recipe), run, {});
    request.sets = joined_sets(of_run.sets, request.sets);
  } else {
    request.run = default_run_of(request.recipe, request.sets);
  }
  const ProgramFacts program = program_facts();
  request.models = program.models;
  request.binary = program.binary;
  request.operators = program.operators;
  request.run_binary = binary_identity();
  report_bundle(make_bundle(request, out), !request.run.empty());
  return 0;
}

}  // namespace xrun
