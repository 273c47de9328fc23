#pragma once
// A request in the queue of a sampler: its samples, their progress and their drafts.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/model/ops/moe_routing.h"
#include "core/rollout/sampler.h"

namespace xrun {

struct QueuedRequest;

// Draft tokens computed in the first forward. A wrong guess costs rows, so their number starts
// small and doubles as long as all are right.
inline constexpr int64_t kFirstDraft = 8;

// One sample of a request.
struct QueuedSequence {
  QueuedRequest* request;
  int64_t sample;
  Generation made = {};
  int64_t slot = -1;                   // of the cache, while it is in progress
  int64_t draft_window = kFirstDraft;  // draft tokens to verify next; 0: no more
  bool draft_missed = false;           // the first token of an earlier window was wrong
  TokenRoutes routes = {};             // of the answer's tokens that have keys, if recorded

  bool is_fresh() const { return made.ids.empty(); }
  int64_t token_count() const;  // of the prompt and the answer so far
  std::vector<int32_t> tokens() const;

  // Returns at most `max_ids` draft ids to verify after the newest token. They stay within the
  // answer, its slot and the RoPE frequencies of the newest token, and end before a stop id, which
  // nothing follows.
  std::span<const int32_t> draft(const ModelConfig& config, int64_t max_ids) const;
  // Moves the routes of prompt and answer to `made`, if they were recorded.
  void take_routes();
  // Doubles the draft window after a whole draft was accepted, else shrinks it to the accepted
  // part; stops drafting after two drafts whose first token was wrong.
  void adapt_window(int64_t offered, int64_t accepted);
};

struct QueuedRequest {
  // Throws as Sampler::submit does.
  QueuedRequest(const ModelConfig& config, Ticket number, SampleRequest request);
  QueuedRequest(const QueuedRequest&) = delete;

  int64_t prompt_length() const { return static_cast<int64_t>(spec.prompt.size()); }

  Ticket ticket;
  SampleRequest spec;
  std::vector<QueuedSequence> sequences;
  int64_t unfinished;
  TokenRoutes prompt_routes = {};  // as far as they were computed, if recorded
};

// Adds the experts of rows [begin, end) of a forward to the routes of a sequence. The first row is
// the token at `position`. A token that has routes keeps them: they are of its first forward.
//   routes  [layers] of [rows, k] int64, undefined in layers without experts
void record_routes(QueuedSequence& sequence, const std::vector<at::Tensor>& routes, int64_t begin,
                   int64_t end, int64_t position);

// Throws Error, naming `what`, for ids that the model cannot continue.
void check_prompt(const ModelConfig& config, const std::vector<int32_t>& ids,
                  const std::string& what);

// Returns true if `a` was submitted before `b`.
bool submitted_before(const QueuedSequence* a, const QueuedSequence* b);

}  // namespace xrun
