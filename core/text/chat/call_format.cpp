// A form is recognised by a round trip: the template renders a probe's call, and the form that
// reads it back is the template's. So a new revision of a template needs no fingerprint, and a form
// that would be misread is refused.

#include "core/text/chat/call_format.h"

#include <algorithm>
#include <string>

#include "core/base/error.h"
#include "core/text/chat/sampled_calls.h"

namespace xrun {

namespace {

// In the order in which they are tried. "llama" has no tags, so it comes last.
constexpr CallFormat kFormats[] = {
    // Hermes, Qwen2.5, Qwen3, EXAONE 4
    {.family = "hermes", .shape = CallShape::kJson, .open = "<tool_call>", .close = "</tool_call>"},
    {.family = "mistral",  // v3: a list; v11 and later: a name before each call
     .shape = CallShape::kNamed,
     .open = "[TOOL_CALLS]",
     .id_open = "[CALL_ID]",
     .value_open = "[ARGS]"},
    {.family = "glm-4-moe",
     .shape = CallShape::kTagged,
     .open = "<tool_call>",
     .close = "</tool_call>",
     .key_open = "<arg_key>",
     .key_close = "</arg_key>",
     .value_open = "<arg_value>",
     .value_close = "</arg_value>"},
    {.family = "qwen3.5",  // also Qwen3-Coder and Nemotron 3
     .shape = CallShape::kTagged,
     .open = "<tool_call>",
     .close = "</tool_call>",
     .name_open = "<function=",
     .name_close = ">",
     .key_open = "<parameter=",
     .key_close = ">",
     .value_close = "</parameter>",
     .value_lines = true},
    {.family = "muse",
     .shape = CallShape::kTagged,
     .open = "<atem:invoke name=\"",
     .close = "</atem:invoke>",
     .name_close = "\">",
     .key_open = "<atem:parameter name=\"",
     .key_close = "\">",
     .value_close = "</atem:parameter>"},
    {.family = "deepseek-v3",
     .shape = CallShape::kNamed,
     .open = "<｜tool▁call▁begin｜>",
     .close = "<｜tool▁call▁end｜>",
     .name_open = "<｜tool▁sep｜>",
     .value_open = "```json",
     .value_close = "```"},
    {.family = "deepseek-v3.1",
     .shape = CallShape::kNamed,
     .open = "<｜tool▁call▁begin｜>",
     .close = "<｜tool▁call▁end｜>",
     .value_open = "<｜tool▁sep｜>"},
    {.family = "gpt-oss",
     .shape = CallShape::kNamed,
     .open = "to=functions.",
     .value_open = "<|message|>",
     .value_close = "<|call|>"},
    {.family = "lfm2",
     .shape = CallShape::kLiterals,
     .open = "<|tool_call_start|>",
     .close = "<|tool_call_end|>"},
    {.family = "gemma-4",
     .shape = CallShape::kLiterals,
     .open = "<|tool_call>call:",
     .close = "<tool_call|>"},
    {.family = "command-r7b",
     .shape = CallShape::kJson,
     .open = "<|START_ACTION|>",
     .close = "<|END_ACTION|>"},
    {.family = "command-r",
     .shape = CallShape::kJson,
     .open = "Action: ```json",
     .close = "```",
     .other_open = "Action:```json"},
    {.family = "phi-4-mini",
     .shape = CallShape::kJson,
     .open = "<|tool_call|>",
     .other_open = "functools",
     .value_close = "<|/tool_call|>"},
    {.family = "granite-3",
     .shape = CallShape::kJson,
     .open = "<|tool_call|>",
     .other_open = "<tool_call>",
     .value_close = "</tool_call>"},
    {.family = "llama", .shape = CallShape::kJson},
};

// For templates that write no calls: text in the template's source, and the family in whose form
// its models write calls. Documented by the model cards (LFM2, Command R, Command R7B,
// DeepSeek-R1), mistral-common and vLLM's parsers (Phi-4-mini, Granite 3). The first mark that
// occurs counts.
struct DocumentedFormat {
  std::string_view mark, family;
};
constexpr DocumentedFormat kDocumented[] = {
    {"<|START_RESPONSE|>", "command-r7b"}, {"<|CHATBOT_TOKEN|>", "command-r"},
    {"<|tool_list_start|>", "lfm2"},       {"<|tool|>", "phi-4-mini"},
    {"<|end_of_role|>", "granite-3"},      {"<｜tool▁output▁begin｜>", "deepseek-v3"},
    {"[SYSTEM_PROMPT]", "mistral"},
};

constexpr std::string_view kProbeName = "xrun_probe";  // a name that no template writes itself
constexpr std::string_view kProbeQuestion = "xrun_question";

const CallFormat& format_named(std::string_view family) {
  return *std::find_if(std::begin(kFormats), std::end(kFormats),
                       [&](const CallFormat& one) { return one.family == family; });
}

Json probe_arguments() { return Json(Json::Object{{"x", 1}}); }

// Returns the rendering of a turn that calls the probe, from the end of the user's question on,
// since the system's part may show calls as examples; "" if the template refuses the turn.
std::string render_call_probe(const ChatTemplate& chat_template, const Json& kwargs) {
  // Some templates take arguments only as a string.
  for (const Json& arguments : {probe_arguments(), Json(dump_json(probe_arguments()))}) {
    const Json call(Json::Object{
        {"id", "abcdef123"},  // Mistral's templates refuse other lengths
        {"type", "function"},
        {"function", Json(Json::Object{{"name", kProbeName}, {"arguments", arguments}})}});
    const Json messages(Json::Array{
        Json(Json::Object{{"role", "user"}, {"content", kProbeQuestion}}),
        Json(Json::Object{
            {"role", "assistant"}, {"content", ""}, {"tool_calls", Json(Json::Array{call})}})});
    try {
      const std::string text = chat_template.render(messages, kwargs).text;
      const size_t question = text.rfind(kProbeQuestion);
      return question == std::string::npos ? text : text.substr(question + kProbeQuestion.size());
    } catch (const Error&) {
      continue;
    }
  }
  return "";
}

// Returns true if the form reads the probe's call from its rendering.
bool reads_probe(std::string_view text, const CallFormat& format) {
  if (format.open.empty()) {
    // The turn's head precedes the call. Another family's JSON in tags of its own would be found
    // here too, so the key of the arguments must be Llama's.
    if (text.find("\"parameters\"") == std::string_view::npos) return false;
    // The last brace before the name opens the call.
    text.remove_prefix(std::min(text.rfind('{', text.find(kProbeName)), text.size()));
  }
  // Drops the special token after the turn.
  if (format.close.empty()) text = text.substr(0, text.find_last_of("]})") + 1);
  const std::vector<SampledCall> calls = parse_calls(text, format);
  return calls.size() == 1 && calls[0].name == kProbeName && calls[0].error.empty() &&
         calls[0].arguments == probe_arguments();
}

const CallFormat& documented_format(const std::string& source) {
  for (const DocumentedFormat& one : kDocumented) {
    if (source.find(one.mark) != std::string::npos) return format_named(one.family);
  }
  return format_named("hermes");
}

}  // namespace

std::span<const CallFormat> call_formats() { return kFormats; }

const CallFormat* call_format_of(const ChatTemplate& chat_template, const Json& kwargs) {
  const std::string text = render_call_probe(chat_template, kwargs);
  // The template writes no calls, so only documentation can tell.
  if (text.find(kProbeName) == std::string::npos) {
    return &documented_format(chat_template.chosen(kwargs).source());
  }
  // Never guess: null if no form reads the probe back.
  const auto found =
      std::find_if(std::begin(kFormats), std::end(kFormats),
                   [&](const CallFormat& format) { return reads_probe(text, format); });
  return found == std::end(kFormats) ? nullptr : &*found;
}

}  // namespace xrun
