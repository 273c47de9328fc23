// tail = the rendering of (prompt, placeholder, messages, generation prompt) after the
// placeholder, from the special token that ends the turn: the last one inside its generation block,
// or else the first one after it. A special token splits a text for every tokenizer, so the tail
// has the tokens that it has in the whole rendering.

#include "core/text/chat/turn_tail.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/text/chat/message_ranges.h"

namespace xrun {

namespace {

// Nine characters, since Mistral's template refuses ids of another length.
std::string made_id(size_t turn, size_t call) {
  return fmt::format("call{:02}{:03}", turn % 100, call % 1000);
}

std::string id_of_call(const SampledCall& call, size_t turn, size_t index) {
  return call.id.empty() ? made_id(turn, index) : call.id;
}

bool answers_calls(const Json& reply) {
  return reply.size() > 0 && message_role(reply.as_array()[0]) == "tool";
}

// Returns the reply with the calls' ids and names in the tool's messages that lack them.
Json addressed(const std::vector<SampledCall>& calls, Json reply, size_t turn) {
  size_t tool = 0;
  for (Json& message : reply.as_array()) {
    if (message_role(message) != "tool") continue;
    // More replies than calls: the rest get ids made from their position.
    const SampledCall none;
    const SampledCall& call = tool < calls.size() ? calls[tool] : none;
    if (message.find("tool_call_id") == nullptr) {
      message.set("tool_call_id", id_of_call(call, turn, tool));
    }
    if (message.find("name") == nullptr && !call.name.empty()) message.set("name", call.name);
    ++tool;
  }
  return reply;
}

// Returns the turn as a call whose arguments hold the placeholder, for templates that take a tool's
// message only after calls.
Json as_call(const std::vector<SampledCall>& calls, const std::string& placeholder, size_t turn) {
  const SampledCall first = calls.empty() ? SampledCall{} : calls.front();
  Json function(Json::Object{{"name", first.name.empty() ? "f" : first.name},
                             {"arguments", Json(Json::Object{{"x", placeholder}})}});
  Json call(Json::Object{
      {"id", id_of_call(first, turn, 0)}, {"type", "function"}, {"function", std::move(function)}});
  return Json(Json::Object{
      {"role", "assistant"}, {"content", ""}, {"tool_calls", Json(Json::Array{std::move(call)})}});
}

// Returns the end of the generation block that holds the byte before `at`; 0 if there is none.
size_t turn_end(const Rendering& rendering, size_t at) {
  for (const ByteRange& turn : rendering.turns) {
    if (turn.begin < at && at <= turn.end) return turn.end;
  }
  return 0;
}

}  // namespace

TurnTail::TurnTail(const Tokenizer& tokenizer, Conversation conversation)
    : tokenizer_(tokenizer), conversation_(std::move(conversation)) {}

Json TurnTail::messages(const std::string& placeholder, bool as_calls) const {
  Json all = conversation_.messages;
  for (size_t t = 0; t < turns_.size(); ++t) {
    if (as_calls && answers_calls(turns_[t].reply)) {
      all.push_back(as_call(turns_[t].calls, placeholder, t));
    } else {
      all.push_back(Json(Json::Object{{"role", "assistant"}, {"content", placeholder}}));
    }
    for (const Json& message : turns_[t].reply.as_array()) all.push_back(message);
  }
  return all;
}

std::vector<int32_t> TurnTail::render(bool as_calls) const {
  // A string that no message contains, since a tool may return anything.
  std::string placeholder = "XRUNTURN";
  const std::string given = dump_json(messages("", as_calls));
  while (given.find(placeholder) != std::string::npos) placeholder += "X";
  Json kwargs = conversation_.kwargs;
  kwargs.set("add_generation_prompt", true);
  const ChatTemplate& chat_template = *conversation_.chat_template;
  const Rendering rendering = chat_template.render(messages(placeholder, as_calls), kwargs);
  // The last one, since every sampled turn holds the placeholder.
  const size_t found = rendering.text.rfind(placeholder);
  XRUN_CHECK(found != std::string::npos,
             "it leaves out the turn in front of the environment's messages");
  const size_t begin = found + placeholder.size();
  std::vector<ByteRange> special;
  for (const RenderSpan& span : rendering.spans) {
    if (span.origin != Origin::kTemplate || span.end <= begin) continue;
    special.push_back({static_cast<uint32_t>(std::max<size_t>(span.begin, begin) - begin),
                       static_cast<uint32_t>(span.end - begin)});
  }
  EncodeOptions options;
  options.special_ok = special;
  Encoding tail = tokenizer_.encode(std::string_view(rendering.text).substr(begin), options);
  size_t end_of_turn = tail.ids.size();
  for (size_t i = 0; i < tail.ids.size(); ++i) {
    if (!tokenizer_.is_special(tail.ids[i])) continue;
    // Take the last one of the turn, since the end of a call may be a special token too. If there
    // is none (no marks, or the head of the next turn ends this one), take the first one after it.
    const bool inside = begin + tail.offsets[i].end <= turn_end(rendering, begin);
    if (end_of_turn < tail.ids.size() && !inside) break;
    end_of_turn = i;
  }
  XRUN_CHECK(end_of_turn < tail.ids.size(),
             "it writes no special token after a turn, so nothing separates a sampled turn from "
             "the next message");
  return {tail.ids.begin() + static_cast<std::ptrdiff_t>(end_of_turn), tail.ids.end()};
}

std::vector<int32_t> TurnTail::append(const std::vector<SampledCall>& calls, const Json& reply) {
  turns_.push_back({calls, addressed(calls, reply, turns_.size())});
  std::string refusal;
  for (const bool as_calls : {false, true}) {
    try {
      return render(as_calls);
    } catch (const Error& error) {
      if (refusal.empty()) refusal = error.what();
    }
  }
  throw Error(fmt::format("the chat template \"{}\" cannot continue a sampled turn: {}",
                          conversation_.chat_template->name(), refusal));
}

}  // namespace xrun
