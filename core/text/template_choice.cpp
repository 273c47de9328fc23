// Which template a setting means. What stands in for an unmarked template must render the same
// probes. A stock text of a known family is met again by its fingerprint: the hash of its text with
// each run of white space as one blank, and is trusted then. Any other text is known by what it
// renders, or by the places at which it writes an answer; then every row is rendered by both.
//
// A new family is one file in core/text/templates, or its places in template_marks.cpp; a stock
// text is one line in stock_templates.cpp.

#include <algorithm>
#include <filesystem>
#include <optional>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/suggest.h"
#include "core/text/builtin_templates.h"
#include "core/text/chat_template.h"
#include "core/text/checked_template.h"
#include "core/text/stock_templates.h"
#include "core/text/template_marks.h"
#include "core/text/template_probes.h"

namespace xrun {

namespace {

constexpr uint64_t kMaxFileBytes = uint64_t{4} << 20;

const BuiltinTemplate* find_builtin(std::string_view name) {
  for (const BuiltinTemplate& builtin : builtin_templates()) {
    if (builtin.name == name) return &builtin;
  }
  return nullptr;
}

std::string tagged_name(std::string_view family) { return fmt::format("tagged:{}", family); }

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

// What stands in for an unmarked template; null if there is nothing.
struct StandIn {
  std::shared_ptr<const ChatTemplate> chat_template;
  std::string why;
};

StandIn known_stock(const ChatTemplate& stock, const Tokenizer& tokenizer,
                    const std::string& date) {
  const std::string_view family = stock_family(stock.source());
  const BuiltinTemplate* builtin = find_builtin(family);
  if (builtin == nullptr) return {};
  auto tagged = make_builtin(*builtin, tagged_name(family), tokenizer, date);
  if (!renders_alike(stock, *tagged)) return {};
  return {tagged, "our marked copy, which renders the same text"};
}

StandIn marked_text(const std::shared_ptr<const ChatTemplate>& stock, const Tokenizer& tokenizer,
                    const std::string& date) {
  const std::optional<MarkedSource> marked = mark_source(stock->source());
  if (!marked) return {};
  try {
    auto tagged = make_jinja_template(marked->text, tagged_name(marked->family),
                                      template_tokens(tokenizer), date);
    if (!renders_alike(*stock, *tagged)) return {};
    if (stock_family(stock->source()) != marked->family) {
      tagged = make_checked_template(stock, tagged);
    }
    return {tagged, "the same template with our marks in it"};
  } catch (const Error&) {
    return {};  // the marks do not fit after all
  }
}

StandIn same_behaviour(const std::shared_ptr<const ChatTemplate>& stock, const Tokenizer& tokenizer,
                       const std::string& date) {
  for (const BuiltinTemplate& builtin : builtin_templates()) {
    auto tagged = make_builtin(builtin, tagged_name(builtin.name), tokenizer, date);
    if (!renders_alike(*stock, *tagged)) continue;
    return {make_checked_template(stock, tagged),
            "our marked template that renders the same text on all probes; each row is compared"};
  }
  return {};
}

StandIn stand_in(const std::shared_ptr<const ChatTemplate>& stock, const Tokenizer& tokenizer,
                 const std::string& date) {
  StandIn found = known_stock(*stock, tokenizer, date);
  if (found.chat_template == nullptr) found = marked_text(stock, tokenizer, date);
  if (found.chat_template == nullptr) found = same_behaviour(stock, tokenizer, date);
  return found;
}

// Decides about a template that may lack marks: itself, its marked copy, or an error.
ResolvedTemplate with_marks(std::shared_ptr<const ChatTemplate> found, const std::string& whose,
                            const Tokenizer& tokenizer, const std::string& date, bool swap,
                            bool allow_unmarked) {
  if (found->marks_generation()) return {found, fmt::format("template: {}", whose)};
  if (const StandIn other = swap ? stand_in(found, tokenizer, date) : StandIn{};
      other.chat_template != nullptr) {
    return {other.chat_template, fmt::format("template: {} has no generation marks; using {}, {}",
                                             whose, other.chat_template->name(), other.why)};
  }
  XRUN_CHECK(allow_unmarked,
             "{} has no {{% generation %}} marks and is not of a family known here (fingerprint "
             "{}), so nothing says what to train; name a template with marks: a file, or one of {}",
             whose, template_fingerprint(found->source()), joined_names());
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
