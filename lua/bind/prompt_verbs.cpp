// Each verb asks the stepper of its state; results that are more than a number are tables that show
// themselves as text.

#include "lua/bind/prompt_verbs.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/console/progress.h"
#include "core/console/shown_text.h"
#include "core/console/table.h"
#include "core/text/tokenizer.h"
#include "core/train/batch.h"
#include "core/train/evaluate.h"
#include "core/train/extreme_rows.h"
#include "core/train/policy.h"
#include "lua/bind/args.h"
#include "lua/bind/frame_prompt_names.h"
#include "lua/bind/inspect_loop.h"
#include "lua/bind/modules.h"
#include "lua/bind/named_objective.h"
#include "lua/bind/objective.h"
#include "lua/bind/objective_verbs.h"
#include "lua/bind/run_loop.h"
#include "lua/bind/shown_table.h"
#include "lua/bind/value_text.h"

namespace xrun {

namespace {

std::span<const PromptVerb> step_verbs();

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

bool is_verb(const std::string& name) {
  const auto has = [&](std::span<const PromptVerb> verbs) {
    return std::any_of(verbs.begin(), verbs.end(),
                       [&](const PromptVerb& verb) { return name == verb.name; });
  };
  return has(step_verbs()) || has(objective_verbs());
}

// Names of the recipe, for as long as its state lives, as functions that were typed do; the run's
// log keeps what is assigned.
class LoggedNames : public FramePromptNames {
 public:
  explicit LoggedNames(const std::shared_ptr<Stepper>& stepper)
      : FramePromptNames([recipe = &stepper->recipe()] { return recipe_names(*recipe); }),
        stepper_(stepper) {}

  // The body's own `step` and `batch` would hide the verbs.
  bool read(lua_State* L, const std::string& name) override {
    return !is_verb(name) && FramePromptNames::read(L, name);
  }
  std::vector<std::string> names() override {
    std::vector<std::string> all = FramePromptNames::names();
    std::erase_if(all, is_verb);
    return all;
  }
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

// rows{ by = "margin", n = 10, of = valid, objective = dpo, highest = false }
int rows_verb(lua_State* L) {
  Stepper& stepper = stepper_of(L);
  const Options options(L, 1, {"by", "n", "of", "objective", "highest"});
  const std::string by = options.get<std::string>("by", "loss");
  const int64_t most = options.get<int64_t>("n", 10);
  XRUN_CHECK(most > 0, "n is {}, wanted a number of rows above 0", most);
  stepper.begin_loop();
  const LoopPause& at = stepper.pause();
  std::string name;
  options.has("objective") ? options.push_value("objective") : push_objective(L, stepper, &name);
  const Objective objective = lua_objective(L, lua_gettop(L), "objective");
  auto data = at.loop->sources.front().data;
  if (options.has("of")) data = options.get<std::shared_ptr<DataHandle>>("of");
  const Tokenizer* tokenizer = data->policy == nullptr ? nullptr : data->policy->tokenizer().get();
  // Of losses the high ones are suspicious, of margins and the like the low ones.
  ExtremeRows rows(by, most, options.get<bool>("highest", by == "loss"), tokenizer);
  const Objective listing = [&](MicroBatch& micro) {
    ObjectiveResult result = objective(micro);
    check_result(result, micro);
    rows.add(result, micro);
    return result;
  };
  TaskProgress progress(*stepper.session().console, "looking at rows", "rows");
  EvaluateOptions evaluation;
  evaluation.poll = [&] {
    check_interrupt(L);
    progress.update(rows.seen(), options.has("of") ? data->set.size() : 0);
  };
  evaluation.seed = at.run->seed();
  evaluation.step = at.step;
  evaluation.device = at.run->device();
  if (options.has("of")) {
    evaluation.kept = data->kept.get();
    data->set.check_fits(at.loop->max_tokens);
    evaluate(data->set, at.loop->max_tokens, listing, evaluation);
  } else {
    std::shared_ptr<Batch> batch = stepper.batch();
    evaluate([&] { return std::exchange(batch, nullptr); }, listing, evaluation);
  }
  push_rows(L, rows.rows(),
            fmt::format("{}{} of {} rows", by, name.empty() ? "" : " of " + name, rows.seen()));
  return 1;
}

constexpr PromptVerb kVerbs[] = {
    {"step", "() -> Metrics",
     "Runs the recipe's own next body and shows what it logged. An objective that fails leaves the "
     "recipe waiting in that body: mend it, and step() tries again.",
     step_verb},
    {"again", "() -> Metrics",
     "Puts weights, optimizer, run.state and metrics back to before the last body and runs it "
     "again "
     "on the same rows: the same loss bit for bit if nothing changed. The recipe's own locals stay "
     "as they are.",
     again_verb},
    {"batch", "(set?) -> Batch",
     "The batch in hand: of the last step, before the first one that of the next. `set` counts the "
     "sets of a loop over several.",
     batch_verb},
    {"continue", "(n?) -> Metrics",
     "Goes on for n steps; without n to the end, which of a running recipe leaves the prompt.",
     continue_verb},
    {"rows", "{by?, n?, of?, objective?, highest?} -> table",
     "The n (10) rows of the batch in hand, or of the set `of`, that lie furthest out by a metric "
     "of the objective or its loss: the lowest, of a loss the highest. Each is { value, row, "
     "text, rejected }: file and line, and the first tokens that are trained.",
     rows_verb},
};

std::span<const PromptVerb> step_verbs() { return kVerbs; }

// A line a segment: where it comes from and how much of it is trained.
std::string batch_text(Stepper& stepper) {
  const LoopPause& at = stepper.pause();
  std::string text;
  for (size_t source = 0; source < at.loop->sources.size(); ++source) {
    const std::shared_ptr<Batch> batch = stepper.batch(source);
    TextTable table(
        {"pack", "segment", "side", "tokens", "trained", "row"},
        {Align::kRight, Align::kRight, Align::kLeft, Align::kRight, Align::kRight, Align::kLeft});
    for (const auto& micro : batch->micros()) {
      const PackedBatch& pack = micro->pack();
      std::vector<int64_t> trained(static_cast<size_t>(pack.segment_count()), 0);
      for (const int32_t s : pack.rows.segment) ++trained[static_cast<size_t>(s)];
      for (size_t s = 0; s < trained.size(); ++s) {
        const int8_t side = pack.side.empty() ? int8_t{0} : pack.side[s];
        table.add({std::to_string(micro->index()), std::to_string(s),
                   side > 0   ? "chosen"
                   : side < 0 ? "rejected"
                              : "",
                   std::to_string(pack.cu_seqlens[s + 1] - pack.cu_seqlens[s]),
                   std::to_string(trained[s]), shown_text(micro->row_name(pack.row_id[s]))});
      }
    }
    text += fmt::format("{}step {}: {} sequences, {} tokens, {} pack{}\n", text.empty() ? "" : "\n",
                        batch->step(), batch->size(), batch->token_count(), batch->micros().size(),
                        batch->micros().size() == 1 ? "" : "s") +
            table.text(stepper.session().console->traits().width);
  }
  return text;
}

DocEntry doc_of(const PromptVerb& verb) {
  return {.name = std::string("repl.") + verb.name,
          .kind = DocKind::kFunction,
          .signature = verb.signature,
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
  for (const PromptVerb& verb : kVerbs) push_function(state, doc_of(verb), verb.function);
  for (const PromptVerb& verb : objective_verbs()) {
    push_function(state, doc_of(verb), verb.function);
  }
}

void add_step_verbs(Prompt& prompt, const std::shared_ptr<Stepper>& stepper,
                    std::function<std::string()> reload) {
  prompt.state().service<StepperSlot>().stepper = stepper;
  prompt.set_names(std::make_shared<LoggedNames>(stepper));
  prompt.on_input = [weak = std::weak_ptr(stepper)](std::string_view input, bool failed) {
    const auto stepper = weak.lock();
    if (stepper == nullptr) return;
    const bool sets = input.starts_with(":set") && !failed;
    stepper->note(fmt::format("{}{}", input, failed ? "  (failed)" : ""), sets);
  };
  const auto add = [&](const PromptVerb& verb) {
    prompt.add_verb(verb.name, verb.signature, verb.doc, verb.function);
  };
  for (const PromptVerb& verb : kVerbs) add(verb);
  for (const PromptVerb& verb : objective_verbs()) add(verb);
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
