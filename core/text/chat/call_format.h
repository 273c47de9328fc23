#pragma once
// The forms in which chat templates write tool calls, one per family, as data.

#include <span>
#include <string_view>

#include "core/base/json.h"
#include "core/text/chat/chat_template.h"

namespace xrun {

// The form of the text between the marks of a call.
enum class CallShape {
  kJson,      // {"name": "f", "arguments": {"a": 1}}, or a list of such objects
  kNamed,     // the name, then the arguments as a JSON object; or as kJson
  kTagged,    // the name, then each argument in tags
  kLiterals,  // f(a=1, b='x') or f{a:1,b:'x'}, or a list of such calls; or as kJson
};

// The marks that a family writes around a call and its parts; "" if it has no such mark.
struct CallFormat {
  std::string_view family;
  CallShape shape;
  // Around one call or one list. Without `close` a call ends at the next `open` or with the turn.
  // Without `open` the whole turn is the call. Some models write `other_open` in place of `open`.
  std::string_view open = {}, close = {}, other_open = {};
  std::string_view name_open = {}, name_close = {};
  std::string_view id_open = {};
  std::string_view key_open = {}, key_close = {};      // kTagged
  std::string_view value_open = {}, value_close = {};  // of each argument (kTagged), or of all
  bool value_lines = false;  // kTagged: a line feed follows key_close and precedes value_close
};

// Returns all forms that parse_calls reads.
std::span<const CallFormat> call_formats();

// Returns the form of a template, or null if it writes calls in a form that none of ours reads:
//   - a template that writes calls has the form that reads a rendered call back;
//   - one that writes none has the form that its family's models are documented to write;
//   - any other has the form of Hermes, which prompts ask for most often.
//   kwargs  the arguments with which the template renders
const CallFormat* call_format_of(const ChatTemplate& chat_template, const Json& kwargs);

}  // namespace xrun
