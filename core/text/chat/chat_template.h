#pragma once
// Chat templates: messages to text, with origin and generation spans for every byte.

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

// A template in Jinja or Lua. Immutable; any number of threads may render at once.
class ChatTemplate {
 public:
  virtual ~ChatTemplate() = default;
  // Renders an array of messages. `kwargs` is an object (or null): tools, documents,
  // add_generation_prompt and anything else that the template reads, as transformers passes them.
  // Throws Error with the template, the line and the cause, which may be the message of the
  // template's own raise_exception.
  virtual Rendering render(const Json& messages, const Json& kwargs) const = 0;
  // Returns true if the template has generation marks. Without them nothing is trained.
  virtual bool marks_generation() const = 0;
  virtual const std::string& source() const = 0;
  // Returns the template that renders a row with these kwargs: itself, or one that it holds.
  virtual const ChatTemplate& chosen(const Json& kwargs) const {
    (void)kwargs;
    return *this;
  }
  // "own", the file's path, "chatml", "tagged:qwen2.5", ...
  virtual std::string name() const = 0;
  // Returns a hash of everything besides messages and kwargs that determines the text: source,
  // special tokens, and the date if the template reads it. Part of cache keys.
  virtual std::string digest() const = 0;
};

// Variables of the template's environment by name, such as bos_token. Their text counts as the
// template's own, so it may become special tokens.
using TemplateTokens = NamedTexts;

// Returns the special tokens that a tokenizer passes to its template: bos_token, eos_token, and all
// others that its files name. Missing ones stay undefined, as in transformers.
TemplateTokens template_tokens(const Tokenizer& tokenizer);

// Returns true for an argument of transformers' apply_chat_template itself, which a row may not
// set.
bool is_reserved_argument(std::string_view name);

// Compiles a Jinja template as transformers would. strftime_now reads `date` ("2024-07-26" or
// "2024-07-26T10:30:00"); empty is today at midnight, fixed by this call.
// Throws Error with name and line if the source does not parse, UsageError if the date does not.
std::shared_ptr<const ChatTemplate> make_jinja_template(std::string source, std::string name,
                                                        TemplateTokens tokens,
                                                        const std::string& date = "");

struct ResolvedTemplate {
  std::shared_ptr<const ChatTemplate> chat_template;
  std::string notice;  // one sentence for the user: which template was chosen, and why
};

// Resolves a setting: "auto" (the tokenizer's own template, or the marked variant of an unmarked
// one of a known family), a built-in name ("chatml"), the name of one of the tokenizer's templates
// ("rag"), or a file. "auto" uses the tokenizer's "default", and its "tool_use" for rows with
// tools; if one of the two is missing or unusable, only its rows are refused. Throws, with the fix,
//   Error       the tokenizer has no template, or it is unmarked and unknown (unless
//               `allow_unmarked`)
//   UsageError  the setting names nothing, or `date` is not a date
ResolvedTemplate resolve_template(const Tokenizer& tokenizer, const std::string& setting = "auto",
                                  const std::string& date = "", bool allow_unmarked = false);

// Returns the names of the built-in templates, in alphabetical order.
std::vector<std::string> builtin_template_names();

}  // namespace xrun
