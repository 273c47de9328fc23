// Usually the texts of all messages are found in the rendering, in order, in text that came from
// messages; that costs no rendering. Otherwise every text gets a mark at its beginning and its end,
// and the marked conversation is rendered: a turn is lost if neither of its marks appears.

#include "core/data/rows/lost_turns.h"

#include <algorithm>
#include <string_view>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/data/rows/ledger.h"
#include "core/data/rows/tool_calls.h"
#include "core/text/chat/message_ranges.h"
#include "core/text/chat/template_laws.h"

namespace xrun {

namespace {

constexpr const char* kDeveloper = "developer";
constexpr std::string_view kContentKey = "content";

// The content of a message, or the text of each of its parts.
template <typename Message>
auto texts_of(Message& message) {
  std::vector<decltype(message.find("content"))> texts;
  auto* content = message.find("content");
  if (content == nullptr) return texts;
  if (content->is_string()) texts.push_back(content);
  if (!content->is_array()) return texts;
  for (auto& part : content->as_array()) {
    auto* text = part.find("text");
    if (text != nullptr && text->is_string()) texts.push_back(text);
  }
  return texts;
}

bool has_text(const Json& message) {
  const auto texts = texts_of(message);
  return std::any_of(texts.begin(), texts.end(),
                     [](const Json* text) { return !trimmed(text->as_string()).empty(); });
}

// Returns the part of a text that templates render in every turn, which excludes reasoning.
std::string_view shown_text(const Json& message, const std::string& text) {
  constexpr std::string_view kEnd = "</think>";
  const size_t end = is_assistant(message) ? text.rfind(kEnd) : std::string::npos;
  return trimmed(end == std::string::npos ? std::string_view(text)
                                          : std::string_view(text).substr(end + kEnd.size()));
}

// The reasoning of an answer, and the key of the message that holds it.
struct Reasoning {
  std::string_view text;  // "": none
  std::string_view key;
};

Reasoning reasoning_of(const Json& message) {
  if (!is_assistant(message)) return {};
  for (const char* key : {"reasoning_content", "thinking", "reasoning"}) {
    const Json* value = message.find(key);
    if (value == nullptr || !value->is_string()) continue;
    if (const auto text = trimmed(value->as_string()); !text.empty()) return {text, key};
  }
  const Json* content = message.find("content");
  if (content == nullptr || !content->is_string()) return {};
  constexpr std::string_view kBegin = "<think>";
  const std::string_view text = content->as_string();
  const size_t end = text.rfind("</think>");
  if (end == std::string_view::npos) return {};
  const size_t begin = text.rfind(kBegin, end);
  const size_t from = begin == std::string_view::npos ? 0 : begin + kBegin.size();
  return {trimmed(text.substr(from, end - from)), kContentKey};
}

// Adds a note once: a ledger counts rows by note.
void add_note(std::vector<std::string>& notes, std::string note) {
  if (std::find(notes.begin(), notes.end(), note) == notes.end()) {
    notes.push_back(std::move(note));
  }
}

// Returns true if all texts are found in order. If a lost text happens to be part of a later one,
// it uses up the occurrence of the later one, which is then not found.
bool are_found_in_order(const Json& messages, const Rendering& rendering) {
  size_t at = 0;
  for (const Json& message : messages.as_array()) {
    for (const Json* text : texts_of(message)) {
      const std::string_view shown = shown_text(message, text->as_string());
      if (shown.empty()) continue;
      at = rendering.text.find(shown, at);
      while (at != std::string::npos && origin_at(rendering, at) != Origin::kMessage) {
        at = rendering.text.find(shown, at + 1);
      }
      if (at == std::string::npos) return false;
      at += shown.size();
    }
  }
  return true;
}

// Returns the mark of a message: letters and digits, which every template writes unchanged.
std::string mark_of(const std::string& base, size_t message) {
  return base + std::to_string(message) + "z";
}

// Returns "" if the template refuses the marked messages.
std::string marked_rendering(Json messages, const Json& kwargs, const ChatTemplate& chat_template,
                             const std::string& base) {
  for (size_t m = 0; m < messages.size(); ++m) {
    const std::vector<Json*> texts = texts_of(messages.as_array()[m]);
    if (texts.empty()) continue;
    *texts.front() = mark_of(base, m) + texts.front()->as_string();
    *texts.back() = texts.back()->as_string() + mark_of(base, m);
  }
  try {
    return chat_template.render(messages, kwargs).text;
  } catch (const Error&) {
    return "";
  }
}

// Returns true if the template refuses the messages, or leaves out one of `turns`.
bool loses(const std::vector<size_t>& turns, const Json& messages, const Json& kwargs,
           const ChatTemplate& chat_template) {
  try {
    const std::vector<size_t> lost =
        lost_turns(messages, kwargs, chat_template, chat_template.render(messages, kwargs));
    return std::find_first_of(lost.begin(), lost.end(), turns.begin(), turns.end()) != lost.end();
  } catch (const Error&) {
    return true;
  }
}

}  // namespace

std::vector<size_t> lost_turns(const Json& messages, const Json& kwargs,
                               const ChatTemplate& chat_template, const Rendering& rendering) {
  if (are_found_in_order(messages, rendering)) return {};
  std::string base = "zq";
  while (rendering.text.find(base) != std::string::npos) base += 'q';
  const std::string marked = marked_rendering(messages, kwargs, chat_template, base);
  std::vector<size_t> lost;
  if (marked.empty()) return lost;
  for (size_t m = 0; m < messages.size(); ++m) {
    if (has_text(messages.as_array()[m]) && marked.find(mark_of(base, m)) == std::string::npos) {
      lost.push_back(m);
    }
  }
  return lost;
}

void require_turns(const Json& messages, const Json& kwargs, const ChatTemplate& chat_template,
                   const Rendering& rendering) {
  for (const size_t m : lost_turns(messages, kwargs, chat_template, rendering)) {
    const Json& message = messages.as_array()[m];
    if (makes_calls(message)) continue;
    throw RowRefusal(
        kLostTurnReason,
        fmt::format("the template leaves out the turn of role \"{}\" (message {}); rename the role "
                    "with map, name a template that renders it, or train without the turn: --set "
                    "laws.{}=false",
                    message_role(message), m + 1, kTurnsLaw));
  }
}

void note_lost_turns(const Json& messages, const Json& kwargs, const ChatTemplate& chat_template,
                     bool may_be_lost, std::vector<std::string>& notes) {
  const auto may_lose = [&](const Json& message) {
    return has_text(message) && (may_be_lost || makes_calls(message));
  };
  // Most conversations need no further rendering.
  if (std::none_of(messages.as_array().begin(), messages.as_array().end(), may_lose)) return;
  const Rendering rendering = chat_template.render(messages, kwargs);
  for (const size_t m : lost_turns(messages, kwargs, chat_template, rendering)) {
    const Json& message = messages.as_array()[m];
    add_note(notes,
             makes_calls(message)
                 ? fmt::format("{}the template leaves out the text beside a tool call", kLostNote)
                 : fmt::format("{}the template leaves out turns of role \"{}\"", kLostNote,
                               message_role(message)));
  }
}

void note_lost_reasoning(const Json& messages, const Json& kwargs,
                         const ChatTemplate& chat_template, std::vector<std::string>& notes) {
  const Json::Array& list = messages.as_array();
  // Most conversations need no further rendering.
  if (std::none_of(list.begin(), list.end(),
                   [](const Json& message) { return !reasoning_of(message).text.empty(); })) {
    return;
  }
  const std::string rendered = chat_template.render(messages, kwargs).text;
  bool earlier = false;     // a user turn follows
  bool renders_all = true;  // the reasoning after the last user turn
  for (size_t m = list.size(); m-- > 0;) {
    if (message_role(list[m]) == "user") earlier = true;
    const Reasoning reasoning = reasoning_of(list[m]);
    if (reasoning.text.empty() || rendered.find(reasoning.text) != std::string::npos) continue;
    if (!earlier) renders_all = false;
    // Templates that render reasoning leave out that of earlier turns; others leave out all of it.
    add_note(
        notes,
        earlier && renders_all
            ? fmt::format("{}the template leaves out the reasoning of earlier turns", kLostNote)
        : reasoning.key == kContentKey
            ? fmt::format("{}the template leaves out the text before </think>", kLostNote)
            : fmt::format("{}the template does not render \"{}\"", kLostNote, reasoning.key));
  }
}

void note_lost_parts(const Json& messages, const Json& kwargs, const ChatTemplate& chat_template,
                     bool may_be_lost, std::vector<std::string>& notes) {
  note_unrendered_tools(messages, kwargs, chat_template, notes);
  note_lost_turns(messages, kwargs, chat_template, may_be_lost, notes);
  note_lost_reasoning(messages, kwargs, chat_template, notes);
}

void map_developer_turns(Json& messages, const Json& kwargs, const ChatTemplate& chat_template,
                         std::vector<std::string>& notes) {
  std::vector<size_t> turns;
  for (size_t m = 0; m < messages.size(); ++m) {
    if (message_role(messages.as_array()[m]) == kDeveloper) turns.push_back(m);
  }
  if (turns.empty() || !loses(turns, messages, kwargs, chat_template)) return;
  Json mapped = messages;
  for (const size_t m : turns) mapped.as_array()[m].set("role", "system");
  // Unchanged, so that the refusal names the role in the file.
  if (loses(turns, mapped, kwargs, chat_template)) return;
  messages = std::move(mapped);
  notes.push_back(
      "the role \"developer\" is read as \"system\", since the template does not render it");
}

}  // namespace xrun
