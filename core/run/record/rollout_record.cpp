// One JSON object per line. Two calls of policy:sample in one body count groups from 0 each, so a
// group ends where the number of the group or of the prompt's row changes, or the sample does not
// rise.

#include "core/run/record/rollout_record.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/folder.h"
#include "core/base/json.h"
#include "core/data/rows/byte_stream.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRolloutEnd = ".jsonl.zst";
// A small file may unpack to any size.
constexpr size_t kMostRolloutBytes = size_t{256} << 20;

int64_t whole_member(const Json& object, std::string_view key, int64_t otherwise) {
  const Json* member = object.find(key);
  return member != nullptr && member->is_int() ? member->as_int() : otherwise;
}

std::optional<double> number_member(const Json& object, std::string_view key) {
  const Json* member = object.find(key);
  if (member == nullptr || !member->is_number()) return std::nullopt;
  return member->as_double();
}

std::optional<bool> flag_member(const Json& object, std::string_view key) {
  const Json* member = object.find(key);
  if (member == nullptr || !member->is_bool()) return std::nullopt;
  return member->as_bool();
}

RecordedRollout rollout_of(const Json& line) {
  RecordedRollout one{.row = whole_member(line, "row", -1),
                      .location = text_member(line, "location"),
                      .group = whole_member(line, "group", 0),
                      .sample = whole_member(line, "sample", 0),
                      .prompt = text_member(line, "prompt")};
  const Json* sampled = line.find("logprobs");
  if (sampled != nullptr) one.length = static_cast<int64_t>(sampled->size());
  if (const Json* ids = line.find("ids"); ids != nullptr && ids->is_array()) {
    for (const Json& id : ids->as_array()) {
      one.ids.push_back(id.is_int() ? static_cast<int32_t>(id.as_int()) : -1);
    }
  }
  one.text = text_member(line, "text");
  one.finish = text_member(line, "finish");
  one.reward = number_member(line, "reward");
  one.advantage = number_member(line, "advantage");
  one.passed = flag_member(line, "passed");
  one.trained = flag_member(line, "trained").value_or(false);
  if (const Json* parts = line.find("parts"); parts != nullptr && parts->is_object()) {
    for (const auto& [name, value] : parts->as_object()) {
      if (value.is_number()) one.parts.emplace_back(name, value.as_double());
    }
  }
  return one;
}

}  // namespace

std::string RecordedRollout::row_text() const {
  return location.empty() ? fmt::format("row {}", row) : location;
}

std::optional<double> RecordedRollout::value(const std::string& name) const {
  if (name == "reward") return reward;
  if (name == "advantage") return advantage;
  if (name == "length") return static_cast<double>(length);
  for (const auto& [part, number] : parts) {
    if (part == name) return number;
  }
  return std::nullopt;
}

std::vector<int64_t> rollout_steps(const fs::path& dir) {
  std::vector<int64_t> steps;
  for (const StepFile& file : step_files(dir / "rollouts", kRolloutEnd)) steps.push_back(file.step);
  return steps;
}

RecordedRollouts read_rollouts(const fs::path& dir, int64_t step) {
  const std::string name = fmt::format("rollouts/step_{:07}{}", step, kRolloutEnd);
  const auto stream = open_byte_stream((dir / name).string(), name);
  std::string text;
  // The unpacked size is not known before the end; blocks that double bound the number of reads.
  for (size_t size = 1 << 20, got = size; got == size; size *= 2) {
    const size_t before = text.size();
    text.resize(before + size);
    got = stream->read(text.data() + before, size);
    text.resize(before + got);
    XRUN_CHECK(text.size() <= kMostRolloutBytes, "{}: holds more than {} MiB of text", name,
               kMostRolloutBytes >> 20);
  }
  RecordedRollouts rollouts{step};
  int64_t line = 1;
  for (size_t at = 0; at < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const Json object = parse_json(std::string_view(text).substr(at, end - at), name, line);
    XRUN_CHECK(object.is_object(), "{}:{}: holds {}, wanted an object", name, line,
               object.kind_name());
    rollouts.answers.push_back(rollout_of(object));
    at = end + 1;
  }
  return rollouts;
}

std::vector<size_t> ordered_by(const std::vector<RecordedRollout>& answers, const std::string& name,
                               bool highest) {
  std::vector<size_t> order;
  std::vector<std::optional<double>> values;
  for (size_t i = 0; i < answers.size(); ++i) {
    order.push_back(i);
    values.push_back(answers[i].value(name));
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (!values[a] || !values[b]) return values[a].has_value() && !values[b].has_value();
    return highest ? *values[a] > *values[b] : *values[a] < *values[b];
  });
  return order;
}

std::vector<std::vector<size_t>> groups_of(const std::vector<RecordedRollout>& answers) {
  std::vector<std::vector<size_t>> groups;
  for (size_t i = 0; i < answers.size(); ++i) {
    const bool same = i > 0 && answers[i].group == answers[i - 1].group &&
                      answers[i].row == answers[i - 1].row &&
                      answers[i].sample > answers[i - 1].sample;
    if (!same) groups.emplace_back();
    groups.back().push_back(i);
  }
  return groups;
}

}  // namespace xrun
