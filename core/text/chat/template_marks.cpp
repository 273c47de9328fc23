// Edits that put generation marks into the templates of families without a built-in one.

#include "core/text/chat/template_marks.h"

#include <span>
#include <utility>

namespace xrun {

namespace {

// Replaces code that begins or ends an answer. If `found` does not occur exactly `times` times, the
// template is a different revision, and nothing is marked.
struct Edit {
  std::string_view found;
  int times;
  std::string_view written;
};

// The head of an answer stays outside the marks because the generation prompt writes it, unless a
// call follows its own analysis.
constexpr Edit kGptOss[] = {
    {"{%- if message.role == 'assistant' -%}", 1,
     "{%- if message.role == 'assistant' -%}{{- '<|start|>assistant' -}}"
     "{%- set mark = namespace(head='') -%}{%- generation -%}"},
    {R"({{- "<|start|>assistant)", 6, R"({{- mark.head + ")"},
    {R"("<|channel|>analysis<|message|>" + message.content + "<|end|>" }})", 1,
     R"("<|channel|>analysis<|message|>" + message.content + "<|end|>" }})"
     "{%- set mark.head = '<|start|>assistant' -%}"},
    {R"(+ message.thinking + "<|end|>" }})", 2,
     R"(+ message.thinking + "<|end|>" }}{%- set mark.head = '<|start|>assistant' -%})"},
    {"{%- elif message.role == 'tool' -%}", 1,
     "{%- endgeneration -%}{%- elif message.role == 'tool' -%}"},
};

// There is no end-of-turn token: the head of the next turn ends an answer.
constexpr Edit kGlm4[] = {
    {"<|{{ item['role'] }}|>{{ item['metadata'] }}\n{{ item['content'] }}{% endif %}{% endfor %}",
     1,
     "{% if loop.previtem is defined and loop.previtem['role'] == 'assistant' %}{% generation %}"
     "<|{{ item['role'] }}|>{% endgeneration %}{% else %}<|{{ item['role'] }}|>{% endif %}"
     "{% if item['role'] == 'assistant' %}{% generation %}{{ item['metadata'] }}\n"
     "{{ item['content'] }}{% endgeneration %}{% else %}{{ item['metadata'] }}\n"
     "{{ item['content'] }}{% endif %}{% endif %}{% endfor %}"},
};

// One expression writes the turns of all roles, so it is cut after the role's head.
constexpr Edit kGranite[] = {
    {"+ '<|end_of_role|>' + message['content'] + '<|end_of_text|>", 1,
     "+ '<|end_of_role|>' }}{% if message['role'] == 'assistant' %}{% generation %}"
     "{{- message['content'] + '<|end_of_text|>' }}{% endgeneration %}{% else %}"
     "{{- message['content'] + '<|end_of_text|>' }}{% endif %}{{- '"},
};

// The end of the assistant's branch in Qwen's templates.
// The line feed after <|im_end|> is not trained: generation stops before it.
constexpr Edit kQwenEnd = {"{{- '<|im_end|>\\n' }}\n    {%- elif message.role == \"tool\" %}", 1,
                           "{{- '<|im_end|>' }}{%- endgeneration %}{{- '\\n' }}\n    {%- elif "
                           "message.role == \"tool\" %}"};

constexpr Edit kQwen35[] = {
    {"{%- set reasoning_content = reasoning_content|trim %}", 1,
     "{%- set reasoning_content = reasoning_content|trim %}"
     "{{- '<|im_start|>' + message.role + '\\n' }}{%- generation %}"},
    {"{{- '<|im_start|>' + message.role + '\\n<think>\\n'", 1, "{{- '<think>\\n'"},
    {"{{- '<|im_start|>' + message.role + '\\n' + content }}", 1, "{{- content }}"},
    kQwenEnd,
};

constexpr Edit kQwen3Vl[] = {
    {"{%- elif message.role == \"assistant\" %}\n        {{- '<|im_start|>' + message.role + '\\n' "
     "}}",
     1,
     "{%- elif message.role == \"assistant\" %}\n        {{- '<|im_start|>' + message.role + '\\n' "
     "}}"
     "{%- generation %}"},
    kQwenEnd,
};

// The end of turn moves from the tail that all roles share into the answer, where it is trained.
constexpr Edit kCohere2[] = {
    {"<|START_RESPONSE|>{{ message['content'] }}<|END_RESPONSE|>", 1,
     "<|START_RESPONSE|>{% generation %}{{ message['content'] }}<|END_RESPONSE|>"
     "<|END_OF_TURN_TOKEN|>{% endgeneration %}"},
    {"{% endif %}<|END_OF_TURN_TOKEN|>{% endfor %}", 1,
     "{% endif %}{% if role != 'assistant' and role != 'chatbot' %}<|END_OF_TURN_TOKEN|>{% endif %}"
     "{% endfor %}"},
};

constexpr Edit kLfm2Calls[] = {
    {"{%- if content and content != \"null\" -%}", 1,
     "{%- generation -%}{%- if content and content != \"null\" -%}"},
    {"{{- \"<|im_end|>\\n\" -}}\n\t{%- else -%}", 1,
     "{{- \"<|im_end|>\" -}}{%- endgeneration -%}{{- \"\\n\" -}}\n\t{%- else -%}"},
    {"{{- content + \"<|im_end|>\\n\" -}}", 1,
     "{%- if message[\"role\"] == \"assistant\" -%}{%- generation -%}{{- content + \"<|im_end|>\" "
     "-}}"
     "{%- endgeneration -%}{{- \"\\n\" -}}{%- else -%}{{- content + \"<|im_end|>\\n\" -}}"
     "{%- endif -%}"},
};

constexpr Edit kNemotron3[] = {
    {"{{- '<|im_start|>assistant\\n' }}\n                {%- set include_content", 1,
     "{{- '<|im_start|>assistant\\n' }}{%- generation %}{%- set include_content"},
    {"{{- '<|im_end|>\\n' }}\n        {%- else %}\n", 1,
     "{{- '<|im_end|>' }}{%- endgeneration %}{{- '\\n' }}\n        {%- else %}\n"},
    {"{{- '<|im_start|>assistant\\n' ~ (content | default('', true) | string | trim) ~ "
     "'<|im_end|>\\n' }}",
     1,
     "{{- '<|im_start|>assistant\\n' }}{%- generation %}"
     "{{- (content | default('', true) | string | trim) ~ '<|im_end|>' }}{%- endgeneration %}"
     "{{- '\\n' }}"},
    {"{{- '<|im_start|>assistant\\n' ~ c ~ '<|im_end|>\\n' }}", 1,
     "{{- '<|im_start|>assistant\\n' }}{%- generation %}{{- c ~ '<|im_end|>' }}"
     "{%- endgeneration %}{{- '\\n' }}"},
    {"{{- '<|im_start|>assistant\\n<|im_end|>\\n' }}", 1,
     "{{- '<|im_start|>assistant\\n' }}{%- generation %}{{- '<|im_end|>' }}{%- endgeneration %}"
     "{{- '\\n' }}"},
};

// Mistral's templates of mistral-common, v2 to v15 in all their forms; v1 knows no tools.
constexpr Edit kMistralAnswer = {"{%- elif message['role'] == 'assistant' %}", 1,
                                 "{%- elif message['role'] == 'assistant' %}{%- generation %}"};
constexpr Edit kMistral[] = {
    kMistralAnswer,
    {"{#- Tool messages", 1, "{%- endgeneration %}{#- Tool messages"},
};
constexpr Edit kMistralV1[] = {
    kMistralAnswer,
    {"{{- eos_token}}", 1, "{{- eos_token}}{%- endgeneration %}"},
};

// The variable end_of_turn contains a line feed, which is not trained, so the token is spelled out.
constexpr Edit kExaone4[] = {
    {"{{- role_indicators['assistant'] }}\n\n        {%- if msg.content %}", 1,
     "{{- role_indicators['assistant'] }}{%- generation %}\n\n        {%- if msg.content %}"},
    {"{{- end_of_turn -}}\n\n    {%- elif role == \"tool\" %}", 1,
     "{{- '[|endofturn|]' -}}{%- endgeneration %}{{- '\\n' -}}\n\n    {%- elif role == \"tool\" "
     "%}"},
};

// An answer is a thought, calls, and text. Tool results between them stay outside the marks.
constexpr Edit kGemma4Thought = {
    "{{- '<|channel>thought\\n' + thinking_text + '\\n<channel|>' -}}", 1,
    "{%- generation -%}{{- '<|channel>thought\\n' + thinking_text + '\\n<channel|>' -}}"
    "{%- endgeneration -%}"};
constexpr Edit kGemma4Call = {"{{- '<|tool_call>call:' + function['name'] + '{' -}}", 1,
                              "{%- generation -%}"
                              "{{- '<|tool_call>call:' + function['name'] + '{' -}}"};
constexpr Edit kGemma4CallEnd = {"{{- '}<tool_call|>' -}}", 1,
                                 "{{- '}<tool_call|>' -}}{%- endgeneration -%}"};
constexpr Edit kGemma4Text = {
    "{{- strip_thinking(message['content']) -}}", 1,
    "{%- generation -%}{{- strip_thinking(message['content']) -}}{%- endgeneration -%}"};
constexpr Edit kGemma4Item = {
    "{{- strip_thinking(item['text']) -}}", 1,
    "{%- generation -%}{{- strip_thinking(item['text']) -}}{%- endgeneration -%}"};
constexpr Edit kGemma4End = {"            {{- '<turn|>\\n' -}}", 1,
                             "{%- if role == 'model' -%}{%- generation -%}{{- '<turn|>' -}}"
                             "{%- endgeneration -%}{{- '\\n' -}}{%- else -%}"
                             "{{- '<turn|>\\n' -}}{%- endif -%}"};

constexpr Edit kGemma4[] = {kGemma4Thought, kGemma4Call, kGemma4CallEnd,
                            kGemma4Text,    kGemma4Item, kGemma4End};
// The revision whose history has no thoughts: the text of the first edit must not occur.
constexpr Edit kGemma4Unthinking[] = {{"<|channel>thought", 0, ""},
                                      kGemma4Call,
                                      kGemma4CallEnd,
                                      kGemma4Text,
                                      kGemma4Item,
                                      kGemma4End};

// Content is a text or a list of parts; both branches are marked.
constexpr Edit kQwen25Vl[] = {
    {"{{ message['content'] }}<|im_end|>\n{% else %}", 1,
     "{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] }}<|im_end|>"
     "{% endgeneration %}{% else %}{{ message['content'] }}<|im_end|>{% endif %}{{ '\\n' }}"
     "{% else %}"},
    {"{% elif 'text' in content %}{{ content['text'] }}{% endif %}{% endfor %}<|im_end|>\n", 1,
     "{% elif 'text' in content %}{% if message['role'] == 'assistant' %}{% generation %}"
     "{{ content['text'] }}{% endgeneration %}{% else %}{{ content['text'] }}{% endif %}{% endif %}"
     "{% endfor %}{% if message['role'] == 'assistant' %}{% generation %}<|im_end|>"
     "{% endgeneration %}{% else %}<|im_end|>{% endif %}{{ '\\n' }}"},
};

// As in gpt-oss the generation prompt writes the first head of an answer.
constexpr Edit kMuse[] = {
    {"{%- elif role == 'assistant' -%}", 1,
     "{%- elif role == 'assistant' -%}{{- '<|start|>assistant' -}}"
     "{%- set mark = namespace(head='') -%}{%- generation -%}"},
    {"{{- '<|start|>assistant to=self<|message|>' + message['reasoning_content'] + '<|eom|>' -}}",
     1,
     "{{- mark.head + ' to=self<|message|>' + message['reasoning_content'] + '<|eom|>' -}}"
     "{%- set mark.head = '<|start|>assistant' -%}"},
    {"{{- '<|start|>assistant to=' + tc.function.name + '<|message|>' -}}", 1,
     "{{- mark.head + ' to=' + tc.function.name + '<|message|>' -}}"
     "{%- set mark.head = '<|start|>assistant' -%}"},
    {"{{- '<|start|>assistant' -}}\n            {%- if recipient -%}", 1,
     "{{- mark.head -}}{%- if recipient -%}"},
    {"        {%- endif -%}\n    {%- endif -%}\n{%- endfor -%}\n{%- if add_generation_prompt -%}",
     1,
     "{%- endif -%}{%- endgeneration -%}{%- endif -%}{%- endfor -%}{%- if add_generation_prompt "
     "-%}"},
};

struct Family {
  std::string_view name;
  std::span<const Edit> edits;
};

constexpr Family kFamilies[] = {
    {"gpt-oss", kGptOss},           {"glm-4", kGlm4},           {"granite-3", kGranite},
    {"qwen3.5", kQwen35},           {"qwen3-vl", kQwen3Vl},     {"command-r7b", kCohere2},
    {"lfm2.5", kLfm2Calls},         {"nemotron-3", kNemotron3}, {"mistral", kMistral},
    {"mistral-v1", kMistralV1},     {"exaone-4", kExaone4},     {"gemma-4", kGemma4},
    {"gemma-4", kGemma4Unthinking}, {"qwen2.5-vl", kQwen25Vl},  {"muse", kMuse},
};

// Makes the edit wherever it applies; false if that is not exactly `times` times.
bool apply(std::string& text, const Edit& edit) {
  int times = 0;
  // Continues after what was written, which may contain what was found.
  for (size_t at = 0; (at = text.find(edit.found, at)) != std::string::npos; ++times) {
    text.replace(at, edit.found.size(), edit.written);
    at += edit.written.size();
  }
  return times == edit.times;
}

}  // namespace

std::optional<MarkedSource> mark_source(std::string_view source) {
  for (const Family& family : kFamilies) {
    std::string text(source);
    // All edits or none: half a pair of marks would not parse.
    bool fits = true;
    for (const Edit& edit : family.edits) fits = fits && apply(text, edit);
    if (fits) return MarkedSource{family.name, std::move(text)};
  }
  return {};
}

}  // namespace xrun
