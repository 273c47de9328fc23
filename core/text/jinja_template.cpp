// Chat templates in Jinja: messages and arguments as transformers' apply_chat_template hands them
// to the template, and the rope that comes out as spans.

#include <algorithm>
#include <ctime>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/text/chat_template.h"
#include "core/text/jinja_interpreter.h"

namespace xrun {

namespace {

using jinja::Value;

std::tm clock_of(const std::string& date) {
  std::tm clock{};
  clock.tm_isdst = -1;
  if (date.empty()) {
    const std::time_t now = std::time(nullptr);
    localtime_r(&now, &clock);
    clock.tm_hour = clock.tm_min = clock.tm_sec = 0;
    return clock;
  }
  int used = 0;
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
  // timegm fills in the day of the week and of the year, and shows what is no date.
  if (whole) timegm(&clock);
  const bool same = clock.tm_mday == given.tm_mday && clock.tm_mon == given.tm_mon - 1 &&
                    clock.tm_hour == given.tm_hour && clock.tm_min == given.tm_min &&
                    clock.tm_sec == given.tm_sec;
  if (!whole || !same) {
    throw UsageError(
        fmt::format("\"{}\" is no date; wanted one like 2024-07-26 or 2024-07-26T10:30:00", date));
  }
  return clock;
}

// Reasoning goes by three names; every template finds it under the one that it reads.
void alias_reasoning(Json& message) {
  const Json* reasoning = nullptr;
  for (std::string_view name : {"reasoning_content", "thinking", "reasoning"}) {
    if (reasoning == nullptr) reasoning = message.find(name);
  }
  if (reasoning == nullptr) return;
  const Json value = *reasoning;
  if (message.find("thinking") == nullptr) {
    Json::Object& members = message.as_object();
    members.insert(members.begin(), {"thinking", value});
  }
  message.set("reasoning_content", value);
}

Json normalise(const Json& messages) {
  XRUN_CHECK(messages.is_array(), "messages is {}, wanted an array", messages.kind_name());
  XRUN_CHECK(messages.size() > 0, "the conversation is empty; wanted at least one message");
  Json out = Json::array();
  for (const Json& message : messages.as_array()) {
    XRUN_CHECK(message.is_object(), "message {} is {}, wanted an object", out.size() + 1,
               message.kind_name());
    Json::Object kept;
    for (const auto& [key, value] : message.as_object()) {
      if (!value.is_null()) kept.emplace_back(key, value);
    }
    Json normal(std::move(kept));
    alias_reasoning(normal);
    out.push_back(std::move(normal));
  }
  return out;
}

void check_argument(const std::string& name, const Json& value) {
  XRUN_CHECK(!is_reserved_argument(name),
             "\"{}\" is no argument of a chat template and may not be set", name);
  if ((name != "tools" && name != "documents") || value.is_null()) return;
  XRUN_CHECK(value.is_array(), "\"{}\" is {}, wanted an array of objects", name, value.kind_name());
  for (const Json& item : value.as_array()) {
    XRUN_CHECK(item.is_object(), "an entry of \"{}\" is {}, wanted an object", name,
               item.kind_name());
  }
}

Rendering rendering_of(const jinja::Text& text) {
  Rendering out;
  out.text = text.bytes;
  uint32_t begin = 0;
  uint32_t turn = 0;
  for (const jinja::Run& run : text.runs) {
    const bool generation = run.mark.turn != 0;
    if (!out.spans.empty() && out.spans.back().origin == run.mark.origin &&
        out.spans.back().generation == generation) {
      out.spans.back().end = run.end;
    } else {
      out.spans.push_back({begin, run.end, run.mark.origin, generation});
    }
    if (generation && run.mark.turn != turn) out.turns.push_back({begin, run.end});
    if (generation) out.turns.back().end = run.end;
    turn = run.mark.turn;
    begin = run.end;
  }
  return out;
}

class JinjaTemplate final : public ChatTemplate {
 public:
  JinjaTemplate(std::string source, std::string name, TemplateTokens tokens,
                const std::string& date)
      : source_(std::move(source)),
        name_(std::move(name)),
        tokens_(std::move(tokens)),
        clock_(clock_of(date)),
        tree_(parse()) {}

  Rendering render(const Json& messages, const Json& kwargs) const override {
    const Json normal = normalise(messages);
    XRUN_CHECK(kwargs.is_null() || kwargs.is_object(),
               "the template's arguments are {}, wanted an "
               "object",
               kwargs.kind_name());
    jinja::Interpreter interpreter(tree_, clock_);
    try {
      set_variables(interpreter, normal, kwargs);
      return rendering_of(*interpreter.render());
    } catch (const jinja::Fault& fault) {
      throw Error(fmt::format("chat template \"{}\", line {}: {}", name_, interpreter.line(),
                              fault.what()));
    }
  }

  bool marks_generation() const override { return tree_.marks_generation; }
  const std::string& source() const override { return source_; }
  std::string name() const override { return name_; }

  std::string digest() const override {
    Hasher hasher;
    hasher.field("jinja", source_);
    for (const auto& [name, token] : tokens_) hasher.field(name, token);
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

  void set_variables(jinja::Interpreter& interpreter, const Json& messages,
                     const Json& kwargs) const {
    for (const auto& [name, token] : tokens_) interpreter.set_variable(name, Value::text(token));
    interpreter.set_variable("messages", jinja::value_of_json(messages, Origin::kMessage));
    interpreter.set_variable("tools", Value::none());
    interpreter.set_variable("documents", Value::none());
    interpreter.set_variable("add_generation_prompt", Value::boolean(false));
    if (kwargs.is_null()) return;
    for (const auto& [name, value] : kwargs.as_object()) {
      check_argument(name, value);
      interpreter.set_variable(name, jinja::value_of_json(value, Origin::kMessage));
    }
  }

  const std::string source_;
  const std::string name_;
  const TemplateTokens tokens_;
  const std::tm clock_;
  const jinja::Tree tree_;
};

}  // namespace

bool is_reserved_argument(std::string_view name) {
  constexpr std::string_view kReserved[] = {"messages",
                                            "conversation",
                                            "chat_template",
                                            "tokenize",
                                            "padding",
                                            "truncation",
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
