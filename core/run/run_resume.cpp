// What a checkpoint gives back, and what of it must not have changed since. The checks come before
// anything is trained or cut.

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/data/cache/key_difference.h"
#include "core/run/run.h"
#include "core/run/run_state.h"

namespace xrun {

Json Run::Outside::to_json() const {
  Json values = Json::object();
  for (const auto& [name, value] : metrics) values.set(name, value);
  return Json(Json::Object{{"step", step}, {"what", what}, {"metrics", encode_state(values)}});
}

Run::Outside Run::Outside::from_json(const Json& json) {
  Outside out{json.at("step").as_int(), json.at("what").as_string(), {}};
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
    for (const Json& one : outside->as_array()) outside_.push_back(Outside::from_json(one));
  }
  // What was measured at the checkpoint's own step is measured again by the recipe.
  std::erase_if(outside_, [&](const Outside& one) { return one.step >= step; });
}

void Run::remember(const std::string& what, MetricSpan metrics) {
  if (!in_body_) outside_.push_back({step_, what, {metrics.begin(), metrics.end()}});
}

MetricList Run::recall(const std::string& what) {
  const size_t next = recalled_++;
  const bool same =
      next < outside_.size() && outside_[next].step == step_ && outside_[next].what == what;
  if (same) return outside_[next].metrics;
  // Another recipe under --force: there is no value to give back.
  return {};
}

void Run::refuse(const std::string& what) {
  XRUN_CHECK(dir_.force(),
             "{}: cannot resume, {}--run DIR starts a new run, --force resumes all the same",
             dir_.path().string(), what);
  dir_.add_notice("resuming by --force, " + what);
}

namespace {

// The fields of the cache keys that differ; the digests alone where there are none.
std::string input_difference(const Json& before, const Json& now) {
  const Json* from = before.find("keys");
  const Json* to = now.find("keys");
  std::string text = from != nullptr && to != nullptr ? key_difference(*from, *to) : "";
  if (text.empty()) {
    text = fmt::format("digest: {} -> {}", before.at("digest").as_string(),
                       now.at("digest").as_string());
  }
  return text + "\n";
}

}  // namespace

void Run::check_input(std::string_view kind, const std::string& key, const std::string& what,
                      const Json& identity) {
  Json inputs = Json::object();
  if (const Json* known = dir_.record().find("inputs")) inputs = *known;
  if (inputs.find(kind) == nullptr) inputs.set(kind, Json::object());
  const Json* before = inputs.find(kind)->find(key);
  if (before != nullptr && *before == identity) return;
  if (before != nullptr && resumed() && !(before->at("digest") == identity.at("digest"))) {
    refuse(fmt::format("{} is not what it was:\n{}", what, input_difference(*before, identity)));
  }
  inputs.find(kind)->set(key, identity);
  dir_.record().set("inputs", std::move(inputs));
  dir_.write_record();
}

// Compares a phase with the one that was saved in its place.
void Run::check_phase(size_t index, const PhasePlan& plan) {
  const Phase& saved = phases_[index];
  const auto changed = find_differences(saved.data, plan.data, "data");
  if (!changed.empty()) {
    refuse(fmt::format("the data of loop {} is not what it was trained on:\n{}", index + 1,
                       describe_differences(changed)));
  }
  const bool another_follows = index + 1 < phases_.size();
  if (plan.steps < saved.total && !saved.left) {
    refuse(fmt::format("loop {} has {} steps, was {}: it may grow, not shrink\n", index + 1,
                       plan.steps, saved.total));
  } else if (plan.steps > saved.total && another_follows) {
    refuse(
        fmt::format("loop {} has {} steps, was {}, and loop {} has begun since: a loop that is "
                    "done cannot grow\n",
                    index + 1, plan.steps, saved.total, index + 2));
  }
}

}  // namespace xrun
