#pragma once
// The named templates of one tokenizer as one: which of them a row is for.

#include <memory>
#include <string>

#include "core/text/chat/chat_template.h"

namespace xrun {

// Returns a template that renders a row whose argument `tools` is there and not null, an empty list
// included, through `tool_use`, and any other through `plain`, as transformers chooses. Its name
// and source are those of `plain`, its digest covers both. As safe for threads as the two.
std::shared_ptr<const ChatTemplate> make_tool_template(
    std::shared_ptr<const ChatTemplate> plain, std::shared_ptr<const ChatTemplate> tool_use);

// Returns a template whose render() throws Error with `message`: the place of one that cannot be
// used, so that only the rows that are for it are refused.
std::shared_ptr<const ChatTemplate> make_refused_template(std::string name, std::string source,
                                                          std::string message);

}  // namespace xrun
