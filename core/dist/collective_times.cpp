// Several calls of a label may be under way at once; the union of their times counts.

#include "core/dist/collective_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "core/base/error.h"
#include "core/base/strings.h"

namespace xrun {

namespace {

double seconds(CollectiveTimes::Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// Returns the label without the number at its end.
std::string kind_of(const std::string& label) {
  return label.substr(0, label.find_last_not_of("0123456789 ") + 1);
}

// Sums over the calls of one label.
struct LabelTimes {
  int64_t calls = 0, bytes = 0;
  double under_way_s = 0, waited_s = 0, late_s = 0;
  CollectiveTimes::Clock::time_point covered;  // the time up to which under_way_s counts
};

// Adds a call that the last rank began at `all_begun`.
void add_call(const CollectiveTimes::TimedCall& call, CollectiveTimes::Clock::time_point all_begun,
              LabelTimes& row) {
  ++row.calls;
  row.bytes += call.bytes;
  const auto together = std::clamp(all_begun, call.wait_begun, call.wait_ended);
  row.late_s += seconds(together - call.wait_begun);
  row.waited_s += seconds(call.wait_ended - together);
  const auto begun = std::max(all_begun, row.covered);
  if (call.complete <= begun) return;
  row.under_way_s += seconds(call.complete - begun);
  row.covered = call.complete;
}

}  // namespace

std::string CollectiveTimes::begin_times() const {
  std::string bytes;
  for (const TimedCall& call : calls_) {
    const Clock::rep begun = call.begun.time_since_epoch().count();
    bytes.append(reinterpret_cast<const char*>(&begun), sizeof begun);
  }
  return bytes;
}

std::string CollectiveTimes::table(const std::vector<std::string>& of_ranks) const {
  std::map<std::string, LabelTimes> by_label;
  // The exchange of these times has added calls since.
  const size_t count = of_ranks.empty() ? calls_.size() : of_ranks[0].size() / sizeof(Clock::rep);
  for (size_t i = 0; i < count; ++i) {
    Clock::time_point all_begun = calls_[i].begun;
    for (const std::string& bytes : of_ranks) {
      Clock::rep begun = 0;
      XRUN_CHECK(bytes.size() == count * sizeof begun && count <= calls_.size(),
                 "ranks have timed different calls");
      std::memcpy(&begun, bytes.data() + i * sizeof begun, sizeof begun);
      all_begun = std::max(all_begun, Clock::time_point(Clock::duration(begun)));
    }
    add_call(calls_[i], all_begun, by_label[kind_of(calls_[i].label)]);
  }
  std::vector<std::pair<std::string, LabelTimes>> rows(by_label.begin(), by_label.end());
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.second.waited_s > b.second.waited_s;
  });
  LabelTimes sum;
  for (const auto& [label, row] : rows) {
    sum.calls += row.calls;
    sum.bytes += row.bytes;
    sum.under_way_s += row.under_way_s;
    sum.waited_s += row.waited_s;
    sum.late_s += row.late_s;
  }
  rows.emplace_back("all", sum);
  std::string text =
      fmt::format("{:<44} {:>7} {:>10} {:>11} {:>9} {:>15}\n", "collective of rank 0", "calls",
                  "bytes", "under way", "waited", "for a late rank");
  for (const auto& [label, row] : rows) {
    text += fmt::format("{:<44} {:>7} {:>10} {:>9.3f} s {:>7.3f} s {:>13.3f} s\n", label, row.calls,
                        format_bytes(static_cast<double>(row.bytes)), row.under_way_s, row.waited_s,
                        row.late_s);
  }
  return text;
}

}  // namespace xrun
