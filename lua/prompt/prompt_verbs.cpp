// The verbs step, again, batch and continue. Each uses the paused run of its state.

#include "lua/prompt/prompt_verbs.h"

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/train/batches/batch.h"
#include "lua/bind/modules.h"
#include "lua/bind/run/run_loop.h"
#include "lua/prompt/inspect_loop.h"
#include "lua/state/args.h"

namespace xrun {

namespace {

// Asks `now` for the frame at each use, because names are valid only until the recipe resumes.
// `now` must not refer to anything that ends before this.
class FramePromptNames : public PromptNames {
 public:
  explicit FramePromptNames(std::function<FrameNames()> now) : now_(std::move(now)) {}

  bool read(lua_State* L, const std::string& name) override { return now_().push(L, name); }
  bool write(lua_State* L, const std::string& name) override { return now_().set(L, name); }
  std::vector<std::string> names() override {
    std::vector<std::string> all;
    const FrameNames frame = now_();
    for (const FrameName& name : frame.names()) all.push_back(name.name);
    return all;
  }

 private:
  std::function<FrameNames()> now_;
};

struct PausedRunSlot {
  std::weak_ptr<PausedRun> paused;
};

void push_metrics(lua_State* L, MetricTable table) {
  push(L, std::make_shared<MetricTable>(std::move(table)));
}

// Reports a stop or the end of the recipe after a verb.
void report_position(PausedRun& paused) {
  Console& console = *paused.session().console;
  if (paused.stopped())
    console.print_raw(fmt::format("stopped before step {}", paused.pause().step));
  if (!paused.done()) return;
  console.print_escaped(paused.recipe().context().options.recipe + " has ended");
}

int step_verb(lua_State* L) {
  PausedRun& paused = paused_run_of(L);
  MetricTable table = paused.step();
  report_position(paused);
  if (table.values.empty()) return 0;
  push_metrics(L, std::move(table));
  return 1;
}

// "; train/grad_norm was 7.5" for the first other metric that changed, or "".
std::string changed_text(const MetricTable& was, const MetricTable& now) {
  for (const auto& [name, value] : now.values) {
    const auto before = find_metric(was.values, name);
    // Times differ in every run.
    if (name.starts_with("perf/") || !before || *before == value) continue;
    return fmt::format("; {} was {}", name, format_metric(*before));
  }
  return "";
}

// Also prints a line on what differs from the first time.
int again_verb(lua_State* L) {
  PausedRun& paused = paused_run_of(L);
  MetricTable first;
  MetricTable table = paused.again(&first);
  Console& console = *paused.session().console;
  const auto was = find_metric(first.values, "train/loss");
  const auto now = find_metric(table.values, "train/loss");
  if (was && now) {
    console.print_raw(console.dim(*was == *now ? "the same loss as before, bit for bit" +
                                                     changed_text(first, table)
                                               : fmt::format("train/loss was {:.6g}", *was)));
  }
  push_metrics(L, std::move(table));
  return 1;
}

int batch_verb(lua_State* L) {
  const int64_t source = opt_arg<int64_t>(L, 1, "set").value_or(1);
  XRUN_CHECK(source >= 1, "batch({}): sets count from 1", source);
  push(L, paused_run_of(L).batch(static_cast<size_t>(source - 1)));
  return 1;
}

// In a real run continue() leaves the prompt; in a preview it runs the recipe to its end.
int continue_verb(lua_State* L) {
  PausedRun& paused = paused_run_of(L);
  const auto n = opt_arg<int64_t>(L, 1, "n");
  if (!n && !paused.hooks().previews()) {
    Prompt::of(L).leave();  // the run continues by itself
    return 0;
  }
  MetricTable table;
  if (n) {
    table = paused.go_on(*n);
  } else {
    paused.finish();
  }
  report_position(paused);
  if (table.values.empty()) return 0;
  push_metrics(L, std::move(table));
  return 1;
}

const PromptVerb kVerbs[] = {
    {"step",
     {},
     {"Metrics"},
     "Runs the next body of the recipe's loop and shows what it logged. If the objective fails, "
     "the recipe waits at that call: fix a value that the objective reads, and step() makes the "
     "call again.",
     step_verb},
    {"again",
     {},
     {"Metrics"},
     "Restores weights, optimizer, run.state and metrics to their values before the last body "
     "and runs it again on the same rows: the same loss bit for bit if nothing changed. The "
     "recipe's own locals are not restored.",
     again_verb},
    {"batch",
     {{"set?", "integer"}},
     {"Batch"},
     "The current batch: that of the last step or, before the first step, that of the next one. "
     "`set` chooses one of the sets of the loop (1).",
     batch_verb},
    {"continue",
     {{"n?", "integer"}},
     {"Metrics"},
     "Runs n steps, or without n to the end. Without n, the prompt of a real run closes first.",
     continue_verb},
};

// All verbs, in the order of :help.
const std::vector<PromptVerb>& verbs() {
  static const std::vector<PromptVerb> all = [] {
    std::vector<PromptVerb> list(std::begin(kVerbs), std::end(kVerbs));
    list.push_back(rows_verb());
    for (const PromptVerb& verb : objective_verbs()) list.push_back(verb);
    return list;
  }();
  return all;
}

DocEntry doc_of(const PromptVerb& verb) {
  return {.name = std::string("repl.") + verb.name,
          .kind = DocKind::kFunction,
          .parameters = verb.parameters,
          .results = verb.results,
          .doc = verb.doc};
}

}  // namespace

PausedRun& paused_run_of(lua_State* L) {
  const auto paused = LuaState::of(L).service<PausedRunSlot>().paused.lock();
  if (paused == nullptr) throw Error(kNeedsPausedRecipe);
  return *paused;
}

void register_verb_docs(lua_State* L) {
  const StackGuard guard(L);
  for (const PromptVerb& verb : verbs()) push_function(L, doc_of(verb), verb.function);
}

void register_docs() {
  // Opening modules and adding verbs register their docs; the state itself is not used.
  LuaState state;
  for (OpenModule open : engine_modules()) open(state);
  open_require(state);
  register_verb_docs(state);
  Prompt prompt(state, std::make_shared<Console>([](std::string_view) {}, ConsoleTraits{}));
  for (const PromptCommand& command : prompt.commands()) {
    DocEntry entry{.name = ":" + command.name, .doc = command.doc};
    if (!command.arguments.empty()) entry.parameters = {{command.arguments, ""}};
    register_doc(std::move(entry));
  }
}

void add_step_verbs(Prompt& prompt, const std::shared_ptr<PausedRun>& paused,
                    std::function<std::string()> reload) {
  prompt.state().service<PausedRunSlot>().paused = paused;
  // Functions that were typed may read the names for as long as the recipe's state lives.
  prompt.set_names(std::make_shared<FramePromptNames>(
      [recipe = &paused->recipe()] { return recipe_names(*recipe); }));
  prompt.on_input = [log = std::weak_ptr(paused)](std::string_view input, bool failed) {
    const auto run = log.lock();
    if (run != nullptr) run->note(fmt::format("{}{}", input, failed ? "  (failed)" : ""));
  };
  for (const PromptVerb& verb : verbs()) {
    prompt.add_verb(verb.name, verb.parameters, verb.results, verb.doc, verb.function);
  }
  prompt.add(
      {"batch", "[N]",
       "Shows the current batch: packs, segments, rows; with N its first N rows token by token, as "
       "xrun inspect does.",
       [](Prompt& at, std::string_view rest) {
         PausedRun& paused = paused_run_of(at.lua());
         if (rest.empty()) return batch_text(paused);
         return loop_text(paused.pause(), paused.recipe().context().options.recipe,
                          paused.batch_step(), batch_rows(rest), at.console().traits());
       }});
  if (!reload) return;
  prompt.add({"reload", "",
              "Reads the recipe's file and modules again and pauses at the same step; weights, "
              "optimizer and run.state are carried over if the config is unchanged.",
              [reload = std::move(reload)](Prompt& at, std::string_view) {
                std::string text = reload();
                // The new config comes from the file and --set.
                std::vector<std::string>& keys = at.keys_set;
                if (!keys.empty()) text += "; :set is undone for " + joined(keys, ", ");
                keys.clear();
                return text;
              }});
}

}  // namespace xrun
