#pragma once
// Inspected packs as one self-contained page: hover for what a token is, search, collapse.

#include <string>
#include <vector>

#include "core/console/inspect/inspected_pack.h"

namespace xrun {

// The whole file. Tokens are coloured by their loss weight on palette.h's scale, special ones are
// underlined, the template's own text is in italics; a pair's sides stand side by side below their
// shared beginning. A token's id, position, weight, origin and log-probs show when the pointer
// rests on it or a search stops at it.
std::string pack_page(const std::vector<InspectedStep>& sets);

}  // namespace xrun
