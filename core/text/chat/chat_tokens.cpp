// A token is trained if it touches a generation span. Tokens that cross the boundary of one are
// straddlers, trained whole.

#include "core/text/chat/chat_tokens.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/text/chat/message_ranges.h"

namespace xrun {

namespace {

// Returns the template's own text as ranges, adjacent ones merged.
std::vector<ByteRange> template_ranges(const Rendering& rendering) {
  std::vector<ByteRange> ranges;
  for (const RenderSpan& span : rendering.spans) {
    if (span.origin != Origin::kTemplate) continue;
    if (!ranges.empty() && ranges.back().end == span.begin) {
      ranges.back().end = span.end;
    } else {
      ranges.push_back({span.begin, span.end});
    }
  }
  return ranges;
}

// Adjacent turns merge: a token across their common boundary is not a straddler.
std::vector<ByteRange> trained_ranges(const Rendering& rendering,
                                      const std::vector<uint8_t>& trained) {
  std::vector<ByteRange> ranges;
  for (size_t i = 0; i < rendering.turns.size(); ++i) {
    if (trained[i] == 0) continue;
    const ByteRange& turn = rendering.turns[i];
    if (!ranges.empty() && ranges.back().end == turn.begin) {
      ranges.back().end = turn.end;
    } else {
      ranges.push_back(turn);
    }
  }
  return ranges;
}

}  // namespace

void train_turns(ChatTokens& tokens, const std::vector<uint8_t>& turns) {
  const std::vector<ByteRange> trained = trained_ranges(tokens.rendering, turns);
  tokens.mask.assign(tokens.ids.size(), 0);
  tokens.straddlers = 0;
  size_t at = 0;
  // Tokens and ranges both ascend, so one pass over both suffices.
  for (size_t i = 0; i < tokens.ids.size(); ++i) {
    const ByteRange& token = tokens.offsets[i];
    while (at < trained.size() && trained[at].end <= token.begin) ++at;
    if (at == trained.size()) break;
    // An empty range touches nothing: a token without text, such as an added BOS, is never trained.
    if (std::max(token.begin, trained[at].begin) >= std::min(token.end, trained[at].end)) continue;
    tokens.mask[i] = 1;
    const bool inside = token.begin >= trained[at].begin && token.end <= trained[at].end;
    if (!inside) ++tokens.straddlers;
  }
}

ChatTokens encode_chat(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                       const Json& messages, const Json& kwargs) {
  ChatTokens out;
  out.rendering = chat_template.render(messages, kwargs);
  const std::vector<ByteRange> special_ok = template_ranges(out.rendering);
  // A message that spells a special token stays plain text.
  EncodeOptions options;
  options.special_ok = special_ok;
  Encoding encoding = tokenizer.encode(out.rendering.text, options);
  out.ids = std::move(encoding.ids);
  out.offsets = std::move(encoding.offsets);
  // Every turn is trained until the caller chooses.
  train_turns(out, std::vector<uint8_t>(out.rendering.turns.size(), 1));
  return out;
}

size_t count_shared_messages(const Json& chosen, const Json& rejected) {
  if (!chosen.is_array() || !rejected.is_array()) return 0;
  const Json::Array& a = chosen.as_array();
  const Json::Array& b = rejected.as_array();
  const auto [end, ignored] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<size_t>(end - a.begin());
}

size_t count_shared_turns(const ChatTemplate& chat_template, const Json& chosen,
                          const Json& rejected, const Json& kwargs) {
  const size_t shared = count_shared_messages(chosen, rejected);
  if (shared == 0) return 0;
  try {
    // Count by rendering: one message may become several blocks, or none.
    return chat_template.render(first_messages(chosen, shared), kwargs).turns.size();
  } catch (const Error&) {
    // The shared messages do not render alone, so no block is known to be shared.
    return 0;
  }
}

}  // namespace xrun
