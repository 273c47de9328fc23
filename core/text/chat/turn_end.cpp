#include "core/text/chat/turn_end.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/text/chat/text_difference.h"

namespace xrun {

namespace {

// The origin of the byte at `at`.
Origin origin_at(const Rendering& rendering, size_t at) {
  const auto span =
      std::upper_bound(rendering.spans.begin(), rendering.spans.end(), at,
                       [](size_t value, const RenderSpan& one) { return value < one.end; });
  return span == rendering.spans.end() ? Origin::kMessage : span->origin;
}

// The index of the token that holds the byte at `at`, or the number of tokens.
size_t token_at(const ChatTokens& side, size_t at) {
  const auto token = std::upper_bound(side.offsets.begin(), side.offsets.end(), at,
                                      [](size_t value, ByteRange one) { return value < one.end; });
  return token != side.offsets.end() && token->begin <= at
             ? static_cast<size_t>(token - side.offsets.begin())
             : side.ids.size();
}

bool is_marker(const Tokenizer& tokenizer, int32_t id) {
  return tokenizer.is_special(id) || id == tokenizer.eos_id();
}

// Whether there are special tokens in the text, BOS aside. A template whose markers are plain text
// to this tokenizer ends its turns with plain text as well.
bool writes_markers(const Tokenizer& tokenizer, const ChatTokens& side) {
  return std::any_of(side.ids.begin(), side.ids.end(), [&](int32_t id) {
    return id != tokenizer.bos_id() && is_marker(tokenizer, id);
  });
}

// How a trained turn ends.
enum class TurnEnd { kToken, kNextHead, kMessage, kText };

TurnEnd turn_end(const Tokenizer& tokenizer, const ChatTokens& side, size_t i) {
  const std::vector<ByteRange>& turns = side.rendering.turns;
  // What is trained right behind a turn ends it, as where the next turn's head does.
  if (i + 1 < turns.size() && turns[i + 1].begin == turns[i].end) return TurnEnd::kNextHead;
  const std::string_view text = std::string_view(side.rendering.text).substr(0, turns[i].end);
  const size_t last = text.find_last_not_of(" \t\r\n");
  if (last == std::string_view::npos || last < turns[i].begin ||
      origin_at(side.rendering, last) != Origin::kTemplate) {
    return TurnEnd::kMessage;
  }
  const size_t token = token_at(side, last);
  const bool marker = token < side.ids.size() && is_marker(tokenizer, side.ids[token]);
  return marker || !writes_markers(tokenizer, side) ? TurnEnd::kToken : TurnEnd::kText;
}

// Whether a trained block is the head of a turn and not a turn: the template writes its ends.
bool is_head(const ChatTokens& side, ByteRange turn) {
  const std::string_view text = std::string_view(side.rendering.text).substr(0, turn.end);
  const size_t last = text.find_last_not_of(" \t\r\n");
  return last != std::string_view::npos && last >= turn.begin &&
         origin_at(side.rendering, turn.begin) == Origin::kTemplate &&
         origin_at(side.rendering, last) == Origin::kTemplate;
}

std::string describe(const ChatTokens& side, ByteRange turn, TurnEnd end) {
  const std::string_view text =
      std::string_view(side.rendering.text).substr(turn.begin, turn.end - turn.begin);
  const std::string_view behind = std::string_view(side.rendering.text).substr(turn.end, 30);
  const size_t shown = text.size() > 40 ? text.size() - 40 : 0;
  return fmt::format(
      "a trained turn ends with {}, so the model never learns to stop; {}\n"
      "  trained  {}\n  behind   {}",
      end == TurnEnd::kMessage ? "the message's own text" : "text that is no special token",
      behind.empty() ? "the template writes no end of turn behind a last answer: take one that "
                       "does, or say laws = { eot_trained = false } if other rows teach it"
                     : "put the end-of-turn token inside the generation block",
      visible_blanks(text.substr(shown)), behind.empty() ? "(nothing)" : visible_blanks(behind));
}

}  // namespace

std::optional<std::string> find_open_turn(const Tokenizer& tokenizer, const ChatTokens& side) {
  const std::vector<ByteRange>& turns = side.rendering.turns;
  bool heads_end_turns = false;
  for (size_t i = 0; i < turns.size(); ++i) {
    const TurnEnd end = turn_end(tokenizer, side, i);
    heads_end_turns = heads_end_turns || (end == TurnEnd::kNextHead && is_head(side, turns[i + 1]));
    // Behind the last answer there is no head that could end it.
    const bool open = heads_end_turns && turns[i].end == side.rendering.text.size();
    if (end == TurnEnd::kToken || end == TurnEnd::kNextHead || open) continue;
    return describe(side, turns[i], end);
  }
  return {};
}

}  // namespace xrun
