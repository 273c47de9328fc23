// Restarts a recipe from its file, in the same Lua state, and brings it back to its step.

#include "core/base/error.h"
#include "core/base/file.h"
#include "lua/bind/recipe_text.h"
#include "lua/bind/run/run_loop.h"
#include "lua/prompt/paused_run.h"

namespace xrun {

// Skips bodies up to `step`. Returns false if no loop reaches it.
bool PausedRun::go_to(int64_t step) {
  while (const LoopPause* at = hooks_.pause()) {
    // Loops that end before the step are skipped entirely.
    if (step < at->loop->first_step + at->loop->steps) break;
    at->run->end_early(*at->loop);
    hooks_.plan = {.at_once = true};
    hooks_.resume();
  }
  if (hooks_.pause() == nullptr) return false;
  const std::shared_ptr<StepLoop> loop = pause().loop;
  const std::shared_ptr<RunLoop> run = pause().run;
  if (step == loop->first_step) return true;
  begin_loop();
  run->run().pass_bodies(step - loop->first_step);
  hooks_.plan = {.at_once = true};
  return hooks_.resume();
}

// Moves the restarted recipe to the step and the state in `carried`.
std::string PausedRun::go_on_from(const Carried& carried) {
  const std::string& file = recipe().context().options.recipe;
  if (!go_to(carried.step)) {
    return fmt::format("{} was read again; it no longer has a step {}", file, carried.step);
  }
  const bool trained = !carried.objects.empty();
  if (trained) {
    begin_loop();
    const auto& run = pause().run;
    carried.objects.restore(run->run().saved());
    run->write_state(carried.state);
  }
  std::string message = fmt::format("{} was read again; it is paused before step {}{}", file,
                                    carried.step, trained ? " with the weights as they are" : "");
  carried_.reset();
  return message;
}

std::string PausedRun::reload() {
  const std::string& file = recipe().context().options.recipe;
  XRUN_CHECK(hooks_.previews(),
             "only a preview can be reloaded, not a run; stop it (Ctrl-C) and continue with "
             "--resume --force");
  const std::string text = read_recipe(recipe().context().options);
  const std::shared_ptr<RunLoop> old = session().run;
  // A recipe that has ended leaves nothing to carry over.
  std::optional<Carried> carried;
  if (old != nullptr && !done()) {
    const Run& run = old->run();
    carried = Carried{.objects = {},
                      .state = run.in_body() ? run.body_state() : old->read_state(),
                      .config = recipe().context().config.values(),
                      .step = run.step()};
    // Before the first step there are no weights to carry over.
    if (StateCopy::bytes_of(run.saved()) > 0) carried->objects.keep(run.saved());
  }
  hooks_.restart(text);  // throws for a text that it rejects, with nothing changed
  if (carried) carried_ = std::move(carried);
  // Copies and batches belong to objects of the state that is gone.
  copy_.forget();
  copied_objects_.clear();
  copied_step_ = trained_step_ = -1;
  upcoming_ = nullptr;
  clear_session(session());
  hooks_.plan = {.at_once = true};
  hooks_.resume();
  if (hooks_.pause() == nullptr) return file + " was read again; it ends without a loop";
  // With another config the weights and the state may have another shape.
  if (carried_ && carried_->config == recipe().context().config.values()) {
    return go_on_from(*carried_);
  }
  const bool changed = carried_.has_value();
  carried_.reset();
  return fmt::format(
      "{} was read again; {}it is paused before step 0 with the weights of the model's folder",
      file, changed ? "its config changed, so " : "");
}

}  // namespace xrun
