#pragma once
// The kinds of rows that data sets are made of.

#include <string>

namespace xrun {

enum class RowKind { kPreference, kChat, kText, kPrompts, kTokens, kFeedback };

// Returns "preference", "chat", "text", "prompts", "tokens" or "feedback"; what manifests call it.
const char* row_kind_name(RowKind kind);

// Returns what a recipe calls to read rows of a kind: "xrun.chat".
std::string row_reader_name(RowKind kind);

}  // namespace xrun
