// The settings of a bundle come first, so that --set of the command line replaces them.

#include "tools/commands/engine/bundle_arguments.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/model/weights/model_registry.h"
#include "core/run/resumed_run.h"
#include "lua/bind/run/resumed_options.h"
#include "lua/bind/session.h"
#include "lua/tensor/op_table.h"
#include "tools/commands/command_line.h"

namespace xrun {

namespace {

std::vector<std::string> schemas_of(const std::string& name) {
  std::vector<std::string> out;
  const OpPacket* packet = find_public_op(name);
  if (packet == nullptr) packet = find_op("xrun", name);
  if (packet == nullptr) return out;
  for (const OpOverload& overload : packet->overloads) out.push_back(overload_text(overload));
  std::sort(out.begin(), out.end());
  return out;
}

// A hostile lock must not ask for more than a user may.
void take_machine(const std::string& file, const LockedRun& run, RecipeOptions& options) {
  const std::string device = text_member(run.machine, "device");
  XRUN_CHECK(device.empty() || device == "cpu" || device == "cuda",
             "{}: run.machine.device of its lock is \"{}\", wanted \"cpu\" or \"cuda\"", file,
             device);
  if (!options.device_given && device == "cuda") options.device = device;
  const Json* threads = run.machine.find("threads");
  if (options.threads != 0 || threads == nullptr) return;
  const int64_t most = most_threads();
  XRUN_CHECK(threads->is_int() && threads->as_int() >= 1 && threads->as_int() <= most,
             "{}: run.machine.threads of its lock is {}, wanted 1 to {}; --threads N replaces it",
             file, dump_json(*threads), most);
  options.threads = static_cast<int>(threads->as_int());
}

// Returns the run that --resume continues. Without --run, the recipe in the bundle and the settings
// name it.
ResumedRun run_of_bundle(RecipeOptions options) {
  if (options.run_dir.empty()) {
    const std::vector<std::string> given = std::move(options.sets);
    options = unchecked_bundle(std::move(options));
    options.sets = joined_sets(options.sets, given);
  }
  return resumed_run(options);
}

}  // namespace

ProgramFacts program_facts() {
  return {.binary = binary_lock(),
          .operators = schemas_of,
          .models = {.folder = find_model, .cached = cached_models()}};
}

RecipeOptions unchecked_bundle(RecipeOptions options) {
  const auto opened = std::make_shared<const OpenedBundle>(extract_bundle(options.recipe));
  options.recipe = opened->recipe();
  options.sets = opened->lock.sets;
  options.bundle = opened;
  return options;
}

RecipeOptions bundled_options(RecipeOptions options, bool force) {
  if (!is_bundle_name(options.recipe)) return options;
  std::vector<std::string> sets = options.sets;
  if (options.resume) {
    const ResumedRun run = run_of_bundle(options);
    options.run_dir = run.dir.string();
    sets = joined_sets(run.sets, sets);
  }
  const auto bundle =
      std::make_shared<const OpenedBundle>(open_bundle(options.recipe, program_facts(), sets));
  for (std::string& notice : accept_bundle(*bundle, force)) {
    options.notices.push_back(std::move(notice));
  }
  options.recipe = bundle->recipe();
  options.sets = joined_sets(bundle->lock.sets, sets);
  if (bundle->lock.run) take_machine(bundle->file, *bundle->lock.run, options);
  options.bundle = bundle;
  return options;
}

}  // namespace xrun
