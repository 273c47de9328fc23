// Each verb asks the stepper of its state; results that are more than a number are tables that show
// themselves as text.

#include "lua/prompt/prompt_verbs.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/train/batch.h"
#include "lua/bind/modules.h"
#include "lua/bind/run_loop.h"
#include "lua/prompt/batch_text.h"
#include "lua/prompt/frame_prompt_names.h"
#include "lua/prompt/inspect_loop.h"
#include "lua/prompt/named_objective.h"
#include "lua/prompt/objective_verbs.h"
#include "lua/prompt/rows_verb.h"
#include "lua/prompt/touch.h"
#include "lua/state/args.h"
#include "lua/tensor/value_text.h"

namespace xrun {

namespace {

struct StepperSlot {
  std::weak_ptr<Stepper> stepper;
};

// A function as the lines that it was written in, anything else as the prompt shows it.
std::string text_for_log(lua_State* L, int i) {
  if (lua_isfunction(L, i) && lua_iscfunction(L, i) == 0) {
    lua_Debug about{};
    lua_pushvalue(L, i);
    lua_getinfo(L, ">S", &about);
    std::string text = fmt::format("({}:{})", about.source + 1, about.linedefined);
    for (int line = about.linedefined; line <= about.lastlinedefined; ++line) {
      text += "\n  " + source_line(L, about.source, line);
    }
    return text;
  }
  return value_text(L, i, {.width = 100, .calls = false});
}

// Names of the recipe, for as long as its state lives, as functions that were typed do; the run's
// log keeps what is assigned.
class LoggedNames : public FramePromptNames {
 public:
  explicit LoggedNames(const std::shared_ptr<Stepper>& stepper)
      : FramePromptNames([recipe = &stepper->recipe()] { return recipe_names(*recipe); }),
        stepper_(stepper) {}

  bool write(lua_State* L, const std::string& name) override {
    const int value = lua_gettop(L);
    std::string before = "nothing";
    if (read(L, name)) {
      before = text_for_log(L, lua_gettop(L));
      lua_pop(L, 1);
    }
    const std::string now = text_for_log(L, value);
    if (!FramePromptNames::write(L, name)) return false;
    if (const auto stepper = stepper_.lock()) {
      stepper->note(fmt::format("{} was {}\n{} is now {}", name, before, name, now), true);
    }
    return true;
  }

 private:
  std::weak_ptr<Stepper> stepper_;
};

// What a place (the first argument, "cfg.beta") holds, from what its first name does (the second).
int get_place(lua_State* L) {
  auto* place = static_cast<const std::string*>(lua_touserdata(L, 1));
  size_t end = place->find('.');
  while (end != std::string::npos) {
    const size_t begin = end + 1;
    end = place->find('.', begin);
    lua_pushlstring(L, place->data() + begin, std::min(end, place->size()) - begin);
    lua_istable(L, 2) != 0 ? lua_rawget(L, 2) : lua_gettable(L, 2);  // no __index of the recipe's
    lua_replace(L, 2);
  }
  return 1;
}

// "cfg.beta" as the log shows it; "nothing" if it leads nowhere.
std::string place_text(Prompt& prompt, const std::string& place) {
  lua_State* L = prompt.lua();
  const StackGuard guard(L);
  lua_pushcfunction(L, get_place);
  lua_pushlightuserdata(L, const_cast<std::string*>(&place));
  if (!prompt.push_name(place.substr(0, place.find('.')))) return "nothing";
  if (lua_pcall(L, 2, 1, 0) != 0) return "nothing";
  return lua_isnil(L, -1) ? "nothing" : text_for_log(L, lua_gettop(L));
}

// Keeps the run's log of what is typed, and notes what may change the run.
class InputLog {
 public:
  InputLog(Prompt& prompt, const std::shared_ptr<Stepper>& stepper)
      : prompt_(prompt), stepper_(stepper) {}

  void before(std::string_view input) {
    places_.clear();
    for (std::string& place : chunk_touch(prompt_, input).places) {
      std::string text = place_text(prompt_, place);
      places_.emplace_back(std::move(place), std::move(text));
    }
  }
  void after(std::string_view input, bool failed) {
    const auto stepper = stepper_.lock();
    if (stepper == nullptr) return;
    const ChunkTouch touch = chunk_touch(prompt_, input);
    const bool sets = input.starts_with(":set") && !failed;
    // What was typed into a run may read the prompt's own names.
    const bool touches = sets || touch.touches || (stepper->touched() && !touch.names.empty());
    std::string text = fmt::format("{}{}", input, failed ? "  (failed)" : "");
    for (const auto& [place, was] : places_) {
      const std::string now = place_text(prompt_, place);
      if (now != was) text += fmt::format("\n{0} was {1}\n{0} is now {2}", place, was, now);
    }
    stepper->note(text, touches);
  }

 private:
  Prompt& prompt_;
  std::weak_ptr<Stepper> stepper_;
  std::vector<std::pair<std::string, std::string>> places_;  // that the input assigns, before it
};

void push_metrics(lua_State* L, MetricTable table) {
  push(L, std::make_shared<MetricTable>(std::move(table)));
}

// What is said after a verb that may have ended the recipe.
void say_where(Stepper& stepper) {
  Console& console = *stepper.session().console;
  if (stepper.stopped()) console.print(fmt::format("stopped before step {}", stepper.pause().step));
  if (!stepper.done()) return;
  console.say(stepper.recipe().context().options.recipe + " has ended");
}

int step_verb(lua_State* L) {
  Stepper& stepper = stepper_of(L);
  MetricTable table = stepper.step();
  say_where(stepper);
  if (table.values.empty()) return 0;
  push_metrics(L, std::move(table));
  return 1;
}

int again_verb(lua_State* L) {
  Stepper& stepper = stepper_of(L);
  MetricTable first;
  MetricTable table = stepper.again(&first);
  Console& console = *stepper.session().console;
  const auto was = find_metric(first.values, "train/loss");
  const auto now = find_metric(table.values, "train/loss");
  if (was && now) {
    console.print(console.dim(*was == *now ? fmt::format("the same loss as before, bit for bit")
                                           : fmt::format("train/loss was {:.6g}", *was)));
  }
  push_metrics(L, std::move(table));
  return 1;
}

int batch_verb(lua_State* L) {
  const int64_t source = opt_arg<int64_t>(L, 1, "set").value_or(1);
  XRUN_CHECK(source >= 1, "batch({}): sets count from 1", source);
  push(L, stepper_of(L).batch(static_cast<size_t>(source - 1)));
  return 1;
}

int continue_verb(lua_State* L) {
  Stepper& stepper = stepper_of(L);
  const auto n = opt_arg<int64_t>(L, 1, "n");
  if (!n && !stepper.looks()) {
    Prompt::of(L).leave();  // the run goes on by itself
    return 0;
  }
  MetricTable table;
  if (n) {
    table = stepper.go_on(*n);
  } else {
    stepper.finish();
  }
  say_where(stepper);
  if (table.values.empty()) return 0;
  push_metrics(L, std::move(table));
  return 1;
}

const PromptVerb kVerbs[] = {
    {"step",
     {},
     {"Metrics"},
     "Runs the recipe's own next body and shows what it logged. An objective that fails leaves the "
     "recipe waiting in that body: mend it, and step() tries again.",
     step_verb},
    {"again",
     {},
     {"Metrics"},
     "Puts weights, optimizer, run.state and metrics back to before the last body and runs it "
     "again "
     "on the same rows: the same loss bit for bit if nothing changed. The recipe's own locals stay "
     "as they are.",
     again_verb},
    {"batch",
     {{"set?", "integer"}},
     {"Batch"},
     "The batch in hand: of the last step, before the first one that of the next. `set` counts the "
     "sets of a loop over several.",
     batch_verb},
    {"continue",
     {{"n?", "integer"}},
     {"Metrics"},
     "Goes on for n steps; without n to the end, which of a running recipe leaves the prompt.",
     continue_verb},
};

// All of them, in the order of :help.
const std::vector<PromptVerb>& verbs() {
  static const std::vector<PromptVerb> all = [] {
    std::vector<PromptVerb> list(std::begin(kVerbs), std::end(kVerbs));
    list.push_back(kRowsVerb);
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

Stepper& stepper_of(lua_State* L) {
  const auto stepper = LuaState::of(L).service<StepperSlot>().stepper.lock();
  XRUN_CHECK(stepper != nullptr,
             "this wants a recipe that is paused at its loop: xrun repl RECIPE.lua");
  return *stepper;
}

// What a prompt adds later is found by its name.
void open_step_verbs(LuaState& state) {
  const StackGuard guard(state);
  for (const PromptVerb& verb : verbs()) push_function(state, doc_of(verb), verb.function);
}

void add_step_verbs(Prompt& prompt, const std::shared_ptr<Stepper>& stepper,
                    std::function<std::string()> reload) {
  prompt.state().service<StepperSlot>().stepper = stepper;
  prompt.set_names(std::make_shared<LoggedNames>(stepper));
  const auto log = std::make_shared<InputLog>(prompt, stepper);
  prompt.before_input = [log](std::string_view input) { log->before(input); };
  prompt.on_input = [log](std::string_view input, bool failed) { log->after(input, failed); };
  for (const PromptVerb& verb : verbs()) {
    prompt.add_verb(verb.name, verb.parameters, verb.results, verb.doc, verb.function);
  }
  prompt.add({"batch", "[N]",
              "Shows the batch in hand: packs, segments, rows; with N its first N rows token by "
              "token, as xrun inspect does.",
              [](Prompt& at, std::string_view rest) {
                Stepper& stepper = stepper_of(at.lua());
                if (rest.empty()) return batch_text(stepper);
                return loop_text(stepper.pause(), stepper.recipe().context().options.recipe,
                                 stepper.batch_step(), batch_rows(rest), at.console().traits());
              }});
  if (!reload) return;
  prompt.add(
      {"reload", "",
       "Reads the recipe's file and modules again and pauses at the same step, with weights, "
       "optimizer and run.state as they are if its config is the same.",
       [reload = std::move(reload)](Prompt&, std::string_view) { return reload(); }});
}

}  // namespace xrun
