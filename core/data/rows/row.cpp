// The names of row kinds are stored in manifests, so they never change.

#include "core/data/rows/row.h"

namespace xrun {

const char* row_kind_name(RowKind kind) {
  constexpr const char* kNames[] = {"preference", "chat", "text", "prompts", "tokens", "feedback"};
  return kNames[static_cast<int>(kind)];
}

std::string row_reader_name(RowKind kind) { return std::string("xrun.") + row_kind_name(kind); }

std::string row_reader_hint(const std::string& columns, RowKind kind) {
  // In the order of RowKind; nullptr: no recipe reads such rows.
  constexpr const char* kRecipes[] = {"dpo.lua",  "sft.lua", "pretrain.lua",
                                      "grpo.lua", nullptr,   "kto.lua"};
  const char* recipe = kRecipes[static_cast<int>(kind)];
  return "; rows with " + columns + " are read by " + row_reader_name(kind) +
         (recipe == nullptr ? "" : std::string(" (a recipe such as ") + recipe + ")");
}

bool uses_template(RowKind kind) { return kind != RowKind::kText && kind != RowKind::kTokens; }

}  // namespace xrun
