#pragma once
// docs/lua-api.md, written from the doc entries of a state that has every module open, and from the
// config's fields; and what `xrun explain` says of one name.

#include <string>
#include <vector>

#include "lua/state/doc.h"

namespace xrun {

// Markdown: the config's keys, then functions, values, and each class with its members.
std::string lua_api_markdown(std::vector<DocEntry> entries = doc_entries());

// What `xrun explain KEY` says of a config key, a public name or an operator; "" if there is none.
std::string explain(const std::string& name);

}  // namespace xrun
