#pragma once
// Inspected packs as JSON, one object a pack.

#include "core/base/json.h"
#include "core/console/inspect/inspected_pack.h"

namespace xrun {

// {"step","pack","tokens","labels","cu_seqlens","position_ids","weights","rows":[...]}. labels and
// weights stand at the token that is predicted, as in Hugging Face's datasets: -100 and 0 where
// nothing is. An entry of rows a segment: {"file","line","side","pair"}, side "chosen", "rejected"
// or null, pair null where there is none; then "weight", "cut_tokens", "turns" [{"role","message",
// "begin"}] with the token of the segment where a turn begins. "left_out" counts segments that were
// not asked for; log-probs stand in "logprobs": {"policy","reference"}, null for unscored tokens.
Json pack_json(const InspectedStep& step, const InspectedPack& pack);

}  // namespace xrun
