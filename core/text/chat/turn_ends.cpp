// A turn ends with a special token inside its generation block, or with the head of the next turn.

#include "core/text/chat/turn_ends.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/text/chat/text_difference.h"

namespace xrun {

namespace {

// Returns the index of the token that holds the byte at `at`, or the number of tokens.
size_t token_at(const ChatTokens& side, size_t at) {
  // The first token that ends after `at`; it begins later if no token holds that byte.
  const auto token = std::upper_bound(side.offsets.begin(), side.offsets.end(), at,
                                      [](size_t value, ByteRange one) { return value < one.end; });
  return token != side.offsets.end() && token->begin <= at
             ? static_cast<size_t>(token - side.offsets.begin())
             : side.ids.size();
}

// EOS counts even if the tokenizer does not call it special.
bool is_marker(const Tokenizer& tokenizer, int32_t id) {
  return tokenizer.is_special(id) || id == tokenizer.eos_id();
}

// Returns true if the text has special tokens other than BOS. A template whose markers are plain
// text to this tokenizer also ends its turns with plain text.
bool writes_markers(const Tokenizer& tokenizer, const ChatTokens& side) {
  return std::any_of(side.ids.begin(), side.ids.end(), [&](int32_t id) {
    return id != tokenizer.bos_id() && is_marker(tokenizer, id);
  });
}

// A special token, the next block at once, the message's own text, or plain text of the template.
enum class TurnEnd { kToken, kNextHead, kMessage, kText };

TurnEnd turn_end(const Tokenizer& tokenizer, const ChatTokens& side, size_t i) {
  const std::vector<ByteRange>& turns = side.rendering.turns;
  // A trained block that follows at once ends the turn, as the next turn's head does.
  if (i + 1 < turns.size() && turns[i + 1].begin == turns[i].end) return TurnEnd::kNextHead;
  const std::string_view text = std::string_view(side.rendering.text).substr(0, turns[i].end);
  // White space after the end of turn does not count as its end.
  const size_t last = text.find_last_not_of(" \t\r\n");
  if (last == std::string_view::npos || last < turns[i].begin ||
      origin_at(side.rendering, last) != Origin::kTemplate) {
    return TurnEnd::kMessage;
  }
  const size_t token = token_at(side, last);
  const bool marker = token < side.ids.size() && is_marker(tokenizer, side.ids[token]);
  return marker || !writes_markers(tokenizer, side) ? TurnEnd::kToken : TurnEnd::kText;
}

// Returns true if a trained block is the head of a turn, not a turn: both its ends are the
// template's own text.
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
  const std::string after = shortened(std::string_view(side.rendering.text).substr(turn.end), 30);
  size_t shown = text.size() > 40 ? text.size() - 40 : 0;
  while (shown < text.size() && is_continuation(text[shown])) ++shown;
  return fmt::format(
      "a trained turn ends with {}, so the model never learns to stop; {}\n"
      "  trained  {}\n  after    {}",
      end == TurnEnd::kMessage ? "the message's own text" : "text that is not a special token",
      after.empty() ? "the template writes no end of turn after the last answer: use one that "
                      "does, or set laws = { eot_trained = false } if other rows teach it"
                    : "put the end-of-turn token inside the generation block",
      visible_blanks(text.substr(shown)), after.empty() ? "(nothing)" : visible_blanks(after));
}

}  // namespace

std::optional<std::string> find_open_turn(const Tokenizer& tokenizer, const ChatTokens& side) {
  const std::vector<ByteRange>& turns = side.rendering.turns;
  bool heads_end_turns = false;
  for (size_t i = 0; i < turns.size(); ++i) {
    const TurnEnd end = turn_end(tokenizer, side, i);
    // Once is enough: such a template ends every answer with the next head (GLM-4).
    heads_end_turns = heads_end_turns || (end == TurnEnd::kNextHead && is_head(side, turns[i + 1]));
    // No head follows the last answer to end it.
    const bool open = heads_end_turns && turns[i].end == side.rendering.text.size();
    if (end == TurnEnd::kToken || end == TurnEnd::kNextHead || open) continue;
    return describe(side, turns[i], end);
  }
  return {};
}

}  // namespace xrun
