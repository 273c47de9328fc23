// A message ends where the rendering of all messages up to it ends.

#include "core/text/chat/message_ranges.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/base/strings.h"

namespace xrun {

namespace {

// Every beginning of the conversation is rendered, so the work is quadratic in its messages.
constexpr size_t kMaxMessages = 256;

// Returns the offset in the text at which the first `count` messages end: their own rendering
// agrees with it up to there. Nothing if they do not render.
std::optional<uint32_t> end_of(const ChatTemplate& chat_template, const Json& messages,
                               const Json& kwargs, size_t count, const std::string& text) {
  const Json::Array& list = messages.as_array();
  try {
    const Json first(Json::Array(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(count)));
    const std::string rendered = chat_template.render(first, kwargs).text;
    const auto [end, ignored] =
        std::mismatch(text.begin(), text.end(), rendered.begin(), rendered.end());
    return static_cast<uint32_t>(end - text.begin());
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Returns the end of a turn as the first trained turn spells it, "<|im_end|>"; "" if unknown.
std::string turn_end(const Rendering& rendering) {
  if (rendering.turns.empty()) return "";
  const ByteRange turn = rendering.turns[0];
  uint32_t begin = turn.end;
  // The template's own text at the end of the turn.
  for (const RenderSpan& span : rendering.spans) {
    if (span.begin < turn.end && span.end >= turn.end && span.origin == Origin::kTemplate) {
      begin = std::max(span.begin, turn.begin);
    }
  }
  const std::string end = rendering.text.substr(begin, turn.end - begin);
  // The line feed after an end of turn is often outside the marks.
  return end.substr(0, end.find_last_not_of(" \t\r\n") + 1);
}

// Returns the offset at which the text of the first message begins to show: where the rendering
// changes if that text does. Nothing if the message has no text or the template refuses the change.
std::optional<uint32_t> first_text(const ChatTemplate& chat_template, const Json& messages,
                                   const Json& kwargs, const std::string& text) {
  Json changed = messages;
  Json& first = changed.as_array().front();
  const Json* content = first.find("content");
  if (content == nullptr || !content->is_string()) return std::nullopt;
  const std::string was = content->as_string();
  // Another first letter than the text's own, so the renderings differ exactly there.
  first.set("content", (was.starts_with('Q') ? "Z" : "Q") + was);
  return end_of(chat_template, changed, kwargs, changed.size(), text);
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
  // Tools are text of the row, too, and come before its messages.
  if (const Json* tools = kwargs.find("tools"); tools != nullptr && !tools->is_null()) {
    shows = first_text(chat_template, messages, kwargs, rendering.text).value_or(shows);
  }
  const std::string_view before = std::string_view(rendering.text).substr(0, shows);
  const size_t at = before.rfind(end);
  if (at == std::string_view::npos) return 0;
  // The line feed after an end of turn belongs to that turn.
  const size_t after = before.find_first_not_of(" \t\r\n", at + end.size());
  return static_cast<uint32_t>(std::min(after, before.size()));
}

// Otherwise every prefix would end in a prompt that the whole does not have at that point.
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
    // Roles of messages without a range, such as a system prompt that is merged into the user's
    // turn, go with the next range.
    if (!roles.ends_with(role)) add_item(roles, role);
    const std::optional<uint32_t> end =
        // Above the limit only the whole conversation is rendered.
        list.size() > kMaxMessages && m + 1 < list.size()
            ? std::nullopt
            : end_of(chat_template, messages, plain, m + 1, rendering.text);
    // A message that adds no text, or does not render yet, shares the next range.
    if (!end || *end <= begin) continue;
    ranges.push_back({static_cast<int64_t>(m), std::exchange(roles, ""), {begin, *end}});
    begin = *end;
  }
  // Messages without a range of their own end the conversation: theirs is the rest.
  if (begin < size && !roles.empty()) {
    ranges.push_back({static_cast<int64_t>(list.size()) - 1, roles, {begin, size}});
  } else if (begin < size) {
    // Only text of the template is left, such as a generation prompt.
    ranges.push_back({-1, "", {begin, size}});
  }
  return ranges;
}

}  // namespace xrun
