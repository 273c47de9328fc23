#pragma once
// Templates made of others: one for rows with tools, one checked against another, one that refuses.
// All are as thread-safe as the templates they hold.

#include <memory>
#include <string>

#include "core/text/chat/chat_template.h"

namespace xrun {

// Returns a template that renders a row through `tool_use` if its argument `tools` is present and
// not null (an empty list counts), and any other row through `plain`, as transformers does. Its
// name and source are those of `plain`; its digest covers both.
std::shared_ptr<const ChatTemplate> make_tool_template(
    std::shared_ptr<const ChatTemplate> plain, std::shared_ptr<const ChatTemplate> tool_use);

// Returns a template that renders each row by both and gives the marks of `marked`. render() throws
// what `stock` throws, and Error with a diff where the texts differ. Its name is that of `marked`;
// its digest covers both.
std::shared_ptr<const ChatTemplate> make_checked_template(
    std::shared_ptr<const ChatTemplate> stock, std::shared_ptr<const ChatTemplate> marked);

// Returns a template whose render() throws Error with `message`. It replaces one that cannot be
// used, so that only the rows it would render are refused.
std::shared_ptr<const ChatTemplate> make_refused_template(std::string name, std::string source,
                                                          std::string message);

}  // namespace xrun
