#pragma once
// The step, data and settings that all micro-batches of a batch share.

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/data/packs/packed_batch.h"
#include "core/prefix/fold_settings.h"
#include "core/train/batches/unit.h"

namespace xrun {

class Ranks;
class Tokenizer;
struct Conversation;

// The tokenizer of a batch's tokens and the folder that it came from; null and "": unknown.
struct BatchTokenizer {
  std::shared_ptr<const Tokenizer> tokenizer = nullptr;
  std::string dir = {};
};

struct BatchInfo {
  int64_t step = 0;         // loop bodies of the run done before this one; enters the seeds
  int64_t phase_step = -1;  // bodies of its loop done before this one, for the schedule; -1: step
  int64_t total_steps = 0;  // bodies of its loop, the length of the schedule
  bool evaluation = false;  // of run:evaluate, whose micro-batches hold as many units as fit
  uint64_t seed = 0;        // of the run
  Unit unit = Unit::kPair;  // of a plain loss tensor
  int64_t max_tokens = 0;   // limit of the tokens that a pack computes; 0: unknown
  FoldSettings fold = {};   // of shared prefixes
  int64_t max_length = 0;   // of one sequence; 0: unknown
  double temperature = 1;   // divides the logits; the one at which rollouts were sampled
  std::vector<std::string> sources = {};  // names of a mixture's sources; empty: there is one
  bool chunked = false;                   // packs have chunks; the same on every rank
  bool aligned = false;                   // and companions for a teacher of another vocabulary
  std::string data_key = {};  // content key of the token cache; "" for a batch made by hand
  BatchTokenizer tokenizer = {};
  // Returns the pack in which a reference computes a row: at most `tokens` tokens, or the row alone
  // (DataSet::canonical_pack). Empty: every row is computed alone.
  std::function<PackedBatch(int64_t row, int64_t tokens)> canonical_pack = {};
  // Returns "pairs.jsonl:17" for a row id; may be empty.
  std::function<std::string(int64_t row)> row_name = {};
  // Returns the conversations behind prompts (DataSet::conversations); empty: unknown.
  std::function<std::vector<Conversation>(const std::vector<int64_t>& rows,
                                          const Tokenizer& tokenizer)>
      conversations = {};
  c10::Device device = c10::kCPU;  // of fields, rows and forwards
  // The processes that share the forwards over the batch; each holds all of it. Null: this one
  // alone.
  Ranks* ranks = nullptr;
};

}  // namespace xrun
