// Resolves a setting to a template. A marked variant of an unmarked template must render the probes
// alike. A variant known by fingerprint is then trusted; with one known only by behaviour, or made
// by edits of an unknown text, every row is rendered by both.
//
// A new family is one file in core/text/chat/templates or one list of edits in template_marks.cpp;
// a published text is one line of template_families.cpp.

#include <algorithm>
#include <filesystem>
#include <optional>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/strings.h"
#include "core/text/chat/chat_template.h"
#include "core/text/chat/combined_templates.h"
#include "core/text/chat/fitting_templates.h"
#include "core/text/chat/template_families.h"
#include "core/text/chat/template_marks.h"
#include "core/text/chat/template_probes.h"

namespace xrun {

namespace {

constexpr uint64_t kMaxFileBytes = uint64_t{4} << 20;

// "tagged:" is older than the word "marked". The name is in the keys of token caches, so another
// spelling would build them again.
std::string marked_name(std::string_view family) { return fmt::format("tagged:{}", family); }

std::string joined_names() { return joined(builtin_template_names(), ", "); }

std::shared_ptr<const ChatTemplate> make_builtin(const BuiltinTemplate& builtin,
                                                 const std::string& name,
                                                 const Tokenizer& tokenizer,
                                                 const std::string& date) {
  return make_jinja_template(std::string(builtin.source), name, template_tokens(tokenizer), date);
}

// The template that replaces an unmarked one; null if there is none.
struct MarkedVariant {
  std::shared_ptr<const ChatTemplate> chat_template;
  std::string why;
};

MarkedVariant known_stock(const ChatTemplate& stock, const Tokenizer& tokenizer,
                          const std::string& date) {
  const std::string_view family = stock_family(stock.source());
  const BuiltinTemplate* builtin = find_builtin(family);
  if (builtin == nullptr) return {};
  auto marked = make_builtin(*builtin, marked_name(family), tokenizer, date);
  // The text is known, yet a built-in that spells out its special tokens may not fit this
  // tokenizer.
  if (!renders_alike(stock, *marked)) return {};
  return {marked, "our marked copy, which renders the same text"};
}

MarkedVariant marked_text(const std::shared_ptr<const ChatTemplate>& stock,
                          const Tokenizer& tokenizer, const std::string& date) {
  const std::optional<MarkedSource> source = mark_source(stock->source());
  if (!source) return {};
  try {
    auto marked = make_jinja_template(source->text, marked_name(source->family),
                                      template_tokens(tokenizer), date);
    if (!renders_alike(*stock, *marked)) return {};
    // Our edits fit a text that nobody published: compare every row.
    if (stock_family(stock->source()) != source->family) {
      marked = make_checked_template(stock, marked);
    }
    return {marked, "the same template with our marks in it"};
  } catch (const Error&) {
    return {};  // the marks break the syntax
  }
}

MarkedVariant same_behaviour(const std::shared_ptr<const ChatTemplate>& stock,
                             const Tokenizer& tokenizer, const std::string& date) {
  for (const BuiltinTemplate& builtin : builtin_templates()) {
    auto marked = make_builtin(builtin, marked_name(builtin.name), tokenizer, date);
    // Probes are only a sample of the rows, so the check stays.
    if (!renders_alike(*stock, *marked)) continue;
    return {make_checked_template(stock, marked),
            "our marked template that renders the same text on all probes; each row is compared"};
  }
  return {};
}

MarkedVariant marked_variant(const std::shared_ptr<const ChatTemplate>& stock,
                             const Tokenizer& tokenizer, const std::string& date) {
  // From the strongest evidence to the weakest: the text is known, our edits apply to it, or it
  // behaves like a template of ours.
  MarkedVariant found = known_stock(*stock, tokenizer, date);
  if (found.chat_template == nullptr) found = marked_text(stock, tokenizer, date);
  if (found.chat_template == nullptr) found = same_behaviour(stock, tokenizer, date);
  return found;
}

struct MarkPolicy {
  const Tokenizer& tokenizer;
  const std::string& date;
  bool swap;            // replace an unmarked template by its marked variant, if there is one
  bool allow_unmarked;  // accept a template without marks; false makes it an error
};

// Returns a template or its marked variant, or throws, as the policy says. The notice still lacks
// the prefix "template: ".
ResolvedTemplate with_marks(std::shared_ptr<const ChatTemplate> found, const std::string& whose,
                            const MarkPolicy& policy) {
  if (found->marks_generation()) return {found, whose};
  if (const MarkedVariant variant =
          policy.swap ? marked_variant(found, policy.tokenizer, policy.date) : MarkedVariant{};
      variant.chat_template != nullptr) {
    return {variant.chat_template, fmt::format("{} has no generation marks; using {}, {}", whose,
                                               variant.chat_template->name(), variant.why)};
  }
  // A template that fails on every probe needs something that the tokenizer lacks: show its error.
  const std::optional<std::string> refusal = refusal_of_probes(*found);
  const std::string because =
      refusal ? fmt::format(" (it fails on every probe: {})", *refusal) : "";
  XRUN_CHECK(
      policy.allow_unmarked,
      "{} has no {{% generation %}} marks and belongs to no known family (fingerprint {}){}, "
      "so nothing marks what to train; name a template with marks: a file, or one of {}",
      whose, template_fingerprint(found->source()), because, joined_names());
  return {found, fmt::format("{}, without generation marks: there is no mask{}", whose, because)};
}

std::string quoted_names(const NamedTexts& templates) {
  std::string out;
  for (const auto& [name, text] : templates) {
    add_item(out, fmt::format("\"{}\"", name));
  }
  return out;
}

// One of the tokenizer's own templates.
ResolvedTemplate resolve_own(const std::string& name, const std::string& source,
                             const MarkPolicy& policy) {
  // transformers gives this name to the only template of a tokenizer.
  const bool plain = name == "default";
  auto own = make_jinja_template(source, plain ? "own" : "own:" + name,
                                 template_tokens(policy.tokenizer), policy.date);
  return with_marks(std::move(own),
                    plain ? "the tokenizer's own" : fmt::format("the tokenizer's own \"{}\"", name),
                    policy);
}

// One of the two templates of "auto". If it cannot be used, only its rows are refused.
struct AutoTemplate {
  ResolvedTemplate resolved;
  std::string failure;  // why it cannot be used, or ""
};

AutoTemplate resolve_for_rows(const std::string& name, const std::string* source,
                              const std::string& missing, const MarkPolicy& policy) {
  const bool plain = name == "default";
  try {
    XRUN_CHECK(source != nullptr, "{}", missing);
    return {resolve_own(name, *source, policy), ""};
  } catch (const UsageError&) {
    throw;  // an invalid date is the caller's fault, not the template's
  } catch (const Error& error) {
    const std::string own = plain ? "own" : "own:" + name;
    std::string notice = fmt::format(
        "none, {} are refused because {}", plain ? "rows without tools" : "they",
        source == nullptr ? fmt::format("the tokenizer has none named \"{}\"", name)
                          : fmt::format("the tokenizer's own \"{}\" cannot be used", name));
    return {{make_refused_template(own, source == nullptr ? "" : *source, error.what()), notice},
            error.what()};
  }
}

std::string no_template_text(const Tokenizer& tokenizer) {
  const std::vector<std::string> fitting = fitting_templates(tokenizer);
  return fmt::format(
      "the tokenizer has no chat template; name one of {} or a file: --set template={} for a "
      "recipe, --template {} for another command",
      fitting.empty() ? joined_names()
                      : joined(fitting, ", ") + ", which end turns with its special tokens,",
      fitting.empty() ? "chatml" : fitting.front(), fitting.empty() ? "chatml" : fitting.front());
}

ResolvedTemplate resolve_auto(const MarkPolicy& policy) {
  const NamedTexts& templates = policy.tokenizer.chat_templates();
  if (templates.empty()) throw Error(no_template_text(policy.tokenizer));
  const std::string* plain = find_text(templates, "default");
  const std::string* tool_use = find_text(templates, "tool_use");
  // One template for all rows.
  if (plain != nullptr && tool_use == nullptr) return resolve_own("default", *plain, policy);
  const std::string no_plain = fmt::format(
      "the tokenizer has the chat templates {} but none named \"default\" for rows without tools; "
      "name one of them as the template",
      quoted_names(templates));
  XRUN_CHECK(tool_use != nullptr, "{}", no_plain);
  const AutoTemplate rows = resolve_for_rows("default", plain, no_plain, policy);
  // Never missing: the check above would have thrown.
  const AutoTemplate tools = resolve_for_rows("tool_use", tool_use, "", policy);
  // Neither can be used: the message is that of the template for rows without tools, if it exists.
  const AutoTemplate& first = plain == nullptr ? tools : rows;
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
  // Rendering alone uses the file itself; training uses its marked variant, if there is one.
  return with_marks(std::move(file), fmt::format("the file {}", path),
                    {policy.tokenizer, policy.date, !policy.allow_unmarked, policy.allow_unmarked});
}

ResolvedTemplate resolve_setting(const std::string& setting, const MarkPolicy& policy) {
  if (setting.empty() || setting == "auto") return resolve_auto(policy);
  // Built-in names win over the tokenizer's and over files; ./chatml is always the file.
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
