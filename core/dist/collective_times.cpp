// Several calls of a label may be under way at once; the union of their times counts.

#include "core/dist/collective_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/base/strings.h"

namespace xrun {

namespace {

double seconds(CollectiveTimes::Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// The label without the number at its end.
std::string_view kind_of(std::string_view label) {
  const size_t last = label.find_last_not_of("0123456789 ");
  return label.substr(0, last + 1);
}

}  // namespace

void CollectiveTimes::add(const TimedCall& call) {
  LabelTimes& row = rows_[std::string(kind_of(call.label))];
  ++row.calls;
  row.bytes += call.bytes;
  row.waited_s += seconds(call.wait_ended - call.wait_begun);
  const Clock::time_point begun = std::max(call.begun, row.covered);
  if (call.complete <= begun) return;
  row.under_way_s += seconds(call.complete - begun);
  row.covered = call.complete;
}

std::string CollectiveTimes::table() const {
  std::vector<std::pair<std::string, LabelTimes>> rows(rows_.begin(), rows_.end());
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.second.waited_s > b.second.waited_s;
  });
  LabelTimes sum;
  for (const auto& [label, row] : rows) {
    sum.calls += row.calls;
    sum.bytes += row.bytes;
    sum.under_way_s += row.under_way_s;
    sum.waited_s += row.waited_s;
  }
  rows.emplace_back("all", sum);
  std::string text = fmt::format("{:<44} {:>7} {:>10} {:>11} {:>9}\n", "collective of rank 0",
                                 "calls", "bytes", "under way", "waited");
  for (const auto& [label, row] : rows) {
    text +=
        fmt::format("{:<44} {:>7} {:>10} {:>9.3f} s {:>7.3f} s\n", label, row.calls,
                    format_bytes(static_cast<double>(row.bytes)), row.under_way_s, row.waited_s);
  }
  return text;
}

}  // namespace xrun
