#pragma once
// What a turn says of itself about training: "weight" (OpenAI's and Mistral's), "train" and
// "training" (axolotl's).

#include <cstddef>
#include <string>

#include "core/base/json.h"

namespace xrun {

// Returns what is noted of a member of a turn: that an answer asks not to be trained, or that
// another turn asks to be; "" for every other member. `where` names the turn. Throws RowRefusal
// "wrong_type" for a flag that is neither on nor off.
std::string flag_note(const Json::Member& member, const std::string& where, bool is_answer);

// Whether a message says of itself that it is not to be trained: "weight" 0, "train" or "training"
// false.
bool is_untrained(const Json& message);

// The message without those flags: what a model reads.
Json without_flags(const Json& message);

// Whether two messages are the same but for those flags.
bool is_same_turn(const Json& a, const Json& b);

// Gives the first `count` messages of both lists, the same turns, the same flags: a turn that
// either list leaves untrained is untrained in both.
void join_flags(Json& a, Json& b, size_t count);

}  // namespace xrun
