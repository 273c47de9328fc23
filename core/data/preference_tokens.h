#pragma once
// A preference row as tokens with flags of what is trained.

#include <cstdint>
#include <vector>

#include "core/data/preference_row.h"
#include "core/data/preference_set.h"

namespace xrun {

struct SideTokens {
  std::vector<int32_t> ids;
  std::vector<uint8_t> trained;  // 1: a target; the first token never is
  int64_t straddlers = 0;
};

struct PairTokens {
  SideTokens chosen;
  SideTokens rejected;
  int64_t cut_tokens = 0;  // of both sides
};

struct PairSettings {
  int64_t max_length = 0;  // tokens of one side; 0: no limit
  OverLength over_length = OverLength::kRaise;
  TrainOn train_on = TrainOn::kAssistant;
};

// Renders, tokenises, marks and cuts both sides. `place` ("pairs.jsonl:17") begins error messages.
// Throws RowRefusal: template_error (the template refuses the messages), empty_mask, too_long
// (under kDrop). Throws Error under kRaise for a side beyond max_length, and under kCut for a side
// whose trained tokens are all cut off.
PairTokens encode_pair(const PreferenceRow& row, const Tokenizer& tokenizer,
                       const ChatTemplate& chat_template, const PairSettings& settings,
                       const std::string& place);

}  // namespace xrun
