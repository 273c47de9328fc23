#pragma once
// The reasons for which rows are dropped, as a ledger counts them.

#include <span>
#include <string_view>

namespace xrun {

struct DropReason {
  std::string_view name;     // RowRefusal::reason()
  std::string_view rows;     // the kinds of rows that have it
  std::string_view meaning;  // docs/drop-reasons.md repeats it
};

// Of a row whose extra column cannot be stored beside those of other rows.
constexpr const char* kBadExtraReason = "bad_extra_column";

std::span<const DropReason> drop_reasons();

}  // namespace xrun
