#pragma once
// The packs of a step as they will train, as plain values for those who show them.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/packs/data_set.h"
#include "core/data/packs/packed_batch.h"

namespace xrun {

// Who wrote the bytes of a token.
enum class TokenOrigin { kUnknown, kTemplate, kMessage, kBoth };
const char* token_origin_name(TokenOrigin origin);  // "", "template", "message", "both"

struct InspectedToken {
  int32_t id = 0;
  int32_t position = 0;  // in its segment
  std::string bytes;     // as the vocabulary spells it; "" for an id without a piece
  std::string shown;     // the same, safe and with visible blanks; "<#50300>" without a piece
  float weight = 0;      // of its loss; 0: it is only read
  bool target = false;   // there is a loss row for it, whose weight may be 0
  bool special = false;
  TokenOrigin origin = TokenOrigin::kUnknown;
  std::optional<float> policy, reference;  // log-probs
};

// Neighbouring tokens of one message; a token across a border is the later message's.
struct InspectedTurn {
  std::string role;      // "user"; "template" for what is no message's
  int64_t message = -1;  // counted from 0; -1: none
  size_t begin = 0;      // token of the segment
};

struct InspectedSegment {
  std::string file;
  int64_t line = 0;   // from 1
  int64_t row = -1;   // of the data set
  int64_t pair = -1;  // unique in the step; -1: no pair
  int8_t side = 0;    // +1 chosen, -1 rejected
  float weight = 1;   // of the row
  std::vector<InspectedToken> tokens;
  std::vector<InspectedTurn> turns;  // empty: roles are not known; else the first begins at 0
  int64_t cut_tokens = 0;            // taken off its end by over_length = "cut"
  std::string cut_text;              // the beginning of what was taken off, shown; "" if not known
  std::vector<std::string> remarks;  // what is odd, or not known, a sentence each

  int64_t targets() const;
};
const char* side_name(int8_t side);  // "chosen", "rejected", ""

struct InspectedPack {
  int64_t index = 0;                // in the step
  int64_t tokens = 0, targets = 0;  // of the pack, shown or not
  int64_t left_out = 0;             // segments that are not shown
  std::vector<InspectedSegment> segments;
};

// The rejected side that stands behind segment s; nullptr if that is no pair's chosen one.
const InspectedSegment* rejected_behind(const InspectedPack& pack, size_t s);
// The first turn that begins at a token or behind it; the end of the turns if none does.
std::vector<InspectedTurn>::const_iterator turn_from(const InspectedSegment& segment, size_t token);

// One set's share of a step.
struct InspectedStep {
  std::string recipe;
  std::string data;             // "pairs.jsonl"
  int64_t step = 0, steps = 0;  // steps 0: without end
  int64_t units = 0, units_left_out = 0;
  std::string unit_name;                            // "pair"
  int64_t max_tokens = 0;                           // that a pack may have
  int64_t pack_count = 0, tokens = 0, targets = 0;  // of the whole step, shown or not
  std::vector<InspectedPack> packs;                 // those of which something is shown
  Ledger ledger;                                    // of the set
};

// What a step is made from.
struct InspectedSource {
  const DataSet& set;
  const Tokenizer& tokenizer;
  std::string recipe, data;
  int64_t step = 0, steps = 0, max_tokens = 0;
  int64_t first_pair = 0;  // pairs of earlier sets of the step
};

// Makes the values of packs that `set` packed of `units`. rows: only so many units, the first ones
// of the stream, are shown; negative: all. Their rows are read again for roles and origins.
InspectedStep inspect_step(const InspectedSource& source, const std::vector<int64_t>& units,
                           const std::vector<PackedBatch>& packs, int64_t rows = -1);

// The same of the plan's step, which counts from the plan's first one.
InspectedStep inspect_step(const InspectedSource& source, const StepPlan& plan, int64_t plan_step,
                           int64_t rows = -1);

// Tokens that both segments begin with, alike in id, target and weight.
size_t shared_tokens(const InspectedSegment& a, const InspectedSegment& b);

}  // namespace xrun
