#pragma once
// Answers sampled from a policy in one continuous batch: requests are queued, the samples of a
// request share the keys of its prompt, and finished requests leave in order of submission.
//
// The tokens and log-probs of an answer are a function of the weights, the prompt, the sampling
// options and the draw key alone: in fp32 they have the same bits in any batch, in any order of
// submission, at any memory limit, with or without held keys and drafts, and the log-probs are
// those of the packed training forward (docs/numerics.md).
//
// The cache belongs to one model at one update count. After an update no older key is read: held
// keys are dropped, and a sequence in progress computes its keys again, under the new weights,
// before its next token. Both are counted. The packed weights belong to the model (Model::pack), so
// all samplers of one update count share them.
//
// It decodes on the model's device, where the keys are; logits come to the host, once for up to 256
// draws, and nothing else waits for the device. Elsewhere than on the CPU the last bits of an
// answer's log-probs may depend on the batch.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/config/config_field.h"
#include "core/model/sampling.h"

namespace xrun {

class Model;
struct ModelConfig;
struct TokenRoutes;

struct SampleRequest {
  // The ids before the answer. A further turn of a conversation is a request whose prompt is
  // the earlier prompt, the sampled ids unchanged, and the ids of the new message; if the earlier
  // request had `hold`, only the new ids are computed.
  std::vector<int32_t> prompt;
  int64_t samples = 1;                     // answers to the prompt
  int64_t max_new_tokens = kAnswerTokens;  // of an answer; below 1: none, finish "length"
  std::vector<int32_t> stop_ids = {};  // an answer ends with the first of these, which it includes
  SamplingOptions sampling = {};
  uint64_t prompt_key = 0;    // the prompt in draw keys, below 2^44
  uint32_t first_sample = 0;  // the first sample's number in draw keys, below 2^20
  // Keep the keys of each finished answer for a request that continues it, until the policy is
  // updated, memory is short (the oldest go first) or release().
  bool hold = false;
  // [samples] or empty: a guess of each answer, such as the answer to the same prompt one epoch
  // before. Several of its tokens are computed in one forward, and one is accepted exactly if it is
  // the token that is drawn, so a draft changes the time and nothing else. It may be wrong, shorter
  // or longer than the answer.
  std::vector<std::vector<int32_t>> drafts = {};
  bool record_routes = false;  // fills Generation::routes, with a mixture of experts
  // Called with every new token of a sample, stop ids included; returning true ends that sample
  // ("stop"). Must not call the sampler.
  std::function<bool(int64_t sample, int32_t id)> on_token = {};
};

struct Generation {
  std::vector<int32_t> ids;          // new tokens, a stop id included
  std::vector<float> logprobs;       // of each id: log softmax(logits / T), T = 1 for greedy tokens
  std::vector<float> logprobs_kept;  // the same over the kept tokens; empty without truncation
  std::string finish;                // "stop", "length" (also the model's own limit), "interrupted"
  // With record_routes: the experts of prompt and answer, except the last token, which no forward
  // computes. A token's experts are those of the forward that drew the token after it.
  std::shared_ptr<const TokenRoutes> routes = nullptr;
};

using Ticket = uint64_t;  // requests of a sampler, counted from 0

struct SampledGroup {
  Ticket ticket = 0;
  std::vector<Generation> samples;
};

struct SamplerOptions {
  int64_t batch = 64;  // sequences decoded at once
  // Limit of keys and values; one sequence is always admitted. Fixed rather than measured, so that
  // the same sequences are decoded together on every machine.
  int64_t cache_mb = 4096;
  // Tokens of one forward over prompts, to bound its activations; a longer prompt is appended to
  // its keys in chunks, which changes no bit.
  int64_t prefill_tokens = 4096;
  // Called between forwards; may throw, which ends the sampling. Empty: check_interrupt()
  // (interrupt.h), for callers that let a signal interrupt at any time.
  std::function<void()> poll = {};
};

// Counts since construction.
struct SamplerCounters {
  int64_t tokens = 0;    // drawn
  int64_t computed = 0;  // tokens that went through the model: prompts and answers
  int64_t reused = 0;    // prompt tokens that did not, because their keys were shared or held
  int64_t stale = 0;     // sequences, held or in progress, whose keys an update made unreadable
  int64_t evicted = 0;   // held sequences dropped for lack of memory
  int64_t drafted = 0;   // draft tokens that were computed
  int64_t accepted = 0;  // of these, those that were drawn
  int64_t packed = 0;    // times that this sampler packed the weights; 0 if they were packed before
};

// Refers to the model, which must outlive it. Not thread-safe. If step() throws, the sampler may
// only be destroyed.
class Sampler {
 public:
  // Throws Error if batch or prefill_tokens is below 1.
  explicit Sampler(Model& model, const SamplerOptions& options = {});
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  // Queues a request. Throws Error if the prompt is empty or longer than the model's limit, if it
  // or a draft holds an id outside the vocabulary, or if a count is out of range; UsageError for a
  // sampling option out of range. Then nothing is queued.
  Ticket submit(SampleRequest request);

  // Draws one token for each sequence in progress, several where a draft is right. Then admits
  // waiting sequences in order, as far as batch and memory allow: their prompts are computed as
  // packs, once for all samples of a request, and each draws its first token. Returns true if
  // there are unfinished sequences. Never records a graph. Throws what the poll throws, and Error
  // if logits are not finite.
  bool step();

  // If all samples of the oldest request are finished, returns and forgets it; else returns
  // nullopt. A short answer therefore never overtakes a long one.
  std::optional<SampledGroup> poll();

  // Ends the unfinished samples of a request, or of all, as "interrupted", with the tokens so far;
  // poll still returns them. A ticket that was polled is ignored.
  void cancel(Ticket ticket);
  void cancel_all();

  // Drops the held keys of an answer that nothing will continue. Ignored if none are held.
  void release(Ticket ticket, int64_t sample);

  // Memory of keys and values on the model's device, including what sequences in progress will
  // still allocate.
  int64_t bytes() const;
  SamplerCounters counters() const;

 private:
  class Decoding;
  std::unique_ptr<Decoding> decoding_;
};

}  // namespace xrun
