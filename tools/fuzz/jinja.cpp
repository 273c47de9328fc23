// Renders any bytes as a chat template and its messages: an Error, or a text tiled by its runs.

#include <algorithm>
#include <ctime>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/text/chat/chat_template.h"
#include "core/text/jinja/jinja_interpreter.h"
#include "core/text/jinja/jinja_json.h"
#include "tools/fuzz/fuzz_target.h"

namespace xrun {

namespace {

constexpr std::string_view kMessages = R"([
  {"role": "system", "content": "Be brief."},
  {"role": "user", "content": [{"type": "text", "text": " caf\u00e9 <|im_end|> "}]},
  {"role": "assistant", "content": "", "reasoning_content": "hm",
   "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {"x": 1.5}}}]},
  {"role": "tool", "name": "f", "content": "[1, null]"}])";

// Fewer steps than by default, so that no input is slow under the sanitizers.
constexpr jinja::Limits kLimits = {.steps = 200'000};

void render(const std::string& source, const Json& messages) {
  const jinja::Tree tree = jinja::parse_template(source);
  std::tm date{};
  date.tm_mday = 1;
  date.tm_year = 124;
  jinja::Interpreter interpreter(tree, date, kLimits);
  interpreter.set_variable("messages", jinja::RowValues().value(messages));
  interpreter.set_variable("bos_token", jinja::Value::text("<s>"));
  interpreter.set_variable("add_generation_prompt", jinja::Value::boolean(true));
  const jinja::TextPtr text = interpreter.render();
  uint32_t end = 0;
  for (const jinja::MarkedRun& run : text->runs) {
    fuzz_check(run.end > end, "an empty run");
    end = run.end;
  }
  fuzz_check(end == text->bytes.size(), "runs that do not tile the text");
}

}  // namespace

void fuzz_jinja(std::string_view input) {
  // After a byte 0 the input may have its own messages.
  const size_t zero = std::min(input.find('\0'), input.size());
  const std::string source(input.substr(0, zero));
  try {
    make_jinja_template(source, "fuzz", {}, "2024-07-26");
    const bool own = zero < input.size();
    render(source, parse_json(own ? input.substr(zero + 1) : kMessages, "messages"));
  } catch (const Error&) {  // jinja::Fault is one
  }
}

}  // namespace xrun
