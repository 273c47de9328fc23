#pragma once
// Chat across two templates: the texts of one conversation's messages, found in both renderings.
//
// Two templates put different words around the same messages, so the renderings differ. A message's
// own text (its reasoning, its answer, the arguments of its calls) is in both. A region is such a
// text; only regions and the ends of the assistant's turns are aligned.

#include <cstdint>
#include <vector>

#include "core/align/walker.h"
#include "core/base/json.h"
#include "core/text/chat/chat_tokens.h"
#include "core/text/chat/message_ranges.h"

namespace xrun {

// Bytes of one message that are equal in the two renderings, without blanks at the ends.
struct ChatRegion {
  int64_t message = 0;
  ByteRange student, teacher;
  bool operator==(const ChatRegion&) const = default;
};

// A rendering of a conversation, its tokens, and the bytes of each message (message_ranges.h).
struct ChatSide {
  const TokenTable& table;
  const ChatTokens& tokens;
  const std::vector<MessageRange>& ranges;
};

struct ChatAlignment {
  Alignment pairs;  // of all tokens; what is in no region is an orphan
  std::vector<ChatRegion> regions;
  int64_t crossing = 0;   // tokens of both sides that cross the border of a region: orphans
  int64_t turn_ends = 0;  // correct pairs of the special tokens that end an assistant's turn
};

// Returns the regions of a conversation in order, at most one for each piece of a message's text. A
// piece that a template splits (reasoning and answer) is found inside the other side's whole. Texts
// that a template changes, leaves out or moves have no region.
std::vector<ChatRegion> chat_regions(const ChatSide& student, const ChatSide& teacher,
                                     const Json& messages);

// Aligns the regions by offsets and, for each assistant's message, the first special tokens after
// its text on both sides, unless options.pair_specials is false.
ChatAlignment align_chat(const ChatSide& student, const ChatSide& teacher, const Json& messages,
                         const WalkOptions& options = {});

}  // namespace xrun
