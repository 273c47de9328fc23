#include "tools/commands/engine/chat_prompt.h"

#include <fmt/core.h>

#include <cstdio>

#include "core/console/terminal/shown_text.h"
#include "core/text/chat/chat_tokens.h"

namespace xrun {

const ChatTemplate& ChatPrompt::chat_template() {
  if (!template_) {
    const ResolvedTemplate resolved =
        resolve_template(*tokenizer_, setting_, "", /*allow_unmarked=*/true);
    fmt::print(stderr, "{}\n", shown_text(resolved.notice));
    template_ = resolved.chat_template;
  }
  return *template_;
}

std::vector<int32_t> ChatPrompt::ids(const Json& messages, Json kwargs) {
  if (kwargs.find("add_generation_prompt") == nullptr) kwargs.set("add_generation_prompt", true);
  return encode_chat(*tokenizer_, chat_template(), messages, kwargs).ids;
}

Json chat_message(const std::string& role, const std::string& content) {
  return Json(Json::Object{{"role", role}, {"content", content}});
}

}  // namespace xrun
