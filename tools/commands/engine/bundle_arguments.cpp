// The settings of a bundle come first, so that --set of the command line replaces them.

#include "tools/commands/engine/bundle_arguments.h"

#include <algorithm>

#include "core/model/weights/model_registry.h"
#include "core/run/resumed_run.h"
#include "lua/bind/run/resumed_options.h"
#include "lua/bind/session.h"
#include "lua/tensor/op_table.h"

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

// A machine that a hostile lock names must not exhaust this one.
constexpr int64_t kMostLockedThreads = 1024;

void take_machine(const LockedRun& run, RecipeOptions& options) {
  if (!options.device_given && text_member(run.machine, "device") == "cuda")
    options.device = "cuda";
  const Json* threads = run.machine.find("threads");
  if (options.threads == 0 && threads != nullptr && threads->is_int() && threads->as_int() > 0) {
    options.threads = static_cast<int>(std::min(threads->as_int(), kMostLockedThreads));
  }
}

// The run that --resume continues. One without --run is named by the recipe in the bundle and the
// settings.
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
  if (bundle->lock.run) take_machine(*bundle->lock.run, options);
  options.bundle = bundle;
  return options;
}

}  // namespace xrun
