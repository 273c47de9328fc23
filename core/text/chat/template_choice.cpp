// Which template a setting means. What stands in for an unmarked template must render the same
// probes. A stock text of a known family is met again by the hash of its bytes, and is trusted
// then. Any other text is known by what it renders, or by the places at which it writes an answer;
// then every row is rendered by both.
//
// A new family is one file in core/text/chat/templates, or its places in template_marks.cpp; a stock
// text is one line in stock_templates.cpp.

#include <algorithm>
#include <filesystem>
#include <optional>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/suggest.h"
#include "core/text/chat/builtin_templates.h"
#include "core/text/chat/chat_template.h"
#include "core/text/chat/checked_template.h"
#include "core/text/chat/stock_templates.h"
#include "core/text/chat/template_marks.h"
#include "core/text/chat/template_probes.h"
#include "core/text/chat/tool_template.h"

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
  } catch (const Interrupted&) {
    throw;
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

// How to decide about a template that may lack marks.
struct MarkPolicy {
  const Tokenizer& tokenizer;
  const std::string& date;
  bool swap;            // for a marked copy, if there is one
  bool allow_unmarked;  // if there is none; else that is an error
};

// Decides about a template that may lack marks: itself, its marked copy, or an error. The notice
// has no head yet.
ResolvedTemplate with_marks(std::shared_ptr<const ChatTemplate> found, const std::string& whose,
                            const MarkPolicy& policy) {
  if (found->marks_generation()) return {found, whose};
  if (const StandIn other =
          policy.swap ? stand_in(found, policy.tokenizer, policy.date) : StandIn{};
      other.chat_template != nullptr) {
    return {other.chat_template, fmt::format("{} has no generation marks; using {}, {}", whose,
                                             other.chat_template->name(), other.why)};
  }
  // A template that fails on everything is known by nothing: a name that the tokenizer lacks.
  const std::optional<std::string> refusal = refusal_of_probes(*found);
  const std::string because =
      refusal ? fmt::format(" (it renders none of the probes: {})", *refusal) : "";
  XRUN_CHECK(policy.allow_unmarked,
             "{} has no {{% generation %}} marks and is not of a family known here (fingerprint "
             "{}){}, so nothing says what to train; name a template with marks: a file, or one of "
             "{}",
             whose, template_fingerprint(found->source()), because, joined_names());
  return {found, fmt::format("{}, without generation marks: there is no mask{}", whose, because)};
}

std::string quoted_names(const NamedTexts& templates) {
  std::string out;
  for (const auto& [name, text] : templates) {
    out += fmt::format("{}\"{}\"", out.empty() ? "" : ", ", name);
  }
  return out;
}

// One of the tokenizer's own templates.
ResolvedTemplate resolve_own(const std::string& name, const std::string& source,
                             const MarkPolicy& policy) {
  const bool plain = name == "default";
  auto own = make_jinja_template(source, plain ? "own" : "own:" + name,
                                 template_tokens(policy.tokenizer), policy.date);
  return with_marks(std::move(own),
                    plain ? "the tokenizer's own" : fmt::format("the tokenizer's own \"{}\"", name),
                    policy);
}

// One of the two templates of "auto": where it cannot be used only its rows are refused.
struct Half {
  ResolvedTemplate resolved;
  std::string failure;  // why it cannot be used, or ""
};

Half resolve_half(const std::string& name, const std::string* source, const std::string& missing,
                  const MarkPolicy& policy) {
  const bool plain = name == "default";
  try {
    XRUN_CHECK(source != nullptr, "{}", missing);
    return {resolve_own(name, *source, policy), ""};
  } catch (const Interrupted&) {
    throw;
  } catch (const Error& error) {
    const std::string own = plain ? "own" : "own:" + name;
    std::string notice = fmt::format(
        "none, {} are refused, since {}", plain ? "rows without tools" : "they",
        source == nullptr ? fmt::format("the tokenizer has none named \"{}\"", name)
                          : fmt::format("the tokenizer's own \"{}\" cannot be used", name));
    return {{make_refused_template(own, source == nullptr ? "" : *source, error.what()), notice},
            error.what()};
  }
}

ResolvedTemplate resolve_auto(const MarkPolicy& policy) {
  const NamedTexts& templates = policy.tokenizer.chat_templates();
  XRUN_CHECK(
      !templates.empty(),
      "the tokenizer has no chat template; name one of {} or a file (template = \"chatml\" in a "
      "recipe, --template chatml for a command)",
      joined_names());
  const std::string* plain = find_text(templates, "default");
  const std::string* tool_use = find_text(templates, "tool_use");
  if (plain != nullptr && tool_use == nullptr) return resolve_own("default", *plain, policy);
  const std::string no_plain = fmt::format(
      "the tokenizer has the chat templates {} and none named \"default\" for a row "
      "without tools; name one of them as the template",
      quoted_names(templates));
  XRUN_CHECK(tool_use != nullptr, "{}", no_plain);
  const Half rows = resolve_half("default", plain, no_plain, policy);
  const Half tools = resolve_half("tool_use", tool_use, "", policy);
  const Half& first = plain == nullptr ? tools : rows;
  XRUN_CHECK(rows.failure.empty() || tools.failure.empty(), "{}", first.failure);
  return {make_tool_template(rows.resolved.chat_template, tools.resolved.chat_template),
          fmt::format("{}; for rows with tools: {}", rows.resolved.notice, tools.resolved.notice)};
}

ResolvedTemplate resolve_file(const std::string& path, const MarkPolicy& policy) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) {
    const std::string near = nearest_name(path, builtin_template_names());
    throw UsageError(fmt::format("template \"{}\" is neither a file nor one of {}{}", path,
                                 joined_names(),
                                 near.empty() ? "" : fmt::format("; did you mean {}?", near)));
  }
  auto file = make_jinja_template(read_file(path, kMaxFileBytes), path,
                                  template_tokens(policy.tokenizer), policy.date);
  // Who asks for a file's text alone gets the file; who trains gets its marked copy, if there is
  // one.
  return with_marks(std::move(file), fmt::format("the file {}", path),
                    {policy.tokenizer, policy.date, !policy.allow_unmarked, policy.allow_unmarked});
}

ResolvedTemplate resolve_setting(const std::string& setting, const MarkPolicy& policy) {
  if (setting.empty() || setting == "auto") return resolve_auto(policy);
  if (const BuiltinTemplate* builtin = find_builtin(setting)) {
    return {make_builtin(*builtin, setting, policy.tokenizer, policy.date),
            fmt::format("{} (built in)", setting)};
  }
  if (const std::string* own = find_text(policy.tokenizer.chat_templates(), setting)) {
    return resolve_own(setting, *own, policy);
  }
  return resolve_file(setting, policy);
}

}  // namespace

TemplateTokens template_tokens(const Tokenizer& tokenizer) { return tokenizer.named_tokens(); }

std::vector<std::string> builtin_template_names() {
  std::vector<std::string> names;
  for (const BuiltinTemplate& builtin : builtin_templates()) names.emplace_back(builtin.name);
  std::sort(names.begin(), names.end());
  return names;
}

ResolvedTemplate resolve_template(const Tokenizer& tokenizer, const std::string& setting,
                                  const std::string& date, bool allow_unmarked) {
  ResolvedTemplate out = resolve_setting(setting, {tokenizer, date, true, allow_unmarked});
  out.notice = "template: " + out.notice;
  return out;
}

}  // namespace xrun
