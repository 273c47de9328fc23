// Published templates, recognised by fingerprint, and the edits that put generation marks into
// them. A fingerprint is listed once its marked counterpart renders every conversation of
// tests/golden/make/template_conversations.py alike; template_goldens.py prints the lines.

#include "core/text/chat/template_families.h"

#include <algorithm>
#include <iterator>

#include "core/base/hash.h"

namespace xrun {

namespace {

struct Stock {
  std::string_view fingerprint;
  std::string_view family;
};

constexpr Stock kStock[] = {
    {"7a128e0473e4be90846f9032c2079ea2", "chatml"},
    {"a344e8c84fb0282dda206a9e46a4ac01", "chatml"},
    {"f0a6a8278439fdb056191e205a440263", "chatml"},
    {"55c706fbac48dcf2e90e2d74ecc3919b", "command-r"},
    {"6557fc82f3059a7bcbe1fb1355c00728", "command-r"},
    {"b4c4d412caedff3162507bcd2e3bf746", "command-r"},
    {"f1e933cf283c34a4154ccac568de8a3b", "command-r"},
    {"e7ee2b9216f53b6370030d47d420498e", "command-r7b"},
    {"b59c4fde1d06da0055b25ceb4910aa64", "deepseek-r1-distill"},
    {"fc60798d3b3a231256a138c31521e7c8", "deepseek-v3"},
    {"8b30bb763d138e692c2e86beabccd2a4", "gemma"},
    {"6c84c2da794fd4c1d9c620dcaf86f38d", "gemma-3"},
    {"6081ccd879ad263bb67097de3f402358", "gemma-4"},
    {"7e7900772b51ad3d55ccad5c870013a6", "gemma-4"},
    {"83df29fd8fbbc283357398fa3aa9e46e", "gemma-4"},
    {"d3d35d95e949ef659bd65744505d2db5", "gemma-4"},
    {"f5c55ae4f37edb326b025fb2ff9052d9", "gemma-4"},
    {"f7467a36bd17239d6ebfc3d340d692c5", "gemma-4"},
    {"a04e49485f21e385c02b9dae12437509", "glm-4"},
    {"158e3477a24f6e26a59a37db2b6d44d1", "glm-4-moe"},
    {"263b899cbc2e65c8b619f5c43a935065", "gpt-oss"},
    {"0b12bcbbf1d07413a473220e0ba2083b", "granite-3"},
    {"b13392e8055e03294b313ff2b8746170", "granite-3"},
    {"cb1c9b71550d107db20bed472a0b8eee", "granite-3"},
    {"fef56ce965aab0c8cfd8ed9072b4cd0f", "granite-3"},
    {"e4dffab064fe05ee9a759f31d2cc23b5", "lfm2"},
    {"6ab6c45377773e40a87b606351ee7919", "lfm2.5"},
    {"4adb1f81f5c508ea24f6d97f87d647f5", "llama-2"},
    {"09facc0e4aa943189799ad6e2dea0594", "llama-3"},
    {"9ddcd6cd71f96dd76ca7779b7730196a", "llama-3.1"},
    {"573e1bcc8c56f178c3d57e38f5ff0756", "llama-3.2"},
    {"f395fc5daa794129a5d004210ebce758", "mistral-v0"},
    {"70bf874ad98f31f4b7f52373b11c60d7", "mistral-v0-spaced"},
    {"876a2693f5ece6d898326487e3b467bd", "mistral-v1"},
    {"a9353cb590f781b7b091cda72d40416a", "mistral-v3"},
    {"af2b89a9b22b3c859d869133a4d56603", "mistral-v3-tekken"},
    {"5b658f89dcb1716f11381d1c62000f60", "mistral-v7"},
    {"3210f443f276f16a02cdc546cb24cabe", "mistral-v7-tekken"},
    {"2cf1f51d3608fe0e92bba475d04d37f6", "muse"},
    {"5f00c2af4544f856f44bce180f7f274d", "nemotron-3"},
    {"86848719b76b995add23cf4bd0fdd75a", "nemotron-3"},
    {"a040e90b21a58800c87f8761e06a21d0", "nemotron-3"},
    {"b9d5e3d56b9bcec0450ca704f00e546f", "nemotron-3"},
    {"2ef1dbbe37b5241f2cf6c80e0c47b498", "olmo-2"},
    {"0850c77e9e7c37ed82fc89c04c54ba66", "phi-3"},
    {"ceaa31b1554ec3f5cd8aff863abd4554", "phi-3.5"},
    {"a50143285cdef922bc5711ad3f99d670", "phi-4"},
    {"f4ba63d66919b6d41c0680782a7c9316", "phi-4-mini"},
    {"e580c2da83415028d5d943bd0bd9082f", "qwen2"},
    {"e392aa06018503fd2469c9508f79506e", "qwen2.5"},
    {"e83000dd638f8c39d63c0ab8ac046a45", "qwen2.5-vl"},
    {"0fab82ce8f4d5175c9e0155c80737cf2", "qwen3"},
    {"cc9ddd5a40bc1c0c8fb5d937b1e8f5d0", "qwen3-2507"},
    {"02106194b02d7f3ba6c9c2c4e7ca9522", "qwen3-vl"},
    {"427b80bb3dda26b10ed0a1d8b9d7e0be", "qwen3.5"},
    {"572380022568fa7b579b2c2e5ecdae85", "qwen3.5"},
    {"b20ce3c106c0a721ea7113e61d9a8bcf", "qwen3.5"},
    {"cb9dfc65c3b50c42b488fed7dae5f0ed", "qwen3.5"},
    {"98f63cc3d421d28f99ab995e9629dacd", "smollm2"},
    {"b817851b777472b27b4a2d69f1d91b7c", "tulu-3"},
    {"5ae4edc1a6c08aa61db34e9fc60441d8", "zephyr"},
};

// Replaces code that begins or ends an answer. If `found` does not occur exactly `times` times, the
// text is another revision, and nothing is marked.
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

constexpr Edit kGranite[] = {
    {"+ '<|end_of_role|>' + message['content'] + '<|end_of_text|>", 1,
     "+ '<|end_of_role|>' }}{% if message['role'] == 'assistant' %}{% generation %}"
     "{{- message['content'] + '<|end_of_text|>' }}{% endgeneration %}{% else %}"
     "{{- message['content'] + '<|end_of_text|>' }}{% endif %}{{- '"},
};

// The end of the assistant's branch in Qwen's templates.
// The line feed behind <|im_end|> is not trained: generation stops before it.
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
// The revision whose history holds no thoughts.
// 0 times: the text must not occur.
constexpr Edit kGemma4Unthinking[] = {{"<|channel>thought", 0, ""},
                                      kGemma4Call,
                                      kGemma4CallEnd,
                                      kGemma4Text,
                                      kGemma4Item,
                                      kGemma4End};

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

// Returns false if the edit applies more or less often than it must.
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

// Line ends and a last line feed do not count: checkouts and editors change them.
std::string template_fingerprint(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      text += source[i];
    } else if (i + 1 == source.size() || source[i + 1] != '\n') {
      text += '\n';
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return hash_hex(text);
}

std::string_view stock_family(std::string_view source) {
  const std::string print = template_fingerprint(source);
  const auto known = std::find_if(std::begin(kStock), std::end(kStock),
                                  [&](const Stock& stock) { return stock.fingerprint == print; });
  return known == std::end(kStock) ? std::string_view() : known->family;
}

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
