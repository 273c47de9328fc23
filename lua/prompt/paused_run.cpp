// again() works because step() first copies weights and optimizer to the host: it restores the
// copy, takes the run back by one body and runs that body again.

#include "lua/prompt/paused_run.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "core/base/strings.h"
#include "core/model/ops/device_memory.h"
#include "core/train/adamw.h"
#include "core/train/batches/batch.h"
#include "lua/bind/run/run_loop.h"

namespace xrun {

namespace {

std::string bytes_text(int64_t bytes) { return format_bytes(static_cast<double>(bytes)); }

MetricTable table_of(const Json& line) {
  MetricTable table;
  if (!line.is_object()) return table;
  for (const auto& [name, value] : line.as_object()) {
    if (name == "step" || name == "nonfinite") continue;
    // A value that was not finite is null in the log.
    const double number =
        value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.as_double();
    table.values.emplace_back(name, number);
  }
  return table;
}

}  // namespace

PausedRun::PausedRun(PauseHooks& hooks) : hooks_(hooks) { hooks_.attach_prompt(); }

PausedRun::~PausedRun() {
  hooks_.detach_prompt();
  // The run goes on without the prompt, and its step lines are the only output then.
  if (session().run != nullptr) session().run->report().quiet = false;
}

const LoopPause& PausedRun::pause() {
  const LoopPause* at = hooks_.pause();
  if (at != nullptr) return *at;
  const std::string& name = recipe().context().options.recipe;
  const char* fix =
      !hooks_.previews() ? "leave the prompt to save the run" : ":reload begins it again";
  if (recipe().failure()) throw Error(fmt::format("{} was ended by an error; {}", name, fix));
  throw Error(fmt::format("{} has no further loop; {}", name, fix));
}

// A full disk must not end the session.
void PausedRun::note(const std::string& text) {
  const auto& run = session().run;
  if (run == nullptr) return;
  try {
    run->run().dir().log_line(fmt::format("prompt at step {}: {}", run->run().step(), text));
  } catch (const Error& error) {
    if (std::exchange(log_failure_reported_, true)) return;
    session().console->print_escaped(
        fmt::format("inputs of the prompt cannot be written to the run's log: {}", error.what()));
  }
}

// Runs before any code of the body, so an error leaves the run unchanged.
void PausedRun::begin_loop() {
  const LoopPause& at = pause();
  if (!at.loop->begun) at.run->end_body(*at.loop, at.run->read_state());
}

// Returns everything that a step changes: the objects that the run saves and everything else that
// an optimizer trains.
SavedObjects PausedRun::changed_objects() {
  SavedObjects all = pause().run->run().saved();
  const auto add = [&all](const std::shared_ptr<Saveable>& object) {
    const auto known = [&](const auto& one) { return one.second == object; };
    if (object == nullptr || std::any_of(all.begin(), all.end(), known)) return;
    // The name only has to be unique: these are never written to a file.
    all.emplace_back(fmt::format("unsaved {}", all.size()), object);
  };
  for (const std::shared_ptr<AdamW>& adamw : session().models.optimizers()) {
    add(adamw);
    for (const auto& trainable : adamw->trainables()) {
      if (trainable->loaded()) add(std::dynamic_pointer_cast<Saveable>(trainable));
    }
  }
  return all;
}

void PausedRun::copy_for_again() {
  const LoopPause& at = pause();
  // If the recipe waits at a call, the copy from before its body stays valid.
  if (at.failure != nullptr) return;
  const SavedObjects saved = changed_objects();
  const int64_t more = StateCopy::bytes_of(saved) - copy_.bytes();
  const int64_t available = available_bytes();
  Console& console = *session().console;
  // There is no valid copy until this one is whole.
  copied_step_ = -1;
  if (available > 0 && more > available) {
    copy_.forget();
    if (!room_reported_) {
      console.print_raw(
          fmt::format("again() will not work: a copy of the state takes {}, and {} are free",
                      bytes_text(StateCopy::bytes_of(saved)), bytes_text(available)));
    }
    room_reported_ = true;
    return;
  }
  copy_.keep(saved);
  copied_objects_ = saved;
  copied_step_ = at.run->run().step();
  skipped_before_ = session().notices.skipped_steps;
  // Reported once: later copies reuse the memory.
  if (more > 0) {
    console.print_raw(console.dim(fmt::format(
        "a copy of {} for again() takes {} of the host's memory",
        saved.size() == 1 ? saved[0].first : "weights and optimizer", bytes_text(copy_.bytes()))));
  }
}

MetricTable PausedRun::logged() {
  const auto& run = session().run;
  return run == nullptr ? MetricTable() : table_of(run->run().last_metrics());
}

// Runs until n bodies have ended, the recipe waits at a failed call, or is done.
MetricTable PausedRun::run_bodies(int64_t n, bool shows_progress) {
  const std::shared_ptr<RunLoop> run = pause().run;
  const int64_t before = run->run().step();
  take_pause_request();  // forgets a signal that came at the prompt
  hooks_.plan.at_once = false;
  hooks_.plan.bodies = n;
  run->report().quiet = !shows_progress;
  hooks_.resume();
  run->report().quiet = false;
  name_objective();
  run->report().end_progress();
  const int64_t done = run->run().step() - before;
  // batch_step() then shows the batch of that body.
  if (done > 0) trained_step_ = run->run().step() - 1;
  stopped_ = hooks_.pause() != nullptr && done < n;
  if (const LoopPause* at = hooks_.pause(); at != nullptr && at->failure != nullptr) {
    if (at->failure->signal_number != 0) throw Interrupted(at->failure->signal_number);
    throw LuaError(at->failure);
  }
  return done > 0 ? logged() : MetricTable();
}

MetricTable PausedRun::step() {
  begin_loop();
  copy_for_again();
  const int64_t step = pause().step;
  // The table that step() returns shows the same values as the progress line.
  MetricTable table = run_bodies(1, /*shows_progress=*/false);
  const auto& run = session().run;
  // A body that failed or was stopped is not counted.
  const bool ran = run != nullptr && run->run().step() > step;
  note(ran      ? fmt::format("step() ran step {}", step)
       : done() ? "step() ran to the recipe's end"
                : "step() was stopped before a body");
  return table;
}

MetricTable PausedRun::again(MetricTable* first) {
  const LoopPause& at = pause();
  Run& run = at.run->run();
  XRUN_CHECK(!at.in_body(), "the body of step {} waits {}; step() continues from there", at.step,
             at.wait_text());
  XRUN_CHECK(at.failure == nullptr,
             "again() cannot run a body now: the recipe has left its loop and waits {}; step() "
             "continues from there",
             at.wait_text());
  // A loop that has not begun has no body to take back.
  const bool here = run.can_take_back() && at.loop->begun && copied_step_ == run.step() - 1;
  XRUN_CHECK(
      here && !copy_.empty(),
      "there is no step to repeat: again() repeats the last body that step() or continue(n) ran "
      "here from its beginning");
  const MetricTable before = logged();
  if (first != nullptr) *first = before;
  at.run->take_back();
  hooks_.forget_trained();
  copy_.restore(copied_objects_);
  // The repeated body counts its skipped steps again.
  session().notices.skipped_steps = skipped_before_;
  note(fmt::format("again() ran step {} again", run.step()));
  return run_bodies(1, /*shows_progress=*/false);
}

MetricTable PausedRun::go_on(int64_t n) {
  XRUN_CHECK(n > 0, "continue({}): wanted a number of steps above 0", n);
  begin_loop();
  MetricTable table;
  stopped_ = false;  // of an earlier verb
  const int64_t from = pause().step;
  // Only the last body needs a copy of the state before it.
  if (n > 1) table = run_bodies(n - 1, /*shows_progress=*/true);
  if (hooks_.pause() != nullptr && !stopped_) {
    copy_for_again();
    table = run_bodies(1, /*shows_progress=*/true);
  }
  note(fmt::format("continue({}) from step {}", n, from));
  return table;
}

// The name is read right after the step: if it gets another function later, verbs should use that
// one.
void PausedRun::name_objective() {
  const auto& objectives = hooks_.last_step().objectives;
  if (objectives.empty() || objectives.front() == named_objective_) return;
  named_objective_ = objectives.front();
  objective_name_ = "";
  lua_State* L = recipe().state();
  const StackGuard guard(L);
  named_objective_->push(L);
  const FrameNames frame = names();
  for (const FrameName& name : frame.names()) {
    frame.push(L, name.name);
    if (lua_rawequal(L, -1, -2) != 0) objective_name_ = name.name;
    lua_pop(L, 1);
  }
}

std::shared_ptr<LuaRef> PausedRun::objective(std::string* name) {
  name_objective();
  const auto& objectives = hooks_.last_step().objectives;
  if (objectives.empty() || hooks_.last_step().step < pause().loop->first_step) return nullptr;
  *name = objective_name_;
  return objectives.front();
}

void PausedRun::finish() {
  begin_loop();
  note("continue()");
  run_bodies(std::numeric_limits<int64_t>::max(), /*shows_progress=*/true);
}

int64_t PausedRun::batch_step() {
  const LoopPause& at = pause();
  // Inside a body its own batch is current; after a body, the batch that it trained on; else the
  // next one.
  if (at.in_body()) return at.step;
  if (trained_step_ == at.step - 1 && trained_step_ >= at.loop->first_step) return trained_step_;
  const auto body = at.run->upcoming(*at.loop);
  XRUN_CHECK(
      body.has_value(), "the loop has ended, and its last batch is gone{}",
      at.failure == nullptr
          ? ""
          : fmt::format("; the recipe waits {}; step() continues from there", at.wait_text()));
  return body->step;
}

std::shared_ptr<Batch> PausedRun::batch(size_t source) {
  const LoopPause& at = pause();
  XRUN_CHECK(source < at.loop->sources.size(), "batch({}): the loop has {}", source + 1,
             counted(std::ssize(at.loop->sources), "set"));
  const int64_t step = batch_step();
  const StepSource& from = at.loop->sources[source];
  // Tries the recipe's own batch, the one that trained, and the one made here before.
  for (const auto& known : {from.batch, hooks_.trained(source), upcoming_}) {
    if (known != nullptr && known->step() == step) return known;
  }
  auto made = at.loop->make_batch(step, at.run->device(), source);
  if (source == 0) upcoming_ = made;
  return made;
}

}  // namespace xrun
