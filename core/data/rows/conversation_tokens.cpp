// Flags say which messages are trained; the template reports generation blocks. Messages are mapped
// to blocks by the template's own report, else by role, else by rendering prefixes.

#include "core/data/rows/conversation_tokens.h"

#include <algorithm>
#include <optional>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/data/rows/lost_turns.h"
#include "core/data/rows/row_length.h"
#include "core/data/rows/tool_calls.h"
#include "core/data/rows/turn_flags.h"
#include "core/text/chat/chat_tokens.h"
#include "core/text/chat/message_ranges.h"
#include "core/text/jinja/jinja_text.h"

namespace xrun {

namespace {

// Returns the index of the last assistant turn; turns after it are not answers.
size_t last_assistant(const Json& messages) {
  size_t last = messages.size() - 1;
  while (last > 0 && !is_assistant(messages.as_array()[last])) --last;
  return last;
}

// Returns the message of each generation block: the one that the template reports, or the assistant
// turns in order if there are as many blocks. Empty if neither applies.
std::vector<size_t> messages_of_turns(const Rendering& rendering, const Json& messages) {
  const std::vector<int64_t>& known = rendering.turn_messages;
  // Sorted, since the caller searches it; a template may write messages in another order.
  const bool all_known = known.size() == rendering.turns.size() &&
                         std::is_sorted(known.begin(), known.end()) &&
                         std::all_of(known.begin(), known.end(), [](int64_t m) { return m >= 0; });
  if (all_known) return {known.begin(), known.end()};
  std::vector<size_t> answers;
  for (size_t m = 0; m < messages.size(); ++m) {
    if (is_assistant(messages.as_array()[m])) answers.push_back(m);
  }
  if (answers.size() != rendering.turns.size()) answers.clear();
  return answers;
}

[[noreturn]] void refuse_joined_turns() {
  throw RowRefusal(
      "template_error",
      "the template does not render the prompt separately, so the answer cannot be located");
}

// A trained answer and one that is not must not share a block.
void require_own_blocks(const std::vector<size_t>& of, const std::vector<uint8_t>& wanted,
                        const Json& messages) {
  // Requires a sorted `of`: see messages_of_turns.
  const auto has_block = [&](size_t m) { return std::binary_search(of.begin(), of.end(), m); };
  for (size_t m = 1; m < messages.size(); ++m) {
    const bool border = wanted[m] != wanted[m - 1] && is_assistant(messages.as_array()[m - 1]) &&
                        is_assistant(messages.as_array()[m]);
    if (border && has_block(m) != has_block(m - 1)) refuse_joined_turns();
  }
}

// Returns the flags of the generation blocks by rendering each prefix of the messages and counting
// its blocks.
std::vector<uint8_t> turns_by_prefix(const std::vector<uint8_t>& wanted, const ChatTokens& tokens,
                                     const ConversationStyle& style, const Json& messages,
                                     const Json& kwargs) {
  const Json::Array& list = messages.as_array();
  std::vector<uint8_t> turns(tokens.rendering.turns.size(), 0);
  size_t begin = 0;
  std::optional<uint8_t> flag;  // of the answers since the last change
  for (size_t m = 0; m < list.size(); ++m) {
    if (!is_assistant(list[m])) continue;
    if (flag && *flag != wanted[m]) {
      const Json prefix(Json::Array(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(m)));
      const size_t end = count_shared_turns(style.chat_template, messages, prefix, kwargs);
      // The prefix must end between two blocks, after those that already have a flag.
      if (end <= begin || end > turns.size()) refuse_joined_turns();
      std::fill(turns.begin() + static_cast<std::ptrdiff_t>(begin),
                turns.begin() + static_cast<std::ptrdiff_t>(end), *flag);
      begin = end;
    }
    flag = wanted[m];
  }
  // The last answers have no block of their own.
  if (begin > 0 && begin == turns.size()) refuse_joined_turns();
  std::fill(turns.begin() + static_cast<std::ptrdiff_t>(begin), turns.end(), flag.value_or(1));
  return turns;
}

// Returns the flags of the generation blocks from those of the messages.
std::vector<uint8_t> trained_turns(const std::vector<uint8_t>& wanted, const ChatTokens& tokens,
                                   const ConversationStyle& style, const Json& messages,
                                   const Json& kwargs) {
  // The message of each block, in the order of the blocks.
  const std::vector<size_t> of = messages_of_turns(tokens.rendering, messages);
  if (of.empty()) return turns_by_prefix(wanted, tokens, style, messages, kwargs);
  require_own_blocks(of, wanted, messages);
  std::vector<uint8_t> turns;
  for (const size_t message : of) turns.push_back(wanted[message]);
  return turns;
}

// Flags of the messages whose turns may be trained.
std::vector<uint8_t> wanted_messages(const Json& messages, size_t given) {
  std::vector<uint8_t> wanted(messages.size(), 0);
  for (size_t m = given; m < wanted.size(); ++m) wanted[m] = !is_untrained(messages.as_array()[m]);
  return wanted;
}

// Trains every token except answers that exclude themselves.
void untrain_answers(ChatTokens& tokens, const ConversationStyle& style, const Json& messages,
                     const Json& kwargs) {
  std::vector<uint8_t> excluded(messages.size(), 0);
  for (size_t m = 0; m < excluded.size(); ++m) {
    const Json& message = messages.as_array()[m];
    excluded[m] = is_assistant(message) && is_untrained(message);
  }
  const bool any = std::find(excluded.begin(), excluded.end(), 1) != excluded.end();
  if (any) {
    XRUN_CHECK(style.chat_template.marks_generation(),
               "a turn is excluded from training, but the template has no generation marks");
    train_turns(tokens, trained_turns(excluded, tokens, style, messages, kwargs));
    // The mask of the excluded answers, inverted.
    for (uint8_t& flag : tokens.mask) flag = !flag;
  } else {
    tokens.mask.assign(tokens.ids.size(), 1);
  }
}

// The input of a rendering, for RowTrace; without the flags that only say what is trained.
std::vector<std::string> template_inputs(const Json& messages, const Json& kwargs) {
  std::vector<std::string> inputs = {dump_json(kwargs)};
  for (const Json& message : messages.as_array())
    inputs.push_back(dump_json(without_flags(message)));
  return inputs;
}

// Returns true if the content of a message, or one of its parts, has the mark in its text.
bool any_text_has(const Json& messages, std::string_view mark) {
  const auto has = [&](const Json* text) {
    return text != nullptr && text->is_string() &&
           text->as_string().find(mark) != std::string::npos;
  };
  return std::any_of(messages.as_array().begin(), messages.as_array().end(),
                     [&](const Json& message) {
                       const Json* content = message.find("content");
                       if (content == nullptr || !content->is_array()) return has(content);
                       return std::any_of(content->as_array().begin(), content->as_array().end(),
                                          [&](const Json& part) { return has(part.find("text")); });
                     });
}

// Returns a sentence with the fix for the first message whose content is a list of parts; "" if
// there is none.
std::string listed_parts_text(const Json& messages) {
  for (size_t m = 0; m < messages.size(); ++m) {
    const Json* content = messages.as_array()[m].find("content");
    if (content == nullptr || !content->is_array()) continue;
    return fmt::format(
        "turn {} has its content as a list of parts, and the template wants a string; join the "
        "parts with a map (docs/data.md)",
        m + 1);
  }
  return "";
}

// A template that prints a value instead of joining strings writes a list of parts as Python or
// JSON spells it, which nobody wants to train.
void refuse_spelled_parts(const Json& messages, std::string_view rendered) {
  const std::string text = listed_parts_text(messages);
  if (text.empty()) return;
  for (const std::string_view mark : {"'type': 'text'", "\"type\": \"text\""}) {
    if (rendered.find(mark) == std::string_view::npos || any_text_has(messages, mark)) continue;
    throw RowRefusal("template_error", text);
  }
}

// Renders, tokenises and masks one conversation; throws whatever the template throws.
TokenStream encode(const Json& messages, const Json& kwargs, size_t given,
                   const ConversationStyle& style, int64_t& straddlers) {
  ChatTokens tokens = encode_chat(style.tokenizer, style.chat_template, messages, kwargs);
  refuse_spelled_parts(messages, tokens.rendering.text);
  if (!style.lost_calls) {
    require_calls(messages, kwargs, style.chat_template, tokens.rendering.text);
  }
  if (!style.lost_turns) {
    require_turns(messages, kwargs, style.chat_template, tokens.rendering);
  }
  if (style.train_on == TrainOn::kAll) {
    untrain_answers(tokens, style, messages, kwargs);
  } else {
    if (style.train_on == TrainOn::kLast) given = last_assistant(messages);
    const std::vector<uint8_t> wanted = wanted_messages(messages, given);
    // With all messages wanted, the mask of encode_chat is right already.
    if (std::find(wanted.begin(), wanted.end(), 0) != wanted.end()) {
      train_turns(tokens, trained_turns(wanted, tokens, style, messages, kwargs));
    }
    // Under kAll every token is trained, so none can straddle a border.
    straddlers += tokens.straddlers;
  }
  if (style.trace != nullptr) {
    style.trace->streams.push_back(
        {tokens.ids, tokens.offsets, tokens.rendering,
         message_ranges(style.chat_template, messages, kwargs, tokens.rendering),
         template_inputs(messages, kwargs)});
  }
  TokenStream stream;
  stream.trained = std::move(tokens.mask);
  stream.ids = std::move(tokens.ids);
  // Nothing predicts the first token.
  if (!stream.trained.empty()) stream.trained[0] = 0;
  return stream;
}

// An accepted conversation must fit into a text of the template engine, which also holds its
// markup.
static_assert(kMaxConversationBytes < jinja::kMaxTextBytes);

// The bytes of all strings in a value.
size_t text_bytes(const Json& value) {
  size_t bytes = 0;
  if (value.is_string()) return value.as_string().size();
  if (value.is_array()) {
    for (const Json& item : value.as_array()) bytes += text_bytes(item);
  } else if (value.is_object()) {
    for (const Json::Member& member : value.as_object()) bytes += text_bytes(member.second);
  }
  return bytes;
}

// As require_borders(), for every string inside a value.
void require_borders_of_all(const Json& value, const Tokenizer& tokenizer) {
  if (value.is_string()) return require_borders(value.as_string(), tokenizer);
  if (value.is_array()) {
    for (const Json& item : value.as_array()) require_borders_of_all(item, tokenizer);
  } else if (value.is_object()) {
    for (const Json::Member& member : value.as_object())
      require_borders_of_all(member.second, tokenizer);
  }
}

// A tokenizer that cannot split text tokenises the whole rendering at once.
void require_size(const Json& messages, const Json& kwargs, const Tokenizer& tokenizer) {
  const SplitKinds kinds = tokenizer.safe_splits();
  const size_t most = kinds.space || kinds.line ? kMaxConversationBytes : tokenizer.max_stretch();
  const size_t bytes = text_bytes(messages) + text_bytes(kwargs);
  if (bytes > most) {
    throw RowRefusal(kTooLongReason,
                     fmt::format("the conversation and its tools have {} bytes of text, at most {} "
                                 "are rendered",
                                 count_text(static_cast<int64_t>(bytes)),
                                 count_text(static_cast<int64_t>(most))));
  }
  // A text of at most max_stretch bytes has no longer stretch.
  if (bytes <= tokenizer.max_stretch()) return;
  require_borders_of_all(messages, tokenizer);
  require_borders_of_all(kwargs, tokenizer);
}

}  // namespace

TokenStream encode_conversation(const Json& messages, const Json& kwargs, size_t given,
                                const ConversationStyle& style, int64_t& straddlers) {
  require_size(messages, kwargs, style.tokenizer);
  try {
    return encode(messages, kwargs, given, style, straddlers);
  } catch (const RowRefusal&) {
    // Derives from Error, and must pass unchanged.
    throw;
  } catch (const Error& error) {
    // A kind of call that the template does not know is the likelier cause, so it is checked first.
    refuse_unknown_calls(messages, kwargs, style.chat_template, style.lost_calls);
    if (const std::string call = incomplete_call_text(messages); !call.empty()) {
      throw RowRefusal("bad_arguments", fmt::format("{} ({})", call, error.what()));
    }
    const std::string parts = listed_parts_text(messages);
    throw RowRefusal("template_error",
                     parts.empty() ? error.what() : fmt::format("{} ({})", parts, error.what()));
  }
}

bool is_trained(const TokenStream& stream) {
  return std::find(stream.trained.begin(), stream.trained.end(), 1) != stream.trained.end();
}

}  // namespace xrun
