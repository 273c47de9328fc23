// Verdict frame: a fixed VerdictHead, then its text up to the end of the frame.

#include "core/dist/watch/watch_message.h"

namespace xrun {

namespace {

// The text of a verdict follows its head and ends with the frame.
struct VerdictHead {
  int64_t rank;
  int32_t status;
  int32_t reported;
};

}  // namespace

std::string verdict_message(const RankVerdict& verdict) {
  return message_bytes(VerdictHead{verdict.rank, verdict.status, verdict.reported}) + verdict.text;
}

std::optional<RankVerdict> read_verdict(const std::string& body) {
  VerdictHead head{};
  if (!read_message_bytes(body, 0, head)) return std::nullopt;
  return RankVerdict{.rank = head.rank,
                     .status = head.status,
                     .reported = head.reported != 0,
                     .text = body.substr(sizeof head)};
}

}  // namespace xrun
