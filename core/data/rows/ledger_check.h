#pragma once
// What the account of a source must be like for its rows to be used.

#include "core/data/rows/ledger.h"

namespace xrun {

// Throws Error that counts and lists them if a row was dropped, cut or repaired; rows that a filter
// left out are no fault. `building`: the account ends with the present row.
void check_strict(const SourceLedger& ledger, bool building);

// Throws Error with the first bad rows if there are no rows, if none is kept, or if a larger share
// than `max_bad` is bad; what a filter or over_length leaves out does not count.
// `hint` ends the sentence about rows of which none is kept.
void check_kept(const SourceLedger& ledger, double max_bad, const std::string& hint = "");

}  // namespace xrun
