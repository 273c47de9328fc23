#pragma once
// Aligns a conversation in two templates by the texts of its messages, found in both renderings.
//
// Two templates put different words around the same messages, so the renderings differ. A message's
// own text (its reasoning, its answer, the arguments of its calls) is in both. Such a text is a
// region; only regions and the ends of the assistant's turns are aligned.

#include <cstdint>
#include <vector>

#include "core/align/walker.h"
#include "core/base/json.h"
#include "core/text/chat/chat_tokens.h"
#include "core/text/chat/message_ranges.h"

namespace xrun {

// The bytes of one message that are equal in both renderings, without blanks at the ends.
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
  Alignment pairs;  // of all tokens; those in no region are orphans
  std::vector<ChatRegion> regions;
  int64_t crossing = 0;   // tokens of both sides across the border of a region; they are orphans
  int64_t turn_ends = 0;  // correct pairs of the special tokens that end an assistant's turn
};

// Returns the regions of a conversation in order, at most one for each piece of a message's text.
// If one template splits a text (into reasoning and answer), its pieces are found inside the
// other's whole text. Texts that a template changes, leaves out or moves have no region.
std::vector<ChatRegion> chat_regions(const ChatSide& student, const ChatSide& teacher,
                                     const Json& messages);

// Aligns the regions by offsets and, for each assistant's message, the first special tokens after
// its text on both sides, unless options.pair_specials is false.
ChatAlignment align_chat(const ChatSide& student, const ChatSide& teacher, const Json& messages,
                         const WalkOptions& options = {});

}  // namespace xrun
