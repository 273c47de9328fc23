// A checkpoint after an error has whole bodies only: a body with some of its updates is undone, one
// with all of them is closed. Ranks that hold the state in ranges save it together.

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/dist/agreement.h"
#include "core/dist/ranks.h"
#include "core/run/run.h"
#include "core/train/models/saveable.h"

namespace xrun {

std::filesystem::path Run::save_after_error(const Json& state, const std::string& message) {
  // The run ends here: other ranks may be gone, but a state in ranges needs them.
  alone_ = std::none_of(saved_.begin(), saved_.end(),
                        [](const auto& object) { return !object.second->ranges().empty(); });
  if (replaying() || (alone_ && !dir_.writes())) return last_checkpoint_;
  if (alone_ && settings_.ranks != nullptr) {
    settings_.ranks->abandon_device_calls();
    for (const auto& [name, object] : saved_) object->abandon_shared();
  }
  Ranks* const ranks = alone_ ? nullptr : settings_.ranks;
  const Stopped stopped = ranks == nullptr ? Stopped::kTogether : ranks->stop_together(message);
  XRUN_CHECK(stopped != Stopped::kAlone,
             "the ranks hold the state in ranges, and not all of them could stop their step");
  // A rank that reports its error ends the others, even one that is still in the save.
  const auto await_others = [&] {
    if (ranks != nullptr) ranks->fails_together();
  };
  try {
    if (stopped == Stopped::kApart || (ranks != nullptr && average_in_use())) share_again();
    save_whole_steps(state);
  } catch (...) {
    await_others();
    throw;
  }
  await_others();
  return last_checkpoint_;
}

// Returns true if any rank still has an average in place of its weights: another rank's error may
// have kept it from putting the weights back.
bool Run::average_in_use() {
  const auto in_use = gather_results(settings_.ranks, "averages in use", [&] {
    const bool own = std::any_of(saved_.begin(), saved_.end(), [](const auto& object) {
      return object.second->average_in_use();
    });
    return std::string(own ? "yes" : "");
  });
  return std::any_of(in_use.begin(), in_use.end(), [](const auto& text) { return !text.empty(); });
}

// Each rank holds the state after its own last update; a checkpoint needs one update on all ranks.
void Run::share_again() {
  const auto all = gather_results(settings_.ranks, "the state after an error", [&] {
    std::string own = fmt::format("{} bodies, {} updates in the open one ({})", step_, updates_,
                                  in_body_ ? "open" : "closed");
    for (const auto& [name, object] : saved_) {
      object->abandon_shared();
      own += fmt::format("\n{}: {}", name, dump_json(object->state()));
    }
    return own;
  });
  for (size_t r = 1; r < all.size(); ++r) {
    XRUN_CHECK(all[r] == all[0], "rank {} stopped after {}, rank 0 after {}", r, all[r], all[0]);
  }
  for (const auto& [name, object] : saved_) object->share_again();
}

void Run::save_whole_steps(const Json& state) {
  // In a loop's first body it is unknown whether another update would follow.
  const bool several = several_updates_ || !updates_known_;
  const bool half_done = in_body_ && updates_ > 0 && several;
  // Nothing was updated, or every update is undone: the state is that of the body's beginning.
  const bool before_update = in_body_ && (updates_ == 0 || half_done);
  if (half_done) dropped_updates_ = updates_;
  // Without a copy the objects hold half a body, which no checkpoint may.
  if (half_done && body_copy_.empty()) {
    in_body_ = false;
    return;
  }
  if (half_done) body_copy_.restore(saved_);
  if (before_update) {
    in_body_ = false;  // the body is undone, so what it logged is not written
    sources_ = body_sources_;
  } else if (in_body_) {
    close_body();
  } else if (metrics_ != nullptr && !metrics_->empty()) {
    write_metrics();
  }
  // A checkpoint of step 0 would hold nothing that the recipe does not make itself.
  if (step_ > 0) save(before_update ? body_state_ : state);
}

}  // namespace xrun
