#pragma once
// Descriptions of the metrics in metrics.jsonl.

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace xrun {

// A row of the tables of docs/runs.md and docs/rollout-metrics.md, which repeat it.
struct MetricDoc {
  // "rollout/length, length_p50": later names have the group of the first one. A first name without
  // a group is an objective's metric, under train/ and valid/. NAME, SOURCE and ... are
  // placeholders.
  std::string_view names;
  std::string_view meaning;
};

std::span<const MetricDoc> metric_docs();

// Returns the names of a row in full, without placeholders: rollout/length, rollout/length_p50.
std::vector<std::string> metric_names(const MetricDoc& doc);

// Returns the row of a metric, "train/loss" or "valid/other/loss"; nullptr if there is none.
const MetricDoc* find_metric_doc(std::string_view name);

}  // namespace xrun
