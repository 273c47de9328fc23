#include "core/text/chat/message_ranges.h"

#include <algorithm>
#include <optional>

#include "core/base/error.h"
#include "core/text/chat/message_role.h"

namespace xrun {

namespace {

constexpr size_t kMostMessages = 256;

// Where the first `count` messages end in the text: as far as their own rendering agrees with it.
std::optional<uint32_t> end_of(const ChatTemplate& chat_template, const Json& messages,
                               const Json& kwargs, size_t count, const std::string& text) {
  const Json::Array& list = messages.as_array();
  try {
    const Json first(Json::Array(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(count)));
    const std::string rendered = chat_template.render(first, kwargs).text;
    const auto [end, ignored] =
        std::mismatch(text.begin(), text.end(), rendered.begin(), rendered.end());
    return static_cast<uint32_t>(end - text.begin());
  } catch (const Interrupted&) {
    throw;
  } catch (const Error&) {
    return std::nullopt;
  }
}

// The end of a turn as the first trained turn spells it: "<|im_end|>"; "" if it is not known.
std::string turn_end(const Rendering& rendering) {
  if (rendering.turns.empty()) return "";
  const ByteRange turn = rendering.turns[0];
  uint32_t begin = turn.end;
  for (const RenderSpan& span : rendering.spans) {
    if (span.begin < turn.end && span.end >= turn.end && span.origin == Origin::kTemplate) {
      begin = std::max(span.begin, turn.begin);
    }
  }
  const std::string end = rendering.text.substr(begin, turn.end - begin);
  return end.substr(0, end.find_last_not_of(" \t\r\n") + 1);
}

// Bytes of a turn that the template puts before the first message on its own: a default system
// prompt ends as turns end, and no message has spoken yet.
uint32_t own_beginning(const Rendering& rendering) {
  const auto said = std::find_if(rendering.spans.begin(), rendering.spans.end(),
                                 [](const RenderSpan& s) { return s.origin == Origin::kMessage; });
  const std::string end = turn_end(rendering);
  if (said == rendering.spans.end() || end.empty()) return 0;
  const std::string_view before = std::string_view(rendering.text).substr(0, said->begin);
  const size_t at = before.rfind(end);
  if (at == std::string_view::npos) return 0;
  const size_t behind = before.find_first_not_of(" \t\r\n", at + end.size());
  return static_cast<uint32_t>(std::min(behind, before.size()));
}

Json without_generation_prompt(const Json& kwargs) {
  Json changed = kwargs;
  if (changed.find("add_generation_prompt") != nullptr) changed.set("add_generation_prompt", false);
  return changed;
}

}  // namespace

std::vector<MessageRange> message_ranges(const ChatTemplate& chat_template, const Json& messages,
                                         const Json& kwargs, const Rendering& rendering) {
  const auto size = static_cast<uint32_t>(rendering.text.size());
  const Json::Array& list = messages.as_array();
  const Json plain = without_generation_prompt(kwargs);
  std::vector<MessageRange> ranges;
  uint32_t begin = own_beginning(rendering);
  if (begin > 0) ranges.push_back({-1, "", {0, begin}});
  std::string roles;
  for (size_t m = 0; m < list.size(); ++m) {
    const std::string& role = message_role(list[m]);
    if (!roles.ends_with(role)) roles += (roles.empty() ? "" : ", ") + role;
    const std::optional<uint32_t> end =
        list.size() > kMostMessages && m + 1 < list.size()
            ? std::nullopt
            : end_of(chat_template, messages, plain, m + 1, rendering.text);
    if (!end || *end <= begin) continue;
    ranges.push_back({static_cast<int64_t>(m), std::exchange(roles, ""), {begin, *end}});
    begin = *end;
  }
  if (begin < size && !roles.empty()) {
    ranges.push_back({static_cast<int64_t>(list.size()) - 1, roles, {begin, size}});
  } else if (begin < size) {
    ranges.push_back({-1, "", {begin, size}});
  }
  return ranges;
}

}  // namespace xrun
