// A message ends where the rendering of all messages up to it ends. A template may write the last
// message in another form (Qwen3 writes thoughts there alone): if the renderings differ before
// that, a message ends with the last end of a turn before the text of the next one.

#include "core/text/chat/message_ranges.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/base/strings.h"

namespace xrun {

namespace {

// Every prefix of the conversation is rendered, so the work is quadratic in its messages.
constexpr size_t kMaxMessages = 256;

// The common prefix of a text and another rendering.
struct CommonPrefix {
  uint32_t end = 0;
  bool whole = false;  // it is all of the other rendering
};

// Returns the common prefix of the text and the rendering of `messages`; nothing if they do not
// render.
std::optional<CommonPrefix> common_prefix(const ChatTemplate& chat_template, const Json& messages,
                                          const Json& kwargs, const std::string& text) {
  try {
    const std::string rendered = chat_template.render(messages, kwargs).text;
    const auto [end, other] =
        std::mismatch(text.begin(), text.end(), rendered.begin(), rendered.end());
    return CommonPrefix{static_cast<uint32_t>(end - text.begin()), other == rendered.end()};
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Returns the template's own text at the end of a trained turn, without the line feed behind it,
// which is often outside the marks.
std::string end_of_turn(const Rendering& rendering, ByteRange turn) {
  uint32_t begin = turn.end;
  for (const RenderSpan& span : rendering.spans) {
    if (span.begin < turn.end && span.end >= turn.end && span.origin == Origin::kTemplate) {
      begin = std::max(span.begin, turn.begin);
    }
  }
  const std::string end = rendering.text.substr(begin, turn.end - begin);
  return end.substr(0, end.find_last_not_of(" \t\r\n") + 1);
}

// Returns the shortest end of a turn, such as "<|im_end|>"; "" if unknown. The end of a turn with a
// call is longer, because it includes the template's text around the call.
std::string turn_end(const Rendering& rendering) {
  std::string shortest;
  for (const ByteRange& turn : rendering.turns) {
    std::string end = end_of_turn(rendering, turn);
    if (end.empty() || (!shortest.empty() && end.size() >= shortest.size())) continue;
    shortest = std::move(end);
  }
  return shortest;
}

// Returns the offset at which the content of a message begins: the rendering changes there if the
// content does. Nothing if the content is not a string or the template refuses the change.
std::optional<uint32_t> text_begin(const ChatTemplate& chat_template, Json messages, size_t message,
                                   const Json& kwargs, const std::string& text) {
  Json& changed = messages.as_array()[message];
  const Json* content = changed.find("content");
  if (content == nullptr || !content->is_string()) return std::nullopt;
  const std::string was = content->as_string();
  // A first letter that the content does not have, so the renderings differ exactly there.
  changed.set("content", (was.starts_with('Q') ? "Z" : "Q") + was);
  const auto shared = common_prefix(chat_template, messages, kwargs, text);
  return shared ? std::optional(shared->end) : std::nullopt;
}

// Returns the offset after the last end of a turn in the text, with the line feed behind it, which
// belongs to that turn; nothing if there is none.
std::optional<uint32_t> after_turn_end(std::string_view text, const std::string& end) {
  const size_t at = end.empty() ? std::string_view::npos : text.rfind(end);
  if (at == std::string_view::npos) return std::nullopt;
  const size_t after = text.find_first_not_of(" \t\r\n", at + end.size());
  return static_cast<uint32_t>(std::min(after, text.size()));
}

// Returns the offset at which message `m` ends. Nothing if the messages up to it do not render.
std::optional<uint32_t> end_of(const ChatTemplate& chat_template, const Json& messages,
                               const Json& kwargs, size_t m, const Rendering& rendering) {
  const std::string& text = rendering.text;
  const auto shared = common_prefix(chat_template, first_messages(messages, m + 1), kwargs, text);
  if (!shared) return std::nullopt;
  if (shared->whole || m + 1 == messages.size()) return shared->end;
  const auto next = text_begin(chat_template, first_messages(messages, m + 2), m + 1, kwargs, text);
  if (!next || *next <= shared->end) return shared->end;
  const auto after = after_turn_end(std::string_view(text).substr(shared->end, *next - shared->end),
                                    turn_end(rendering));
  return shared->end + after.value_or(0);
}

// Returns the size of a turn that the template itself puts before the first message, such as a
// default system prompt: text that ends as turns end, before any text of a message.
uint32_t own_beginning(const ChatTemplate& chat_template, const Json& messages, const Json& kwargs,
                       const Rendering& rendering) {
  const auto content =
      std::find_if(rendering.spans.begin(), rendering.spans.end(),
                   [](const RenderSpan& s) { return s.origin == Origin::kMessage; });
  const std::string end = turn_end(rendering);
  if (content == rendering.spans.end() || end.empty() || messages.size() == 0) return 0;
  uint32_t shows = content->begin;
  // Tools are text of the row too, and come before its messages.
  if (const Json* tools = kwargs.find("tools"); tools != nullptr && !tools->is_null()) {
    shows = text_begin(chat_template, messages, 0, kwargs, rendering.text).value_or(shows);
  }
  return after_turn_end(std::string_view(rendering.text).substr(0, shows), end).value_or(0);
}

// Returns `kwargs` without a generation prompt, which would end every prefix but not the text
// there.
Json without_generation_prompt(const Json& kwargs) {
  Json changed = kwargs;
  if (changed.find("add_generation_prompt") != nullptr) changed.set("add_generation_prompt", false);
  return changed;
}

}  // namespace

const std::string& message_role(const Json& message) {
  static const std::string kNoRole;
  const Json* role = message.find("role");
  return role != nullptr && role->is_string() ? role->as_string() : kNoRole;
}

Json first_messages(const Json& messages, size_t count) {
  const Json::Array& list = messages.as_array();
  return Json(Json::Array(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(count)));
}

bool is_assistant(const Json& message) { return message_role(message) == "assistant"; }

std::vector<MessageRange> message_ranges(const ChatTemplate& chat_template, const Json& messages,
                                         const Json& kwargs, const Rendering& rendering) {
  const auto size = static_cast<uint32_t>(rendering.text.size());
  const Json::Array& list = messages.as_array();
  const Json plain = without_generation_prompt(kwargs);
  std::vector<MessageRange> ranges;
  uint32_t begin = own_beginning(chat_template, messages, plain, rendering);
  if (begin > 0) ranges.push_back({-1, "", {0, begin}});
  std::string roles;
  for (size_t m = 0; m < list.size(); ++m) {
    const std::string& role = message_role(list[m]);
    // The role of a message without a range, such as a system prompt that is merged into the user's
    // turn, goes to the next range.
    if (!roles.ends_with(role)) add_item(roles, role);
    const std::optional<uint32_t> end =
        // Above the limit only the whole conversation is rendered.
        list.size() > kMaxMessages && m + 1 < list.size()
            ? std::nullopt
            : end_of(chat_template, messages, plain, m, rendering);
    // A message that adds no text, or does not render yet, shares the next range.
    if (!end || *end <= begin) continue;
    ranges.push_back({static_cast<int64_t>(m), std::exchange(roles, ""), {begin, *end}});
    begin = *end;
  }
  // The last messages have no range of their own, so the rest is theirs.
  if (begin < size && !roles.empty()) {
    ranges.push_back({static_cast<int64_t>(list.size()) - 1, roles, {begin, size}});
  } else if (begin < size) {
    // Only text of the template is left, such as a generation prompt.
    ranges.push_back({-1, "", {begin, size}});
  }
  return ranges;
}

}  // namespace xrun
