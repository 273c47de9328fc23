// Runs a recipe to its first loop in a temporary run folder, and turns its errors into reports.

#include "lua/prompt/preview.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/run/signals.h"
#include "lua/bind/modules.h"
#include "lua/bind/recipe_text.h"
#include "lua/bind/run/run_loop.h"

namespace xrun {

namespace {

std::shared_ptr<const ErrorReport> report_with(const std::string& text, bool usage) {
  auto report = std::make_shared<ErrorReport>();
  report->message = text;  // the whole message, with its position
  report->usage = usage;
  return report;
}

// Runs `act`; returns the report of what it threw, or null. Interruptions propagate.
template <typename Act>
std::shared_ptr<const ErrorReport> error_of(const Act& act) {
  try {
    act();
  } catch (const LuaError& error) {
    return error.shared_report();
  } catch (const UsageError& error) {
    return report_with(error.what(), true);
  } catch (const Error& error) {
    return report_with(error.what(), false);
  }
  return nullptr;
}

}  // namespace

std::unique_ptr<Preview> open_preview(RecipeOptions options, std::shared_ptr<Console> console,
                                      double own_time_s) {
  std::unique_ptr<Preview> preview(new Preview);
  preview->start(std::move(options), std::move(console), own_time_s);
  return preview;
}

Preview::~Preview() { LuaState::set_interruptible(nullptr); }

Session& Preview::session() { return session_of(state()); }

void Preview::start(RecipeOptions options, std::shared_ptr<Console> console, double own_time_s) {
  options.purpose = RecipePurpose::kPreview;
  // Without a recipe, open a state for an empty one.
  const bool bare = options.recipe.empty();
  if (bare) options.recipe = kNoRecipe;
  set_up_torch(options.threads);
  const std::string text = bare ? "" : read_recipe(options);
  error_ = error_of([&] { recipe_ = std::make_unique<Recipe>(options, engine_modules(), text); });
  if (error_ != nullptr) {
    // Its text or config is wrong: open a state without it.
    resolved_ = false;
    std::vector<std::string> sets = std::exchange(options.sets, {});
    recipe_ = std::make_unique<Recipe>(options, engine_modules(), "");
    recipe_->context().options.sets = std::move(sets);  // for the text, once it is fixed
  }
  hooks_ = std::make_unique<PauseHooks>(*recipe_);
  session().console = std::move(console);
  for (const std::string& notice : options.notices) session().notices.add(notice);
  LuaState::set_interruptible(&state());
  set_signal_hook(LuaState::interrupt_from_signal);
  set_stopping_text("\nstopping; another Ctrl-C stops at once\n");
  install_signal_handlers();
  hooks_->plan.at_once = true;
  if (own_time_s > 0) {
    limit_ = std::make_unique<LuaDeadline>(state(), own_time_s, LuaDeadline::Clock::kOwn);
  }
  if (error_ == nullptr && !bare) resume();
}

bool Preview::resume() {
  bool paused = false;
  error_ = error_of([&] {
    paused = hooks_->resume();
    if (paused && pause() == nullptr && !recipe_->at_end()) recipe_->refuse_yield();
  });
  return paused && pause() != nullptr;
}

// Leaves the loop without running it.
bool Preview::next_loop() {
  const LoopPause* at = pause();
  if (at == nullptr) return false;
  at->run->end_early(*at->loop);
  hooks_->plan.at_once = true;
  return resume();
}

std::string Preview::no_loop_text() {
  if (pause() != nullptr) return "";
  const RecipeContext& context = recipe_->context();
  const std::string& recipe = context.options.recipe;
  if (error_ != nullptr) return fmt::format("{} failed before its loop", recipe);
  const std::string& text = context.text.text;
  const auto lines = std::count(text.begin(), text.end(), '\n');
  // A last line without a line end counts too.
  const bool whole = text.empty() || text.back() == '\n';
  return fmt::format(
      "{}:{}: the recipe ends without a loop, so it has no step to show; write `for step, "
      "batch in run:steps(data, cfg.batch) do ... end`",
      recipe, std::max<int64_t>(lines + (whole ? 0 : 1), 1));
}

FrameNames Preview::names() {
  if (recipe_->done()) return FrameNames::saved(state());
  const LoopPause* at = pause();
  if (at == nullptr && !recipe_->at_end()) return {};
  return FrameNames(recipe_->thread(), at == nullptr ? nullptr : at->loop.get());
}

}  // namespace xrun
