#pragma once
// The reasons for dropping a row, as the ledger counts them.

#include <span>
#include <string_view>

namespace xrun {

struct DropReason {
  std::string_view name;     // RowRefusal::reason()
  std::string_view rows;     // the kinds of rows that have it
  std::string_view meaning;  // docs/drop-reasons.md repeats it
};

// The reason for a row whose extra column does not fit those of other rows.
constexpr const char* kBadExtraReason = "bad_extra_column";

std::span<const DropReason> drop_reasons();

}  // namespace xrun
