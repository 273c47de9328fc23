// The names of row kinds are stored in manifests: they never change.

#include "core/data/rows/row.h"

namespace xrun {

const char* row_kind_name(RowKind kind) {
  constexpr const char* kNames[] = {"preference", "chat", "text", "prompts", "tokens", "feedback"};
  return kNames[static_cast<int>(kind)];
}

std::string row_reader_name(RowKind kind) { return std::string("xrun.") + row_kind_name(kind); }

bool uses_template(RowKind kind) { return kind != RowKind::kText && kind != RowKind::kTokens; }

}  // namespace xrun
