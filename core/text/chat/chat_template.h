#pragma once
// Chat templates: messages to text that knows, byte by byte, where it came from and what is
// trained.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/json.h"
#include "core/text/jinja/rendering.h"
#include "core/text/tokenizer/tokenizer.h"

namespace xrun {

// A template of any language. Immutable; any number of threads may render at once.
class ChatTemplate {
 public:
  virtual ~ChatTemplate() = default;
  // Renders an array of messages. `kwargs` is an object (or null): tools, documents,
  // add_generation_prompt and whatever else the template reads, as transformers passes them.
  // Throws Error naming template, line and what went wrong; a template's own raise_exception
  // message passes as it is behind them.
  virtual Rendering render(const Json& messages, const Json& kwargs) const = 0;
  // Whether the template has generation marks; without them nothing is ever trained.
  virtual bool marks_generation() const = 0;
  virtual const std::string& source() const = 0;
  // Returns the template that renders a row of these kwargs: itself, or one that it chooses.
  virtual const ChatTemplate& chosen(const Json& kwargs) const {
    (void)kwargs;
    return *this;
  }
  // "own", the file's path, "chatml", "tagged:qwen2.5", ...
  virtual std::string name() const = 0;
  // Returns a hash over everything but messages and kwargs that decides the text: source, special
  // tokens, and the date where the template reads it. Part of cache keys.
  virtual std::string digest() const = 0;
};

// Variables of the template's environment by name: bos_token and its like. Their text counts as the
// template's own, so that it may become special tokens.
using TemplateTokens = NamedTexts;

// Returns the special tokens that a tokenizer gives its template: bos_token, eos_token, and every
// other that its files name; those that it does not have stay undefined, as in transformers.
TemplateTokens template_tokens(const Tokenizer& tokenizer);

// Whether a name is an argument of transformers' apply_chat_template itself: a row that sets one
// does not mean the template.
bool is_reserved_argument(std::string_view name);

// Compiles a Jinja template as transformers would. `date` ("2024-07-26" or "2024-07-26T10:30:00")
// is what strftime_now reads; empty is today at midnight, read once, here.
// Throws Error with name and line if the source does not parse, or if the date does not.
std::shared_ptr<const ChatTemplate> make_jinja_template(std::string source, std::string name,
                                                        TemplateTokens tokens,
                                                        const std::string& date = "");

// A template and the sentence that says which it is and why; to be shown to the user.
struct ResolvedTemplate {
  std::shared_ptr<const ChatTemplate> chat_template;
  std::string notice;
};

// Finds the template of a setting: "auto" (the tokenizer's own, or our tagged variant of it where
// it is a known family's without generation marks), a built-in name ("chatml"), the name of one of
// the tokenizer's own ("rag"), or a file. "auto" takes the tokenizer's "default", and its
// "tool_use" for rows with tools. Throws Error with the way out if the tokenizer has no template,
// if its template is unmarked and unknown (unless `allow_unmarked`), or if the setting names
// nothing. Of these two one that is missing or cannot be used refuses its own rows only.
ResolvedTemplate resolve_template(const Tokenizer& tokenizer, const std::string& setting = "auto",
                                  const std::string& date = "", bool allow_unmarked = false);

// Returns the names of the built-in templates, in alphabetical order.
std::vector<std::string> builtin_template_names();

}  // namespace xrun
