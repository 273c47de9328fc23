// xrun inspect RECIPE.lua: the packs of a step as they will train. The recipe runs up to its loop
// and no further; weights load for --logprobs alone. What its first loop draws from is remembered.

#include <cmath>
#include <cstdio>

#include "core/base/cache_root.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/data/packs/loop_note.h"
#include "core/text/tokenizer/tokenizer.h"
#include "core/train/data_batch.h"
#include "core/train/logprob_stand_in.h"
#include "core/train/policy.h"
#include "core/train/reference.h"
#include "core/train/evaluate.h"
#include "lua/prompt/inspect_loop.h"
#include "lua/prompt/look.h"
#include "lua/bind/run_loop.h"
#include "tools/commands/command_line.h"
#include "tools/commands/engine/cuda_plugin.h"
#include "tools/commands/engine/engine_commands.h"
#include "tools/commands/inspect_arguments.h"

namespace xrun {

namespace {

constexpr uint64_t kSeed = 1;  // of log-probs that nobody sees

// Throws what ended the recipe, or that it ended without a loop.
void require_pause(LookSession& look) {
  if (look.pause() != nullptr) return;
  if (look.error() == nullptr) throw UsageError(look.no_loop_text());
  if (look.error()->usage) throw UsageError(look.error()->text());
  throw Error(look.error()->text());
}

// Leaves loops until the one that has the step.
const LoopPause& find_step(LookSession& look, int64_t step) {
  for (;;) {
    const LoopPause& pause = *look.pause();
    const int64_t end = pause.loop->first_step + pause.loop->steps;
    if (step < end) return pause;
    if (look.next_loop()) continue;
    if (look.error() != nullptr) require_pause(look);
    throw_beyond(step, end);
  }
}

// Puts the scores of a pack's tokens where they are shown.
void add_scores(InspectedPack& shown, const PackedBatch& pack, const std::vector<float>& scores,
                std::optional<float> InspectedToken::*field) {
  size_t next = 0;  // the segment of `shown` that is looked for, in the order of the pack
  for (size_t s = 0; s + 1 < pack.cu_seqlens.size() && next < shown.segments.size(); ++s) {
    InspectedSegment& segment = shown.segments[next];
    const auto begin = static_cast<size_t>(pack.cu_seqlens[s]);
    const bool same =
        segment.row == pack.row_id[s] && segment.side == pack.side[s] &&
        static_cast<int32_t>(segment.tokens.size()) == pack.cu_seqlens[s + 1] - pack.cu_seqlens[s];
    if (!same) continue;
    for (size_t i = 0; i < segment.tokens.size(); ++i) {
      if (!std::isnan(scores[begin + i])) segment.tokens[i].*field = scores[begin + i];
    }
    ++next;
  }
}

// Log-probs of the policy, and of its reference if the recipe has one.
void score(LookSession& look, const StepSource& source, const LoopPause& pause, int64_t step,
           const std::vector<PackedBatch>& packs, InspectedStep& shown) {
  Policy& policy = *source.data->policy;
  BatchInfo info;
  info.step = step;
  info.unit = unit_of_rows(source.data->set.kind());
  info.max_tokens = pause.loop->max_tokens;
  info.device = pause.run->device();
  for (InspectedPack& pack : shown.packs) {
    const PackedBatch& packed = packs[static_cast<size_t>(pack.index)];
    add_scores(pack, packed, token_scores(policy, packed, info), &InspectedToken::policy);
    for (const auto& reference : look.session().references) {
      if (reference->policy().get() != &policy) continue;
      add_scores(pack, packed, token_scores(*reference, packed, info), &InspectedToken::reference);
      break;
    }
  }
}

// The step's share of each set of the loop that has it.
std::vector<InspectedStep> inspect_sets(LookSession& look, const InspectArguments& arguments) {
  const LoopPause& pause = find_step(look, arguments.step);
  std::vector<InspectedStep> sets =
      inspect_loop(pause, arguments.recipe, arguments.step, arguments.rows);
  for (size_t i = 0; arguments.logprobs && i < sets.size(); ++i) {
    score(look, pause.loop->sources[i], pause, arguments.step,
          pause.run->packs(*pause.loop, arguments.step, i), sets[i]);
  }
  return sets;
}

// Notes what the name of a policy's model stands for; false if that may change unseen.
bool note_model(LoopNote& note, const Policy& policy, const Json* name) {
  if (name == nullptr || !name->is_string()) return false;
  const std::string model = name->as_string();
  // The name of a model is no folder, and a folder is no adapter's.
  const std::string adapter = model + "/adapter_config.json";
  if (std::filesystem::exists(adapter)) return false;
  note.absent = {adapter};
  if (std::filesystem::exists(model)) return true;
  note.absent.push_back(model);
  // A name of `xrun models` is one folder; what a repository's name stands for may move on.
  return policy.dir().parent_path() == cache_root() / "models";
}

// What the packs of the first loop depend on, if that can be told: the text of the recipe and its
// modules, the model's folder, and its sets.
std::optional<LoopNote> note_of(LookSession& look) {
  const LoopPause& pause = *look.pause();
  const RecipeContext& context = look.recipe().context();
  const std::shared_ptr<Policy> policy = look.policy();
  LoopNote note;
  note.notices = look.session().notices;
  note.steps = pause.loop->steps;
  note.max_tokens = pause.loop->max_tokens;
  note.model = policy->dir();
  note.tokenizer = policy->tokenizer()->digest();
  bool whole = !policy->loaded() && pause.loop->first_step == 0;
  note.files = {{context.options.recipe, hash_hex(context.text.text)}};
  for (const LoadedModule& module : context.modules) {
    if (module.path != "xrun") note.files.emplace_back(module.path, module.hash);
  }
  for (const auto& [file, hash] : note.files) {
    const std::string text = read_file(file);
    whole = whole && hash_hex(text) == hash && depends_on_itself(text);
  }
  const std::string config = policy->dir() / "config.json";
  note.files.emplace_back(config, hash_hex(read_file(config)));
  if (!whole || !note_model(note, *policy, context.config.find("model"))) return std::nullopt;
  for (const StepSource& source : pause.loop->sources) {
    whole = whole && source.data->note != nullptr && source.data->policy == policy;
    if (!whole) return std::nullopt;
    SetNote set = *source.data->note;
    set.window = source.data->set.window_length();
    note.sources.push_back(
        {source.data->name, std::move(set), source.plan, source.data->set.fingerprint()});
  }
  return note;
}

// Remembers the loop for the next time; that it cannot be is no matter.
void remember(LookSession& look, const InspectArguments& arguments) {
  try {
    if (const auto note = note_of(look)) {
      keep_loop_note(cache_root(), loop_note_key(arguments), *note);
    }
  } catch (const Interrupted&) {
    throw;
  } catch (const std::exception&) {
    return;
  }
}

RecipeOptions recipe_options(const InspectArguments& arguments) {
  RecipeOptions options;
  options.recipe = arguments.recipe;
  options.sets = arguments.sets;
  options.run_dir = arguments.run_dir;
  options.device = arguments.device;
  options.threads = arguments.threads;
  return options;
}

}  // namespace

int command_inspect(int argc, char** argv) {
  InspectArguments arguments;
  CLI::App app("", "xrun inspect");  // its help is the light way's
  add_inspect_arguments(app, arguments);
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  if (arguments.device == "cuda") load_cuda_plugin();
  warn_of_threads(arguments.threads);
  const auto look = start_look(recipe_options(arguments), console_on(stderr));
  require_pause(*look);
  remember(*look, arguments);
  if (!arguments.logprobs) {  // what lies between two loops evaluates and samples without weights
    look->session().stand_in =
        std::make_shared<LogprobStandIn>(LogprobStandIn::seeded(kSeed), at::kDouble);
  }
  const std::vector<InspectedStep> sets = inspect_sets(*look, arguments);
  for (const std::string& notice : look->session().notices) {
    look->session().console->say(notice);
  }
  write_inspected(arguments, sets);
  return 0;
}

}  // namespace xrun
