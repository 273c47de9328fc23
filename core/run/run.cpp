// Invariants: step_ counts the bodies done and is the sum of the phases' `done`; the object of
// step k in metrics.jsonl is written when body k ends; a checkpoint of step k holds every object's
// state and run.state after k bodies, and `done` of each phase.
//
// On a resume the recipe runs again from its first line. step_ counts up from 0 through the saved
// phases, and metrics below resume_step_ are dropped because metrics.jsonl has them.
#include "core/run/run.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "core/base/process_memory.h"
#include "core/base/steady_clock.h"
#include "core/model/memory_limit.h"
#include "core/run/checkpoint_files.h"
#include "core/train/saveable.h"

namespace xrun {

namespace {

constexpr double kInterruptPatienceS = 2;

// A fresh folder is recorded before anything else appears in it; a resumed one only once its
// checkpoint is restored.
RunDir recorded(RunDir dir, const SavedObjects& saved) {
  check_saved_names(saved);
  if (!dir.resuming()) dir.begin();
  return dir;
}

bool has_group(const Json& object, std::string_view group) {
  return std::any_of(object.as_object().begin(), object.as_object().end(),
                     [&](const auto& member) { return member.first.starts_with(group); });
}

}  // namespace

Run::Run(RunDir dir, RunSettings settings, SavedObjects saved)
    : dir_(recorded(std::move(dir), saved)),
      settings_(settings),
      saved_(std::move(saved)),
      checkpoints_(dir_.checkpoints(), settings.save_keep) {
  if (dir_.resuming()) restore();
  dir_.begin();
}

Run::~Run() = default;

Json Run::position(const Json& state) const {
  Json phases = Json::array();
  for (const Phase& phase : phases_) {
    Json entry = Json::object();
    entry.set("done", phase.done);
    entry.set("total", phase.total);
    entry.set("left", phase.left);
    entry.set("data", phase.data);
    phases.push_back(std::move(entry));
  }
  Json run = Json::object();
  run.set("step", step_);
  run.set("phases", std::move(phases));
  run.set("stopped", stopped_);
  run.set("state", encode_state(state));
  Json outside = Json::array();
  for (const SavedEvaluation& one : evaluations_) outside.push_back(one.to_json());
  run.set("outside", std::move(outside));
  return run;
}

Json Run::SavedEvaluation::to_json() const {
  Json values = Json::object();
  for (const auto& [name, value] : metrics) values.set(name, value);
  return Json(Json::Object{{"step", step}, {"what", what}, {"metrics", encode_state(values)}});
}

Run::SavedEvaluation Run::SavedEvaluation::from_json(const Json& json) {
  SavedEvaluation out{json.at("step").as_int(), json.at("what").as_string(), {}};
  const Json metrics = decode_state(json.at("metrics"));
  for (const auto& [name, value] : metrics.as_object()) {
    out.metrics.emplace_back(name, value.as_double());
  }
  return out;
}

void Run::restore() {
  const std::optional<Checkpoint> checkpoint = checkpoints_.load_latest();
  if (!checkpoint) return;
  checkpoint->restore(saved_);
  try {
    restore_position(checkpoint->run(), checkpoint->step());
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}; the checkpoint is damaged",
                            (checkpoint->path() / "run.json").string(), error.what()));
  }
  resume_step_ = checkpoint->step();
  last_checkpoint_ = checkpoint->path();
}

void Run::restore_position(const Json& run, int64_t step) {
  for (const Json& saved : run.at("phases").as_array()) {
    phases_.push_back({saved.at("done").as_int(), saved.at("total").as_int(),
                       saved.at("left").as_bool(), saved.at("data")});
  }
  stopped_ = run.at("stopped").as_string();
  state_ = decode_state(run.at("state"));
  if (const Json* outside = run.find("outside")) {
    for (const Json& one : outside->as_array())
      evaluations_.push_back(SavedEvaluation::from_json(one));
  }
  // The recipe repeats the evaluations at the checkpoint's own step.
  std::erase_if(evaluations_, [&](const SavedEvaluation& one) { return one.step >= step; });
}

void Run::remember(const std::string& what, MetricSpan metrics) {
  if (!in_body_) evaluations_.push_back({step_, what, {metrics.begin(), metrics.end()}});
}

MetricList Run::recall(const std::string& what) {
  const size_t next = recalled_++;
  const bool same = next < evaluations_.size() && evaluations_[next].step == step_ &&
                    evaluations_[next].what == what;
  if (same) return evaluations_[next].metrics;
  return {};  // another recipe, under --force
}

void Run::check_input(std::string_view kind, const std::string& key, const std::string& what,
                      const Json& identity) {
  Json inputs = Json::object();
  if (const Json* known = dir_.record().find("inputs")) inputs = *known;
  if (inputs.find(kind) == nullptr) inputs.set(kind, Json::object());
  const Json* before = inputs.find(kind)->find(key);
  if (before != nullptr && *before == identity) return;
  if (before != nullptr && resumed() && !(before->at("digest") == identity.at("digest"))) {
    dir_.note_difference(ResumeItem::kInput, what, input_differences(*before, identity));
  }
  inputs.find(kind)->set(key, identity);
  dir_.record().set("inputs", std::move(inputs));
  dir_.write_record();
}

// Compares a loop with the saved one.
void Run::check_phase(size_t index, const PhasePlan& plan) {
  const Phase& saved = phases_[index];
  const std::string loop = fmt::format("loop {}", index + 1);
  const auto changed = find_differences(saved.data, plan.data, "data");
  if (!changed.empty()) dir_.note_difference(ResumeItem::kLoopData, loop, changed);
  const bool another_follows = index + 1 < phases_.size();
  const std::string steps =
      fmt::format("{} has {} steps and had {}", loop, plan.steps, saved.total);
  if (plan.steps < saved.total && !saved.left) {
    dir_.note_difference(ResumeItem::kLoopShrank, steps, {});
  } else if (plan.steps > saved.total && another_follows) {
    dir_.note_difference(ResumeItem::kLoopRegrown, steps, {});
  }
}

void Run::begin_phase(const PhasePlan& plan, const Json& state) {
  if (in_body_) leave_loop(state);
  ended_body_ = false;
  several_updates_ = false;
  body_copy_.forget();
  const size_t index = phases_begun_++;
  if (index < phases_.size()) {
    check_phase(index, plan);
    step_ += phases_[index].done;
  } else {
    phases_.emplace_back();
  }
  Phase& phase = phases_[index];
  const bool past = index + 1 < phases_.size();
  if (!past) phase.total = plan.steps;  // a past loop keeps its number of steps
  phase.data = plan.data;
  Json data = Json::array();
  for (const Phase& known : phases_) data.push_back(known.data);
  dir_.record().set("data", std::move(data));
}

bool Run::limit_reached() const {
  return settings_.steps_limit >= 0 && step_ >= settings_.steps_limit;
}

bool Run::phase_is_over() const {
  const Phase& phase = phases_[phases_begun_ - 1];
  const bool past = phases_begun_ < phases_.size();
  return phase.left || past || phase.done >= phase.total || !stopped_.empty();
}

bool Run::cut_by_limit() const {
  if (!limit_reached() || !stopped_.empty()) return false;
  return std::any_of(phases_.begin(), phases_.end(),
                     [](const Phase& phase) { return !phase.left && phase.done < phase.total; });
}

std::optional<LoopBody> Run::begin_body(const Json& state) {
  XRUN_CHECK(phases_begun_ > 0, "a body begins outside a loop; call begin_phase first");
  if (in_body_) end_body(state);
  const std::optional<LoopBody> body = upcoming();
  if (!body) return std::nullopt;
  check_interrupt();
  body_state_ = state;
  before_body_ = metrics_ == nullptr ? MetricList() : metrics_->pending();
  stopped_before_ = stopped_;
  ended_body_ = false;
  copy_state();
  in_body_ = true;
  updates_ = 0;
  body_began_ = SteadyClock::now();
  return body;
}

std::optional<LoopBody> Run::upcoming() const {
  if (phases_begun_ == 0 || phase_is_over() || limit_reached()) return std::nullopt;
  const Phase& phase = phases_[phases_begun_ - 1];
  return LoopBody{step_, phase.done, phase.total};
}

int64_t Run::phase_step() const { return phases_begun_ == 0 ? 0 : phases_[phases_begun_ - 1].done; }

void Run::take_back() {
  XRUN_CHECK(can_take_back(), "there is no step that can be taken back");
  ended_body_ = false;
  --phases_[phases_begun_ - 1].done;
  phases_[phases_begun_ - 1].left = false;
  --step_;
  stopped_ = stopped_before_;
  std::erase_if(evaluations_, [&](const SavedEvaluation& one) { return one.step > step_; });
  checkpoints_.forget(step_ + 1);
  metrics().take_back(step_, before_body_);
}

void Run::pass_bodies(int64_t count) {
  phases_[phases_begun_ - 1].done += count;
  step_ += count;
}

void Run::pass_phase(const PhasePlan& plan) {
  phases_.push_back({plan.steps, plan.steps, false, plan.data});
  ++phases_begun_;
  step_ += plan.steps;
}

// The memory of the copy is reused from body to body.
void Run::copy_state() {
  if (!several_updates_ || !settings_.saves) return;
  const int64_t more = StateCopy::bytes_of(saved_) - body_copy_.bytes();
  const int64_t available = available_bytes();
  if (available > 0 && more > available) return body_copy_.forget();
  body_copy_.keep(saved_);
}

void Run::begin_update() {
  if (in_body_ && updates_ > 0) several_updates_ = true;
}

void Run::mark_updated() { ++updates_; }

MetricsLog& Run::metrics() {
  if (metrics_ == nullptr) metrics_ = std::make_unique<MetricsLog>(dir_.path(), step_);
  return *metrics_;
}

void Run::log(MetricSpan values) {
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
  write_metrics();
  seconds_ += seconds_since(body_began_);
  in_body_ = false;
  ended_body_ = true;
  waiting_since_.reset();
  ++phases_[phases_begun_ - 1].done;
  ++step_;
}

void Run::end_body(const Json& state) {
  XRUN_CHECK(in_body_, "a body ends that did not begin; call begin_body first");
  close_body();
  const bool due = settings_.save_every > 0 && step_ % settings_.save_every == 0;
  const bool interrupted = interrupt_requested();
  if (due || interrupted || phase_is_over() || limit_reached()) save(state);
  if (interrupted) check_interrupt();
}

void Run::leave_loop(const Json& state) {
  phases_[phases_begun_ - 1].left = true;
  end_body(state);
}

void Run::save(const Json& state) {
  if (!settings_.saves) return;
  if (metrics_ != nullptr) metrics_->sync();
  last_checkpoint_ = checkpoints_.save(step_, position(state), saved_);
}

void Run::stop(std::string reason) {
  stopped_ = reason.empty() ? "stopped by the recipe" : std::move(reason);
}

bool Run::may_interrupt_now() {
  if (!in_body_ || updates_ == 0) return true;
  if (!waiting_since_) waiting_since_ = SteadyClock::now();
  return seconds_since(*waiting_since_) >= kInterruptPatienceS;
}

std::filesystem::path Run::save_after_error(const Json& state) {
  if (replaying()) return last_checkpoint_;
  const bool half_done = in_body_ && updates_ > 0 && several_updates_;
  const bool before_update = in_body_ && (updates_ == 0 || half_done);
  if (half_done && body_copy_.empty()) {
    in_body_ = false;
    return last_checkpoint_;
  }
  if (half_done) body_copy_.restore(saved_);
  if (before_update) {
    in_body_ = false;  // the body is undone, so what it logged is not written
  } else if (in_body_) {
    close_body();
  } else if (metrics_ != nullptr && !metrics_->empty()) {
    write_metrics();
  }
  if (step_ > 0) save(before_update ? body_state_ : state);
  return last_checkpoint_;
}

void Run::finish(const Json& state) {
  if (in_body_) leave_loop(state);
  if (metrics_ != nullptr && !metrics_->empty()) write_metrics();
  if (step_ > 0 && !replaying()) save(state);
  if (metrics_ != nullptr) metrics_->sync();
  dir_.record().set("finished", !cut_by_limit());
  if (cut_by_limit()) dir_.record().set("steps_limit", settings_.steps_limit);
  dir_.record().set("stopped", stopped_);
  dir_.record().set("steps", step_);
  dir_.write_record();
}

void Run::add_exported(const std::filesystem::path& path, const std::string& dtype) {
  std::erase_if(exported_, [&](const ExportedFolder& one) { return one.path == path; });
  exported_.push_back({path, dtype});
}

RunSummary Run::summary() const {
  RunSummary summary;
  summary.dir = dir_.path();
  summary.exported = exported_;
  summary.steps = std::max(step_, resume_step_);
  for (const Phase& phase : phases_) summary.total_steps += phase.total;
  summary.first_step = std::max<int64_t>(resume_step_, 0);
  summary.seconds = seconds_;
  summary.tokens = tokens_;
  summary.peak_rss_mb = static_cast<double>(peak_resident_bytes()) / (1 << 20);
  if (metrics_ != nullptr) summary.nonfinite = metrics_->nonfinite();
  summary.stopped = cut_by_limit() ? fmt::format("--steps {}", settings_.steps_limit) : stopped_;
  summary.checkpoint = last_checkpoint_;
  summary.last_train = last_train_;
  summary.last_valid = last_valid_;
  return summary;
}

}  // namespace xrun
