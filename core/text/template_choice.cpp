// Which template a setting means. A family is known by the fingerprint of its stock template: the
// hash of its text with each run of white space as one blank. The text that fits is not trusted
// alone: both templates must render the same probe conversations, or the tokenizer's own counts as
// unknown.
//
// A new family is one file in core/text/templates and one line in kFamilies.

#include <algorithm>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/suggest.h"
#include "core/text/builtin_templates.h"
#include "core/text/chat_template.h"

namespace xrun {

namespace {

constexpr uint64_t kMaxFileBytes = uint64_t{4} << 20;

struct Family {
  std::string_view fingerprint;  // of the stock template
  std::string_view builtin;      // our copy of it with generation marks
};

constexpr Family kFamilies[] = {
    {"7a128e0473e4be90846f9032c2079ea2", "chatml"},
    {"e79efd59933163c680a249ebcbf915a8", "chatml"},
    {"5cc730147bc3d550018fc13eb46e7703", "llama-2"},
    {"d8195f5c3269144a67cf150b21611898", "llama-3.1"},
    {"0022ce603296a2e339706e25f86f6d8c", "llama-3.2"},
    {"9742b62dde79126564ffe80b2cb8b63b", "llama-3"},
    {"ffcbdd97212192ce6ccc27d79cf50115", "qwen2.5"},
    {"0b1d9fb5accc95c6365cf5ae0cde932c", "qwen3"},
    {"d6d9c64af90b83f04eb16961cf1a8f56", "smollm2"},
};

std::string fingerprint(std::string_view source) {
  std::string text;
  for (char c : source) {
    const bool blank = c == ' ' || (c >= '\t' && c <= '\r');
    if (!blank)
      text += c;
    else if (!text.empty() && text.back() != ' ')
      text += ' ';
  }
  if (text.ends_with(' ')) text.pop_back();
  return hash_hex(text);
}

const BuiltinTemplate* find_builtin(std::string_view name) {
  for (const BuiltinTemplate& builtin : builtin_templates()) {
    if (builtin.name == name) return &builtin;
  }
  return nullptr;
}

std::string joined_names() {
  std::string out;
  for (const std::string& name : builtin_template_names()) {
    out += (out.empty() ? "" : ", ") + name;
  }
  return out;
}

std::shared_ptr<const ChatTemplate> make_builtin(const BuiltinTemplate& builtin,
                                                 const std::string& name,
                                                 const Tokenizer& tokenizer,
                                                 const std::string& date) {
  return make_jinja_template(std::string(builtin.source), name, template_tokens(tokenizer), date);
}

// The text, or the word that it failed: what a probe is compared by.
std::string probe_text(const ChatTemplate& chat_template, const Json& messages,
                       const Json& kwargs) {
  try {
    return chat_template.render(messages, kwargs).text;
  } catch (const Error&) {
    return "\x01";  // no text has this
  }
}

bool renders_alike(const ChatTemplate& a, const ChatTemplate& b) {
  static const Json kProbes = parse_json(R"json([
    [{"role": "user", "content": "\n q "}, {"role": "assistant", "content": " a\n"}],
    [{"role": "system", "content": "s"}, {"role": "user", "content": "q"},
     {"role": "assistant", "content": "a"}, {"role": "user", "content": "r"},
     {"role": "assistant", "content": "<think>t</think>b"}],
    [{"role": "user", "content": "q"}, {"role": "assistant", "content": "", "tool_calls": [
      {"type": "function", "function": {"name": "f", "arguments": {"x": 1}}}]},
     {"role": "tool", "content": "y"}]
  ])json",
                                         "probes");
  const Json prompted = Json(Json::Object{{"add_generation_prompt", true}});
  return std::all_of(kProbes.as_array().begin(), kProbes.as_array().end(), [&](const Json& probe) {
    return probe_text(a, probe, {}) == probe_text(b, probe, {}) &&
           probe_text(a, probe, prompted) == probe_text(b, probe, prompted);
  });
}

// Returns our marked copy of an unmarked template, or null if its family is not known.
std::shared_ptr<const ChatTemplate> tagged_copy(const ChatTemplate& stock,
                                                const Tokenizer& tokenizer,
                                                const std::string& date) {
  const std::string print = fingerprint(stock.source());
  for (const Family& family : kFamilies) {
    if (family.fingerprint != print) continue;
    const BuiltinTemplate* builtin = find_builtin(family.builtin);
    XRUN_CHECK(builtin != nullptr, "the built-in template {} is missing", family.builtin);
    auto tagged = make_builtin(*builtin, fmt::format("tagged:{}", family.builtin), tokenizer, date);
    if (renders_alike(stock, *tagged)) return tagged;
  }
  return nullptr;
}

// Decides about a template that may lack marks: itself, its marked copy, or an error.
ResolvedTemplate with_marks(std::shared_ptr<const ChatTemplate> found, const std::string& whose,
                            const Tokenizer& tokenizer, const std::string& date, bool swap,
                            bool allow_unmarked) {
  if (found->marks_generation()) return {found, fmt::format("template: {}", whose)};
  if (auto tagged = swap ? tagged_copy(*found, tokenizer, date) : nullptr) {
    return {tagged, fmt::format("template: {} has no generation marks; using {}, our marked copy, "
                                "which renders the same text",
                                whose, tagged->name())};
  }
  XRUN_CHECK(allow_unmarked,
             "{} has no {{% generation %}} marks and is not of a family known here (fingerprint "
             "{}), so nothing says what to train; name a template with marks: a file, or one of {}",
             whose, fingerprint(found->source()), joined_names());
  return {found, fmt::format("template: {}, without generation marks: there is no mask", whose)};
}

}  // namespace

TemplateTokens template_tokens(const Tokenizer& tokenizer) {
  TemplateTokens tokens;
  const std::pair<const char*, const std::string&> named[] = {
      {"bos_token", tokenizer.bos_token()},
      {"eos_token", tokenizer.eos_token()},
      {"unk_token", tokenizer.unk_token()},
      {"pad_token", tokenizer.pad_token()},
  };
  for (const auto& [name, token] : named) {
    if (!token.empty()) tokens.emplace_back(name, token);
  }
  return tokens;
}

std::vector<std::string> builtin_template_names() {
  std::vector<std::string> names;
  for (const BuiltinTemplate& builtin : builtin_templates()) names.emplace_back(builtin.name);
  std::sort(names.begin(), names.end());
  return names;
}

ResolvedTemplate resolve_template(const Tokenizer& tokenizer, const std::string& setting,
                                  const std::string& date, bool allow_unmarked) {
  if (setting.empty() || setting == "auto") {
    XRUN_CHECK(
        !tokenizer.chat_template().empty(),
        "the tokenizer has no chat template; name one of {} or a file (template = \"chatml\" in a "
        "recipe, --template chatml for a command)",
        joined_names());
    auto own =
        make_jinja_template(tokenizer.chat_template(), "own", template_tokens(tokenizer), date);
    return with_marks(std::move(own), "the tokenizer's own", tokenizer, date, true, allow_unmarked);
  }
  if (const BuiltinTemplate* builtin = find_builtin(setting)) {
    return {make_builtin(*builtin, setting, tokenizer, date),
            fmt::format("template: {} (built in)", setting)};
  }
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(setting, ignored)) {
    const std::string near = nearest_name(setting, builtin_template_names());
    throw UsageError(fmt::format("template \"{}\" is neither a file nor one of {}{}", setting,
                                 joined_names(),
                                 near.empty() ? "" : fmt::format("; did you mean {}?", near)));
  }
  auto file = make_jinja_template(read_file(setting, kMaxFileBytes), setting,
                                  template_tokens(tokenizer), date);
  // Who asks for a file's text alone gets the file; who trains gets its marked copy, if there is
  // one.
  return with_marks(std::move(file), fmt::format("the file {}", setting), tokenizer, date,
                    !allow_unmarked, allow_unmarked);
}

}  // namespace xrun
