#pragma once
// rollouts/step_N.jsonl.zst of a run, read back.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace xrun {

// One sampled answer.
struct RecordedRollout {
  int64_t row = -1;           // of the data set
  std::string location = {};  // "pairs.jsonl:17"; "" in files of earlier versions
  int64_t group = 0, sample = 0;
  int64_t length = 0;             // sampled tokens
  std::vector<int32_t> ids = {};  // all after the prompt; more than `length` in a conversation
  std::string prompt, text = {};  // prompt: "" in files of earlier versions
  std::string finish = {};        // "stop", "stop_string", "length", ...
  std::optional<double> reward = {}, advantage = {};
  std::optional<bool> passed = {};
  std::vector<std::pair<std::string, double>> parts = {};  // of the reward, by name
  bool trained = false;

  // Returns the location, or "row 35" without one.
  std::string row_text() const;
  // Returns the reward, advantage, length or a part of the reward by its name; nullopt if the name
  // is another one or the value is absent.
  std::optional<double> value(const std::string& name) const;
};

// The answers of one body, the samples of a group together.
struct RecordedRollouts {
  int64_t step = 0;
  std::vector<RecordedRollout> answers = {};
};

// Returns the steps with a file in the run's folder `dir`, ascending.
std::vector<int64_t> rollout_steps(const std::filesystem::path& dir);

// Reads the file of a step. Throws Error with file and line if it is damaged, holds more than 256
// MiB of text, or cannot be read.
RecordedRollouts read_rollouts(const std::filesystem::path& dir, int64_t step);

// Returns the indices of `answers` sorted by value(name), lowest or highest first. Answers without
// the value come last; equal ones stay in order.
std::vector<size_t> ordered_by(const std::vector<RecordedRollout>& answers, const std::string& name,
                               bool highest);

// Returns the indices of the answers of each group, in their order.
std::vector<std::vector<size_t>> groups_of(const std::vector<RecordedRollout>& answers);

}  // namespace xrun
