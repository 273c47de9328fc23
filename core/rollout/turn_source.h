#pragma once
// Sources of the policy's turns in conversations: a model, or random tokens in a dry run.

#include <cstdint>
#include <memory>
#include <vector>

#include "core/rollout/text_sampler.h"

namespace xrun {

class Model;
class Tokenizer;
struct BatchInfo;

// A turn of each of `samples` conversations that have the same ids so far.
struct TurnRequest {
  size_t first = 0;                 // the first conversation
  int64_t samples = 1, sample = 0;  // sample: the first one's number in its group
  uint64_t prompt_key = 0;
  std::vector<int32_t> ids = {};  // before the turn
  int64_t max_tokens = 0;
  bool is_last = false;                           // no turn follows, so its keys are not held
  std::vector<std::vector<int32_t>> drafts = {};  // SampleRequest::drafts
};

// Answers requests in the order of ask(). Not thread-safe.
class TurnSource {
 public:
  virtual ~TurnSource() = default;
  virtual void ask(TurnRequest request) = 0;
  // Returns the turns of the oldest request.
  virtual std::vector<TextSample> next() = 0;
  // Drops the keys of a conversation that has ended.
  virtual void end(size_t conversation) { static_cast<void>(conversation); }
  // Reports the counts of all turns (GenerateOptions::counted).
  virtual void report() {}
};

// Returns a source of a model's turns. Refers to all arguments. Throws what Sampler throws.
std::unique_ptr<TurnSource> model_turns(Model& model, const Tokenizer& tokenizer,
                                        const TextOptions& text);

// Returns a source of random turns, all of which end, so that a dry run also renders the
// environment's messages. They are a pure function of info.seed, info.step and the requests.
std::unique_ptr<TurnSource> random_turns(const Tokenizer& tokenizer, const BatchInfo& info);

}  // namespace xrun
