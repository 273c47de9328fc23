#pragma once
// All that a run leaves behind, to compare an interrupted run with an undisturbed one.

#include <filesystem>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "tests/core/run/toy_run.h"
#include "tests/scratch_folder.h"

namespace xrun {

struct RunOutcome {
  std::string metrics;
  double first;
  std::string state;
  std::string position;  // run.json of the last checkpoint
  bool operator==(const RunOutcome&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, const RunOutcome& outcome) {
  return out << outcome.metrics << outcome.first << outcome.state << outcome.position;
}

inline RunOutcome outcome_of(const std::filesystem::path& dir, const ToyResult& toy) {
  return {text_of(dir / "metrics.jsonl"), toy.weights->first(), dump_json(toy.state),
          text_of(toy.run->last_checkpoint() / "run.json")};
}

inline ToyLoop saving(int64_t every, std::vector<int64_t> phases = {10}) {
  ToyLoop loop;
  loop.settings.save_every = every;
  loop.phases = std::move(phases);
  return loop;
}

inline RunOutcome undisturbed(const ToyLoop& loop, const RunIdentity& identity = toy_identity()) {
  const ScratchFolder folder;
  const ToyResult toy = toy_run(folder / "run", loop, identity);
  return outcome_of(folder / "run", toy);
}

}  // namespace xrun
