// A template fits if a rendered answer has a trained special token. EOS counts even if the
// tokenizer does not call it special.

#include "core/text/chat/fitting_templates.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/text/chat/chat_tokens.h"
#include "core/text/chat/template_families.h"

namespace xrun {

namespace {

bool ends_turns(const ChatTemplate& chat_template, const Tokenizer& tokenizer) {
  const auto message = [](const char* role) {
    return Json(Json::Object{{"role", role}, {"content", "a"}});
  };
  const Json messages(Json::Array{message("user"), message("assistant")});
  const ChatTokens tokens = encode_chat(tokenizer, chat_template, messages, Json::object());
  for (size_t i = 0; i < tokens.ids.size(); ++i) {
    const int32_t id = tokens.ids[i];
    const bool marker = tokenizer.is_special(id) && id != tokenizer.bos_id();
    if (tokens.mask[i] != 0 && (marker || id == tokenizer.eos_id())) return true;
  }
  return false;
}

}  // namespace

std::vector<std::string> fitting_templates(const Tokenizer& tokenizer) {
  std::vector<std::string> names;
  for (const BuiltinTemplate& builtin : builtin_templates()) {
    const std::string name(builtin.name);
    try {
      const auto made =
          make_jinja_template(std::string(builtin.source), name, template_tokens(tokenizer));
      if (ends_turns(*made, tokenizer)) names.push_back(name);
    } catch (const Error&) {
      // It needs a token that the tokenizer lacks.
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace xrun
