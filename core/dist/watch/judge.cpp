// A rank that waits in collective c waits for every rank that has begun at most c collectives.

#include "core/dist/watch/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/base/strings.h"
#include "core/dist/watch/rank_environment.h"

namespace xrun {

namespace {

// A verdict is printed on a terminal, where further ranks would add nothing.
constexpr size_t kShownRanks = 16;
// A transfer slower than 1 MB/s counts as stalled.
constexpr int64_t kStallMs = 60000;
constexpr int64_t kStallBytesPerMs = 1000;
// Processor time that counts as work: 0.4 % of hang_ms. A starved process uses more; the LibTorch
// threads of an idle one use less than a tenth of it.
constexpr int64_t kWorkMs = 50;

bool waits(const RankView& rank) {
  return rank.status.state == RankState::kWaiting && !rank.left && !rank.closed;
}

int64_t waited_ms(const RankView& rank, int64_t now_ms) {
  return waits(rank) ? now_ms - rank.status.since_ms : 0;
}

// Returns the longest that another rank has waited for this one, 0 if none does.
int64_t awaited_ms(const std::vector<RankView>& ranks, const RankView& rank, int64_t now_ms) {
  int64_t most = 0;
  for (const RankView& other : ranks) {
    if (waits(other) && rank.status.begun <= other.status.call) {
      most = std::max(most, waited_ms(other, now_ms));
    }
  }
  return most;
}

// Returns true if the main thread had or wanted a processor since its last sign of progress; code
// that waits does neither. An eighth of the time is enough, because some systems report only the
// time that it had, which is a small share on a machine full of other programs.
bool busy(const RankView& rank, int64_t now_ms) {
  return 8 * (rank.status.cpu_ms - rank.active_cpu_ms) > now_ms - rank.active_ms;
}

// Returns true if no thread of the process runs and none waits for anything outside it: no event
// but a message of another rank could wake it.
bool is_idle(const RankView& rank, const WatchLimits& limits, int64_t now_ms) {
  return now_ms - rank.alive_ms >= limits.hang_ms;
}

int64_t limit_of(const RankView& rank, const WatchLimits& limits, int64_t now_ms) {
  const bool loops = rank.status.in_lua != 0 && busy(rank, now_ms);
  return loops || is_idle(rank, limits, now_ms) ? limits.hang_ms : limits.stuck_ms;
}

// "in the engine", "in the recipe's Lua code", "and no processor time in the engine".
std::string doing(const RankView& rank, const WatchLimits& limits, int64_t now_ms) {
  const char* const where = rank.status.in_lua != 0 ? "in the recipe's Lua code" : "in the engine";
  if (is_idle(rank, limits, now_ms)) return fmt::format("and no processor time {}", where);
  if (rank.status.outside != 0) return fmt::format("{}, which waits for a file or program", where);
  return where;
}

// The collective in which the longest waiting rank waits for this one: ", and others wait for it in
// \"metrics\" (collective 3, 8 bytes)".
std::string awaited_text(const std::vector<RankView>& ranks, const RankView& rank) {
  const RankStatus* longest = nullptr;
  for (const RankView& other : ranks) {
    const RankStatus& status = other.status;
    if (!waits(other) || rank.status.begun > status.call) continue;
    if (longest == nullptr || status.since_ms < longest->since_ms) longest = &status;
  }
  if (longest == nullptr) return "";
  return fmt::format(", and others wait for it in \"{}\" (collective {}, {})", longest->label,
                     longest->call, format_bytes(static_cast<double>(longest->bytes)));
}

// Returns the fault of a rank by itself: it is gone or silent; "" if it is well.
std::string own_fault(const RankView& rank, const WatchLimits& limits, int64_t now_ms) {
  if (rank.left) return "";
  if (rank.closed) return "its process ended without a message: killed, crashed or out of memory";
  if (now_ms - rank.heard_ms < limits.silent_ms) return "";
  return fmt::format(
      "no answer for {:.0f} s: its process is stopped, or its machine is down or out of reach",
      static_cast<double>(now_ms - rank.heard_ms) / 1e3);
}

// Returns the fault of a rank that others wait for: it has left, or makes no progress; else "".
std::string awaited_fault(const std::vector<RankView>& ranks, const RankView& rank,
                          const WatchLimits& limits, int64_t now_ms) {
  const int64_t awaited = awaited_ms(ranks, rank, now_ms);
  if (awaited < limits.late_ms) return "";
  if (rank.left) return "it has left the run, and others wait for it";
  const int64_t idle_ms = now_ms - rank.active_ms;
  if (waits(rank) || idle_ms < limit_of(rank, limits, now_ms)) return "";
  return fmt::format("no progress for {:.0f} s {}{}; XRUN_DIST_HANG_S=N allows N seconds",
                     static_cast<double>(idle_ms) / 1e3, doing(rank, limits, now_ms),
                     awaited_text(ranks, rank));
}

std::string difference_text(const RankView& first, const RankView& rank) {
  return fmt::format(
      "it waits in \"{}\" where rank 0 waits in \"{}\": the ranks do not make the same calls",
      rank.status.label, first.status.label);
}

// Returns the fault of a rank that waits in another collective than rank 0, under the same number.
std::string mismatch(const RankView& first, const RankView& rank, const WatchLimits& limits,
                     int64_t now_ms) {
  if (waited_ms(first, now_ms) < limits.late_ms || waited_ms(rank, now_ms) < limits.late_ms ||
      first.status.call != rank.status.call ||
      std::strcmp(first.status.label, rank.status.label) == 0) {
    return "";
  }
  return difference_text(first, rank);
}

// Returns the fault of a rank that waits in another collective under any number, since several may
// be under way at once. Then all ranks must have waited for longer than any transfer takes.
std::string deadlock(const std::vector<RankView>& ranks, const RankView& rank,
                     const WatchLimits& limits, int64_t now_ms) {
  if (std::strcmp(ranks[0].status.label, rank.status.label) == 0) return "";
  for (const RankView& other : ranks) {
    const int64_t transfer_ms = other.status.bytes / kStallBytesPerMs;
    if (waited_ms(other, now_ms) < limits.hang_ms + transfer_ms) return "";
  }
  return difference_text(ranks[0], rank);
}

// Returns true if all ranks are in one collective for longer than its bytes explain.
bool stalled(const std::vector<RankView>& ranks, int64_t now_ms) {
  return std::all_of(ranks.begin(), ranks.end(), [&](const RankView& rank) {
    return waited_ms(rank, now_ms) > kStallMs + rank.status.bytes / kStallBytesPerMs;
  });
}

}  // namespace

void RankView::update(const RankStatus& newer, int64_t now_ms) {
  heard_ms = now_ms;
  // Processor time alone is not progress: an endless loop uses it too.
  if (newer.activity != status.activity || newer.begun != status.begun ||
      newer.state != status.state || newer.step != status.step) {
    active_ms = now_ms;
    active_cpu_ms = newer.cpu_ms;
  }
  if (active_ms == now_ms || newer.outside != 0 || newer.work_ms - alive_work_ms >= kWorkMs) {
    alive_ms = now_ms;
    alive_work_ms = newer.work_ms;
  }
  status = newer;
}

WatchLimits watch_limits() {
  WatchLimits out;
  if (const std::optional<double> seconds = seconds_variable("XRUN_DIST_HANG_S")) {
    out.hang_ms = out.stuck_ms = static_cast<int64_t>(1e3 * *seconds);
  }
  return out;
}

std::optional<RankVerdict> judge(const std::vector<RankView>& ranks, const WatchLimits& limits,
                                 int64_t now_ms) {
  // The order matters: a rank that reports its own error, or is gone, is the cause of what others
  // show.
  const auto find = [&](auto fault_of) -> std::optional<RankVerdict> {
    for (size_t r = 0; r < ranks.size(); ++r) {
      const std::string fault = fault_of(ranks[r]);
      if (!fault.empty()) return failed_rank(ranks, static_cast<int64_t>(r), fault, now_ms);
    }
    return std::nullopt;
  };
  auto found = find([](const RankView& rank) { return rank.failure; });
  if (!found) found = find([&](const RankView& rank) { return own_fault(rank, limits, now_ms); });
  if (!found) {
    found = find([&](const RankView& rank) { return awaited_fault(ranks, rank, limits, now_ms); });
  }
  if (found) return found;
  found = find([&](const RankView& rank) { return mismatch(ranks[0], rank, limits, now_ms); });
  if (!found) {
    found = find([&](const RankView& rank) { return deadlock(ranks, rank, limits, now_ms); });
  }
  if (found) return found;
  if (!stalled(ranks, now_ms)) return std::nullopt;
  return failed_rank(ranks, 0, "every rank waits and no data moves; check the network", now_ms);
}

std::string late_notice(const std::vector<RankView>& ranks, const WatchLimits& limits,
                        int64_t now_ms) {
  for (size_t r = 0; r < ranks.size(); ++r) {
    const int64_t idle_ms = now_ms - ranks[r].active_ms;
    if (waits(ranks[r]) || ranks[r].left || idle_ms < limits.hang_ms ||
        awaited_ms(ranks, ranks[r], now_ms) < limits.late_ms) {
      continue;
    }
    return fmt::format(
        "rank {} of {} shows no progress {}{}: {}; the run ends if that lasts for {:.0f} s "
        "(XRUN_DIST_HANG_S)",
        r, ranks.size(), doing(ranks[r], limits, now_ms), awaited_text(ranks, ranks[r]),
        status_text(ranks[r].status, now_ms),
        static_cast<double>(limit_of(ranks[r], limits, now_ms)) / 1e3);
  }
  return "";
}

RankFault fault_in(int64_t rank, int64_t size, const std::string& what) {
  const std::string first_line = what.substr(0, what.find('\n'));
  for (int64_t other = 0; other < size; ++other) {
    const std::string name = fmt::format("rank {} of {}: ", other, size);
    const size_t at = first_line.find(name);
    // "frank 2 of 3: " does not name a rank.
    if (at == std::string::npos || (at > 0 && first_line[at - 1] != ' ')) continue;
    return {other, what.substr(0, at) + what.substr(at + name.size())};
  }
  return {rank, what};
}

RankVerdict failed_rank(const std::vector<RankView>& ranks, int64_t rank, const std::string& what,
                        int64_t now_ms) {
  RankVerdict out;
  const RankView& reporter = ranks[rank];
  out.reported = !reporter.failure.empty();
  out.status = reporter.failure.empty() ? 1 : reporter.failure_status;
  const RankFault fault = fault_in(rank, std::ssize(ranks), what);
  rank = out.rank = fault.rank;
  out.text = fmt::format("rank {} of {}: {}: {}", rank, ranks.size(), step_text(ranks[rank].status),
                         fault.what);
  const auto add = [&](size_t r) {
    out.text += fmt::format("\n  rank {}: {}", r, status_text(ranks[r].status, now_ms));
  };
  add(rank);
  size_t shown = 1;
  for (size_t r = 0; r < ranks.size() && shown < kShownRanks; ++r) {
    if (static_cast<int64_t>(r) == rank) continue;
    add(r);
    ++shown;
  }
  if (shown < ranks.size()) out.text += fmt::format("\n  and {} more", ranks.size() - shown);
  return out;
}

}  // namespace xrun
