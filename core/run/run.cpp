// Invariants: step_ counts the bodies done and is the sum of the phases' `done`; the object of
// step k in metrics.jsonl is written when body k ends; a checkpoint of step k holds every object's
// state and run.state after k whole bodies, and `done` of each phase.
// run_phases.cpp counts the loops, run_resume.cpp restores and compares, run_after_error.cpp saves
// after an error. Ranks decide by what all of them know, never by their own clock, signal or disk.

#include "core/run/run.h"

#include <algorithm>
#include <charconv>

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "core/base/process_usage.h"
#include "core/base/strings.h"
#include "core/dist/agreement.h"
#include "core/dist/ranks.h"
#include "core/model/ops/device_memory.h"
#include "core/run/signals.h"
#include "core/train/models/saveable.h"

namespace xrun {

namespace {

constexpr double kInterruptPatienceS = 2;  // a body that hangs must not block Ctrl-C

// A fresh folder is recorded before anything else appears in it; a resumed one only once every
// saved loop has passed its checks (Run::begin_phase), so that a refused resume writes nothing.
RunDir recorded(RunDir dir, const SavedObjects& saved, Ranks* ranks) {
  check_saved_names(saved);
  if (!dir.resuming()) agree(ranks, "the run's folder", [&] { dir.begin(); });
  return dir;
}

// Returns true if any rank has received a signal. Makes the ranks agree: `stopped` becomes the
// reason of the lowest rank that has one, and `time_is_up` is true on all if it is on one.
bool share_stops(Ranks* ranks, std::string& stopped, bool& time_is_up) {
  if (ranks == nullptr) return interrupt_requested();
  const int asked = interrupt_signal() == 0 && time_is_up ? kTimeIsUp : interrupt_signal();
  const std::string own = fmt::format("{} {}", asked, stopped);
  std::string reason;
  bool agreed = false;
  for (const std::string& text : ranks->gather("the end of a step", own)) {
    const size_t space = text.find(' ');
    int raised = 0;
    const char* const end = text.data() + std::min(space, text.size());
    XRUN_CHECK(std::from_chars(text.data(), end, raised).ptr == end && space != std::string::npos,
               "the end of a step: another rank made a different call");
    time_is_up = time_is_up || raised == kTimeIsUp;
    if (raised != 0 && raised != kTimeIsUp) request_interrupt(raised);
    agreed = agreed || (raised != 0 && raised != kTimeIsUp);
    if (reason.empty()) reason = text.substr(space + 1);
  }
  stopped = reason;
  // Leaves out a signal that came meanwhile: the other ranks do not know of it and go on.
  return agreed;
}

bool has_group(const Json& object, std::string_view group) {
  return std::any_of(object.as_object().begin(), object.as_object().end(),
                     [&](const auto& member) { return member.first.starts_with(group); });
}

}  // namespace

Run::Run(RunDir dir, RunSettings settings, SavedObjects saved)
    : dir_(recorded(std::move(dir), saved, settings.ranks)),
      settings_(settings),
      saved_(std::move(saved)),
      checkpoints_(dir_.checkpoints(), settings.save_keep, settings.ranks),
      saved_at_(settings_.now()) {
  if (dir_.resuming()) restore();
  // Without a checkpoint nothing is compared from here on.
  if (!resumed()) together("the run's folder", [&] { dir_.begin(); });
}

Run::~Run() = default;

void Run::together(std::string_view what, const std::function<void()>& work) {
  alone_ ? work() : agree(settings_.ranks, what, work);
}

std::optional<LoopBody> Run::begin_body(const Json& state) {
  XRUN_CHECK(phases_begun_ > 0, "a body begins outside a loop; call begin_phase first");
  // The iterator is called again exactly when the previous body has ended.
  if (in_body_) end_body(state);
  const std::optional<LoopBody> body = upcoming();
  if (!body) return std::nullopt;
  // Between bodies: everything is saved or savable here. At the end of a body ranks have agreed.
  if (settings_.ranks == nullptr) {
    check_interrupt();
  } else if (!ended_body_ && agree_on_interrupt(settings_.ranks, "the beginning of a loop")) {
    check_interrupt();
  }
  // run.state as it was: an error in the body must not save half of its changes.
  body_state_ = state;
  body_sources_ = sources_;
  before_body_ = metrics_ == nullptr ? MetricList() : metrics_->pending();
  stopped_before_ = at_.stopped;
  ended_body_ = false;
  copy_state();
  in_body_ = true;
  wrote_body_ = false;
  updates_ = 0;
  body_began_ = SteadyClock::now();
  return body;
}

std::optional<LoopBody> Run::upcoming() const {
  if (phases_begun_ == 0 || phase_is_over() || limit_reached()) return std::nullopt;
  return LoopBody{step_, phase_step()};
}

void Run::take_back() {
  XRUN_CHECK(can_take_back(), "there is no step to undo");
  ended_body_ = false;
  --at_.phases[phases_begun_ - 1].done;
  at_.phases[phases_begun_ - 1].left = false;
  --step_;
  at_.stopped = stopped_before_;
  sources_ = body_sources_;
  std::erase_if(at_.outside, [&](const OutsideEvaluation& one) { return one.step > step_; });
  // Otherwise save() would take the step for saved and keep the undone weights.
  checkpoints_.forget(step_ + 1);  // the repeated body may end in another state
  metrics().take_back(step_, before_body_);
}

// The memory of the copy is reused from body to body.
void Run::copy_state() {
  if (!several_updates_ || !settings_.saves) return;
  // The copy saves work after an error; it must not exhaust the memory and cause one.
  const int64_t more = StateCopy::bytes_of(saved_) - body_copy_.bytes();
  const int64_t available = available_bytes();
  bool fits = available <= 0 || more <= available;
  if (settings_.ranks != nullptr) {
    // Without a copy on one rank nothing can be restored on any.
    const auto all = settings_.ranks->gather("room for a copy of the state", fits ? "yes" : "no");
    fits = std::count(all.begin(), all.end(), "yes") == settings_.ranks->size();
  }
  if (!fits) return body_copy_.forget();
  body_copy_.keep(saved_);
}

void Run::begin_update() {
  began_update_ = true;
  // Known only at the second update; from the next body on there is a copy to go back to.
  if (in_body_ && updates_ > 0) several_updates_ = true;
}

void Run::mark_updated() { ++updates_; }

MetricsLog& Run::metrics() {
  if (metrics_ == nullptr)
    metrics_ = std::make_unique<MetricsLog>(dir_.path(), step_, dir_.writes());
  return *metrics_;
}

void Run::log(MetricSpan values) {
  // metrics.jsonl has these steps already.
  if (!replaying()) metrics().log(values);
}

void Run::write_metrics() {
  const Json object = metrics().write(step_);
  last_metrics_ = object;
  const bool trained = has_group(object, "train/") && object.find("train/skipped") == nullptr;
  if (trained) last_train_ = object;
  if (has_group(object, "valid/")) last_valid_ = object;
}

// The metrics come first: if they cannot be written the body stays open, for save_after_error.
void Run::close_body() {
  together("the metrics of a step", [&] {
    // Once only: if another rank fails here, save_after_error closes the body again.
    if (!wrote_body_) write_metrics();
    wrote_body_ = true;
  });
  // After the write: logging is part of the time that the user waits.
  seconds_ += seconds_since(body_began_);
  in_body_ = false;
  ended_body_ = true;
  updates_known_ = updates_known_ || updates_ > 0;
  waiting_since_.reset();
  ++at_.phases[phases_begun_ - 1].done;
  ++step_;
}

void Run::end_body(const Json& state) {
  XRUN_CHECK(in_body_, "a body ends that did not begin; call begin_body first");
  close_body();
  bool late = time_is_up();
  const bool interrupted = share_stops(settings_.ranks, at_.stopped, late);
  // A loop whose steps are done ends as usual.
  late = late && !phase_is_over() && !limit_reached();
  if (save_is_due() || interrupted || late || phase_is_over() || limit_reached()) save(state);
  // Only now: a signal during the save counts as the first one.
  if (late) request_interrupt(kTimeIsUp);
  // Thrown after the save, so that a Ctrl-C costs no finished body.
  if (interrupted || late) check_interrupt();
}

bool Run::time_is_up() const {
  if (settings_.stop_minutes <= 0) return false;
  const std::chrono::duration<double, std::ratio<60>> minutes = settings_.now() - settings_.began;
  return minutes.count() >= settings_.stop_minutes;
}

// Saving does not affect results, so a clock may trigger it.
bool Run::save_is_due() const {
  if (settings_.save_every > 0 && step_ % settings_.save_every == 0) return true;
  if (settings_.save_minutes <= 0) return false;
  const std::chrono::duration<double, std::ratio<60>> minutes = settings_.now() - saved_at_;
  return from_first_rank(settings_.ranks, "the clock", [&] {
           return std::string(minutes.count() >= settings_.save_minutes ? "due" : "");
         }) == "due";
}

void Run::leave_loop(const Json& state) {
  at_.phases[phases_begun_ - 1].left = true;
  end_body(state);
}

void Run::save(const Json& state) {
  if (!settings_.saves) return;
  // First the metrics: a resume from this checkpoint does not write their steps again.
  together("metrics of a checkpoint", [&] {
    if (metrics_ != nullptr) metrics_->sync();
  });
  if (phases_begun_ > 0) at_.phases[phases_begun_ - 1].sources = sources();
  last_checkpoint_ = checkpoints_.save(step_, at_.to_json(step_, state), saved_, alone_);
  saved_at_ = settings_.now();
}

void Run::stop(std::string reason) {
  at_.stopped = reason.empty() ? "stopped by the recipe" : std::move(reason);
}

bool Run::may_interrupt_now() {
  // Between two bodies the other ranks have agreed to go on: all stop at the end of the next one.
  if (settings_.ranks != nullptr && !in_body_ && upcoming()) return false;
  if (!in_body_ || updates_ == 0) return true;
  if (settings_.ranks != nullptr) return false;
  // From the first request: a body with an update is given a moment to end.
  if (!waiting_since_) waiting_since_ = SteadyClock::now();
  return seconds_since(*waiting_since_) >= kInterruptPatienceS;
}

void Run::finish(const Json& state) {
  // A resumed recipe with fewer loops than before has not begun the folder yet.
  together("the run's folder", [&] { dir_.begin(); });
  if (in_body_) leave_loop(state);
  together("the last metrics", [&] {
    // Opening cuts what was logged after the checkpoint, also if --steps left no step to do.
    if (resumed() && !replaying()) metrics();
    if (metrics_ != nullptr && !metrics_->empty()) write_metrics();
  });
  if (step_ > 0 && !replaying()) save(state);
  if (metrics_ != nullptr) together("the last metrics", [&] { metrics_->sync(); });
  // A run that --steps cut has steps left, so a resume must not call it finished.
  dir_.record().set("finished", !cut_by_limit());
  if (cut_by_limit()) dir_.record().set("steps_limit", settings_.steps_limit);
  dir_.record().set("stopped", at_.stopped);
  dir_.record().set("steps", step_);
  together("the end of the run", [&] { dir_.write_record(); });
}

bool Run::write_out(std::string_view what, const std::function<void()>& write) const {
  if (settings_.saves) on_first_rank(settings_.ranks, what, write);
  return settings_.saves;
}

std::string Run::keep_failed_batch(std::span<const PackedBatch* const> packs,
                                   const RowName& name) const {
  return settings_.saves ? save_failed_batch(dir_.path(), step_, packs, name) : "";
}

void Run::add_exported(const std::filesystem::path& path, const std::string& dtype) {
  std::erase_if(exported_, [&](const ExportedFolder& one) { return one.path == path; });
  exported_.push_back({path, dtype});
}

RunSummary Run::summary() const {
  RunSummary summary;
  summary.dir = dir_.path();
  summary.exported = exported_;
  // A recipe that replays fewer bodies than it saved has still trained them all.
  summary.steps = std::max(step_, resume_step_);
  for (const RunPhase& phase : at_.phases) summary.total_steps += phase.total;
  summary.first_step = std::max<int64_t>(resume_step_, 0);
  summary.seconds = seconds_;
  summary.tokens = tokens_;
  summary.peak_rss_mb = static_cast<double>(peak_resident_bytes()) / (1 << 20);
  if (metrics_ != nullptr) summary.nonfinite = metrics_->nonfinite();
  summary.stopped = cut_by_limit() ? fmt::format("--steps {}", settings_.steps_limit) : at_.stopped;
  if (continues_stopped_ && !at_.stopped.empty()) {
    summary.stopped += fmt::format(
        " (the recipe stopped again by its own condition, {} after the "
        "resume, which brings run.state back too)",
        counted(step_ - resume_step_, "step"));
  }
  summary.checkpoint = last_checkpoint_;
  summary.last_train = last_train_;
  summary.last_valid = last_valid_;
  return summary;
}

}  // namespace xrun
