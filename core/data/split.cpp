#include "core/data/split.h"

#include <algorithm>
#include <unordered_map>

#include "core/base/error.h"
#include "core/base/philox.h"

namespace xrun {

namespace {

struct PromptGroup {
  uint64_t order;  // a hash of the prompt: the same for every set that holds it
  uint64_t prompt;
  int64_t rows;
};

std::vector<PromptGroup> group_prompts(std::span<const uint64_t> prompt_hash) {
  std::unordered_map<uint64_t, int64_t> counts;
  for (uint64_t prompt : prompt_hash) ++counts[prompt];
  std::vector<PromptGroup> groups;
  groups.reserve(counts.size());
  for (const auto& [prompt, rows] : counts) {
    groups.push_back({philox_u64(prompt, kStreamSplit, 0, 0), prompt, rows});
  }
  std::sort(groups.begin(), groups.end(), [](const PromptGroup& a, const PromptGroup& b) {
    return a.order != b.order ? a.order < b.order : a.prompt < b.prompt;
  });
  return groups;
}

}  // namespace

int64_t held_out_count(int64_t n, double fraction) {
  XRUN_CHECK(fraction >= 0 && fraction < 1,
             "valid.fraction is {}, wanted a number from 0 to below 1", fraction);
  if (n <= 1 || fraction <= 0) return 0;
  const int64_t count = static_cast<int64_t>(static_cast<double>(n) * fraction);
  return std::clamp<int64_t>(count, 1, n - 1);
}

std::vector<uint8_t> hold_out_prompts(std::span<const uint64_t> prompt_hash, double fraction) {
  const int64_t wanted = held_out_count(static_cast<int64_t>(prompt_hash.size()), fraction);
  std::vector<uint8_t> held_out(prompt_hash.size(), 0);
  if (wanted == 0) return held_out;
  const std::vector<PromptGroup> groups = group_prompts(prompt_hash);
  XRUN_CHECK(groups.size() > 1,
             "valid.by = \"prompt\": all {} rows share one prompt, so none can be held out; "
             "use by = \"row\" or valid.data",
             prompt_hash.size());
  std::unordered_map<uint64_t, bool> taken;
  int64_t rows = 0;
  for (const PromptGroup& group : groups) {
    if (rows + group.rows > wanted) continue;
    taken[group.prompt] = true;
    rows += group.rows;
  }
  if (rows == 0) {
    const auto smallest = std::min_element(
        groups.begin(), groups.end(),
        [](const PromptGroup& a, const PromptGroup& b) { return a.rows < b.rows; });
    taken[smallest->prompt] = true;
  }
  for (size_t i = 0; i < prompt_hash.size(); ++i) held_out[i] = taken.count(prompt_hash[i]) != 0;
  return held_out;
}

}  // namespace xrun
