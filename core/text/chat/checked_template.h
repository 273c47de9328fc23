#pragma once
// A template's stand-in that is never trusted further than the row at hand.

#include <memory>

#include "core/text/chat/chat_template.h"

namespace xrun {

// Returns a template with the marks of `tagged` and the text of `stock`: each row is rendered by
// both. render() throws what `stock` throws, and Error that shows the place where the texts differ.
// Its name is that of `tagged`; its digest covers both. As safe for threads as the two.
std::shared_ptr<const ChatTemplate> make_checked_template(
    std::shared_ptr<const ChatTemplate> stock, std::shared_ptr<const ChatTemplate> tagged);

}  // namespace xrun
