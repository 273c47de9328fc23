#include "core/data/conversation_tokens.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "core/data/messages.h"
#include "core/text/chat_tokens.h"

namespace xrun {

namespace {

size_t count_assistants(const Json& messages, size_t first_messages) {
  const Json::Array& list = messages.as_array();
  return static_cast<size_t>(
      std::count_if(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(first_messages),
                    [](const Json& message) { return message_role(message) == "assistant"; }));
}

// Returns the place of the last assistant turn; turns behind it are no answer.
size_t last_assistant(const Json& messages) {
  size_t last = messages.size() - 1;
  while (last > 0 && message_role(messages.as_array()[last]) != "assistant") --last;
  return last;
}

// Returns the first generation block behind the first `given` messages. Where the template makes
// one block an assistant turn the roles tell it; else the rendering of the prefix does.
size_t first_turn_behind(const ChatTokens& tokens, const ChatTemplate& chat_template,
                         const Json& messages, size_t given, const Json& kwargs) {
  const size_t assistants = count_assistants(messages, given);
  if (assistants == 0) return 0;
  if (tokens.rendering.turns.size() == count_assistants(messages, messages.size())) {
    return assistants;
  }
  const Json::Array& list = messages.as_array();
  const Json prefix(Json::Array(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(given)));
  const size_t turns = count_shared_turns(chat_template, messages, prefix, kwargs);
  if (turns == 0) {
    throw RowRefusal("template_error",
                     "the template does not render the shared turns alone, so "
                     "they cannot be told from the answer");
  }
  return turns;
}

TokenStream encode(const Json& messages, const Json& kwargs, size_t given,
                   const ConversationStyle& style, int64_t& straddlers) {
  ChatTokens tokens = encode_chat(style.tokenizer, style.chat_template, messages, kwargs);
  TokenStream stream;
  if (style.train_on == TrainOn::kAll) {
    stream.trained.assign(tokens.ids.size(), 1);
  } else {
    if (style.train_on == TrainOn::kLast) given = last_assistant(messages);
    const size_t first = first_turn_behind(tokens, style.chat_template, messages, given, kwargs);
    if (first > 0) train_turns_from(tokens, first);
    stream.trained = std::move(tokens.mask);
    straddlers += tokens.straddlers;
  }
  stream.ids = std::move(tokens.ids);
  if (!stream.trained.empty()) stream.trained[0] = 0;
  return stream;
}

}  // namespace

TokenStream encode_conversation(const Json& messages, const Json& kwargs, size_t given,
                                const ConversationStyle& style, int64_t& straddlers) {
  try {
    return encode(messages, kwargs, given, style, straddlers);
  } catch (const RowRefusal&) {
    throw;
  } catch (const Interrupted&) {
    throw;
  } catch (const Error& error) {
    throw RowRefusal("template_error", error.what());
  }
}

void note_unrendered_tools(const Json& messages, const Json& kwargs,
                           const ChatTemplate& chat_template, std::vector<std::string>& notes) {
  const Json* tools = kwargs.find("tools");
  const bool calls = std::any_of(
      messages.as_array().begin(), messages.as_array().end(), [](const Json& message) {
        const Json* list = message.find("tool_calls");
        return list != nullptr && list->size() > 0;
      });
  const auto mentions = [&](const char* name) {
    return chat_template.source().find(name) != std::string::npos;
  };
  if (tools != nullptr && tools->size() > 0 && !mentions("tools")) {
    notes.push_back("LOST: the template does not render \"tools\"");
  }
  if (calls && !mentions("tool_calls")) {
    notes.push_back("LOST: the template does not render \"tool_calls\"");
  }
}

bool is_trained(const TokenStream& stream) {
  return std::find(stream.trained.begin(), stream.trained.end(), 1) != stream.trained.end();
}

int64_t cut_stream(TokenStream& stream, int64_t max_length) {
  const int64_t over = static_cast<int64_t>(stream.ids.size()) - max_length;
  if (over <= 0) return 0;
  stream.ids.resize(static_cast<size_t>(max_length));
  stream.trained.resize(static_cast<size_t>(max_length));
  if (!stream.weights.empty()) stream.weights.resize(static_cast<size_t>(max_length));
  return over;
}

void fit_stream(const RowSettings& settings, const std::string& place, const char* what,
                EncodedRow& out) {
  TokenStream& stream = out.streams[0];
  const int64_t tokens = static_cast<int64_t>(stream.ids.size());
  if (settings.max_length <= 0 || tokens <= settings.max_length) return;
  const std::string lengths = fmt::format("{} has {} tokens, max_length is {}", what,
                                          count_text(tokens), count_text(settings.max_length));
  switch (settings.over_length) {
    case OverLength::kRaise:
      throw Error(fmt::format("{}: {}; raise max_length or set over_length = \"drop\" or \"cut\"",
                              place, lengths));
    case OverLength::kDrop: throw RowRefusal("too_long", lengths);
    case OverLength::kCut: break;
  }
  const bool trained = is_trained(stream);
  out.cut_tokens = cut_stream(stream, settings.max_length);
  XRUN_CHECK(!trained || is_trained(stream),
             "{}: cut to max_length = {}, {} has no trained token left: its prompt alone is as "
             "long; raise max_length or set over_length = \"drop\"",
             place, count_text(settings.max_length), what);
}

}  // namespace xrun
