// Chat templates in Jinja: messages and arguments as transformers' apply_chat_template passes them
// to the template, and the marked text turned into spans.

#include <algorithm>
#include <ctime>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/text/chat/chat_template.h"
#include "core/text/jinja/jinja_interpreter.h"
#include "core/text/jinja/jinja_json.h"

namespace xrun {

namespace {

using jinja::Value;

std::tm clock_of(const std::string& date) {
  std::tm clock{};
  clock.tm_isdst = -1;
  if (date.empty()) {
    const std::time_t now = std::time(nullptr);
    localtime_r(&now, &clock);
    // Midnight: two runs of one day have the same digest, and share a cache.
    clock.tm_hour = clock.tm_min = clock.tm_sec = 0;
    return clock;
  }
  int used = 0;  // characters read; all ten, so "2024-7-26" is refused
  const bool day = std::sscanf(date.c_str(), "%4d-%2d-%2d%n", &clock.tm_year, &clock.tm_mon,
                               &clock.tm_mday, &used) == 3 &&
                   used == 10;
  bool whole = day && date.size() == 10;
  if (day && !whole) {
    int more = 0;
    whole = std::sscanf(date.c_str() + 10, "%*1[T ]%2d:%2d:%2d%n", &clock.tm_hour, &clock.tm_min,
                        &clock.tm_sec, &more) == 3 &&
            more == 9 && date.size() == 19;
  }
  const std::tm given = clock;
  clock.tm_year -= 1900;
  clock.tm_mon -= 1;
  // timegm fills in the day of the week and of the year, and normalises impossible dates.
  if (whole) timegm(&clock);
  // A field that timegm changed belongs to an impossible date, such as 30 February.
  const bool same = clock.tm_mday == given.tm_mday && clock.tm_mon == given.tm_mon - 1 &&
                    clock.tm_hour == given.tm_hour && clock.tm_min == given.tm_min &&
                    clock.tm_sec == given.tm_sec;
  if (!whole || !same) {
    throw UsageError(fmt::format(
        "\"{}\" is not a date; wanted one like 2024-07-26 or 2024-07-26T10:30:00", date));
  }
  return clock;
}

void check_argument(const std::string& name, const Json& value) {
  XRUN_CHECK(!is_reserved_argument(name),
             "\"{}\" is not an argument of a chat template and may not be set", name);
  if ((name != "tools" && name != "documents") || value.is_null()) return;
  XRUN_CHECK(value.is_array(), "\"{}\" is {}, wanted an array of objects", name, kind_text(value));
  for (const Json& item : value.as_array()) {
    XRUN_CHECK(item.is_object(), "an entry of \"{}\" is {}, wanted an object", name,
               kind_text(item));
  }
}

Rendering rendering_of(const jinja::Text& text, const std::vector<int64_t>& messages) {
  Rendering out;
  out.text = text.bytes;
  uint32_t begin = 0;
  uint32_t turn = 0;
  for (const jinja::MarkedRun& run : text.runs) {
    const bool generation = run.mark.turn != 0;
    // Equal neighbours merge, so that spans alternate.
    if (!out.spans.empty() && out.spans.back().origin == run.mark.origin &&
        out.spans.back().generation == generation) {
      out.spans.back().end = run.end;
    } else {
      // Turns count from 1; 0 is text outside every generation block.
      out.spans.push_back({begin, run.end, run.mark.origin, generation});
    }
    // Adjacent blocks are separate turns, although they share one span.
    if (generation && run.mark.turn != turn) {
      out.turns.push_back({begin, run.end});
      out.turn_messages.push_back(messages[run.mark.turn - 1]);
    }
    if (generation) out.turns.back().end = run.end;
    turn = run.mark.turn;
    begin = run.end;
  }
  return out;
}

// Returns the end of a message about a special token that the tokenizer lacks: the cause and the
// fix;
// "" for any other fault.
std::string lacking_token_hint(std::string_view fault, std::string_view template_name) {
  const bool is_own = template_name.starts_with("own") || template_name.starts_with("tagged:");
  for (const char* token : {"bos_token", "eos_token", "pad_token", "unk_token"}) {
    if (fault != fmt::format("'{}' is undefined", token)) continue;
    return fmt::format(
        ": this tokenizer has no such token{} give \"{}\" in its "
        "tokenizer_config.json",
        is_own ? ";"
               : ", so the template suits another one; use the tokenizer's own "
                 "(template \"auto\"), or",
        token);
  }
  return "";
}

class JinjaTemplate final : public ChatTemplate {
 public:
  JinjaTemplate(std::string source, std::string name, TemplateTokens tokens,
                const std::string& date)
      : source_(std::move(source)),
        name_(std::move(name)),
        tokens_(std::move(tokens)),
        clock_(clock_of(date)),
        tree_(parse()),
        given_(given_variables(tree_, tokens_)),
        messages_(tree_.symbol_of("messages")) {}

  Rendering render(const Json& messages, const Json& kwargs) const override {
    XRUN_CHECK(kwargs.is_null() || kwargs.is_object(),
               "the template's arguments are {}, wanted an object", kind_text(kwargs));
    // One per rendering: the tree is shared by threads, the variables are not.
    jinja::Interpreter interpreter(tree_, clock_);
    try {
      set_variables(interpreter, messages, kwargs);
      const jinja::TextPtr text = interpreter.render();
      Rendering rendering = rendering_of(*text, interpreter.turn_messages());
      rendering.lines = interpreter.take_lines();
      return rendering;
    } catch (const jinja::Fault& fault) {
      throw Error(fmt::format("chat template \"{}\", line {}: {}{}", name_, interpreter.line(),
                              fault.what(), lacking_token_hint(fault.what(), name_)));
    }
  }

  bool marks_generation() const override { return tree_.marks_generation; }
  const std::string& source() const override { return source_; }
  std::string name() const override { return name_; }

  std::string digest() const override {
    Hasher hasher;
    hasher.field("jinja", source_);
    for (const auto& [name, token] : tokens_) hasher.field(name, token);
    // Other templates keep their digest, and with it their cache, from day to day.
    if (source_.find("strftime_now") != std::string::npos) {
      char date[32];
      std::strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &clock_);
      hasher.field("date", date);
    }
    return hasher.hex();
  }

 private:
  jinja::Tree parse() const {
    try {
      return jinja::parse_template(source_);
    } catch (const jinja::SyntaxFault& fault) {
      throw Error(
          fmt::format("chat template \"{}\", line {}: {}", name_, fault.line(), fault.what()));
    }
  }

  // Variables shared by all renderings.
  static std::vector<std::pair<int, Value>> given_variables(const jinja::Tree& tree,
                                                            const TemplateTokens& tokens) {
    std::vector<std::pair<int, Value>> variables;
    for (const auto& [name, token] : tokens) {
      variables.emplace_back(tree.symbol_of(name), Value::text(token));
    }
    // transformers passes these three even if the caller gives none of them.
    variables.emplace_back(tree.symbol_of("tools"), Value::none());
    variables.emplace_back(tree.symbol_of("documents"), Value::none());
    variables.emplace_back(tree.symbol_of("add_generation_prompt"), Value::boolean(false));
    return variables;
  }

  void set_variables(jinja::Interpreter& interpreter, const Json& messages,
                     const Json& kwargs) const {
    jinja::RowValues values;
    // Borrowed, since renderings of many threads would contend for the reference counts.
    for (const auto& [symbol, value] : given_) interpreter.set_variable(symbol, value.borrowed());
    interpreter.set_messages(messages_, values.messages(messages));
    if (kwargs.is_null()) return;
    for (const auto& [name, value] : kwargs.as_object()) {
      check_argument(name, value);
      // An argument that the template never mentions needs no value.
      const int symbol = tree_.symbol_of(name);
      if (symbol >= 0) interpreter.set_variable(symbol, values.value(value));
    }
  }

  const std::string source_;
  const std::string name_;
  const TemplateTokens tokens_;
  const std::tm clock_;
  const jinja::Tree tree_;
  const std::vector<std::pair<int, Value>> given_;
  const int messages_;
};

}  // namespace

bool is_reserved_argument(std::string_view name) {
  // Parameters of apply_chat_template itself, which never reach a template.
  constexpr std::string_view kReserved[] = {"messages",
                                            "conversation",
                                            "chat_template",
                                            "tokenize",
                                            "padding",
                                            "truncation",
                                            "max_length",
                                            "return_tensors",
                                            "return_dict",
                                            "return_assistant_tokens_mask",
                                            "tokenizer_kwargs",
                                            "continue_final_message",
                                            "sanitize_control_tokens"};
  return std::find(std::begin(kReserved), std::end(kReserved), name) != std::end(kReserved);
}

std::shared_ptr<const ChatTemplate> make_jinja_template(std::string source, std::string name,
                                                        TemplateTokens tokens,
                                                        const std::string& date) {
  return std::make_shared<JinjaTemplate>(std::move(source), std::move(name), std::move(tokens),
                                         date);
}

}  // namespace xrun
