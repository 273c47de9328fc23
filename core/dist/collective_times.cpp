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

// One call in the bytes of begin_times().
struct BeginTime {
  int64_t number;
  CollectiveTimes::Clock::rep begun;
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
    const BeginTime begin = {call.number, call.begun.time_since_epoch().count()};
    bytes.append(reinterpret_cast<const char*>(&begin), sizeof begin);
  }
  return bytes;
}

std::string CollectiveTimes::table(const std::vector<std::string>& of_ranks) const {
  // A rank may not have waited yet for a call that another has.
  std::map<int64_t, Clock::time_point> last_begun;
  for (const std::string& bytes : of_ranks) {
    XRUN_CHECK(bytes.size() % sizeof(BeginTime) == 0, "the times of a rank have {} bytes",
               bytes.size());
    for (size_t i = 0; i < bytes.size(); i += sizeof(BeginTime)) {
      BeginTime begin{};
      std::memcpy(&begin, bytes.data() + i, sizeof begin);
      Clock::time_point& last = last_begun[begin.number];
      last = std::max(last, Clock::time_point(Clock::duration(begin.begun)));
    }
  }
  std::map<std::string, LabelTimes> by_label;
  for (const TimedCall& call : calls_) {
    const auto last = last_begun.find(call.number);
    add_call(call, last == last_begun.end() ? call.begun : last->second,
             by_label[kind_of(call.label)]);
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
