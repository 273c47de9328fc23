#pragma once
// Flags of a message that say whether it is trained: "weight" (OpenAI, Mistral), "train" and
// "training" (axolotl).

#include <cstddef>
#include <string>

#include "core/base/json.h"

namespace xrun {

// Returns the note on a member of a turn that is a flag: an answer asks not to be trained, or
// another turn asks to be; "" for every other member. `where` names the turn. Throws RowRefusal
// "wrong_type" for a flag that is neither on nor off.
std::string flag_note(const Json::Member& member, const std::string& where, bool is_answer);

// Returns the flag by which a message asks not to be trained: "weight" 0, "train" or "training"
// false; nullptr if none does.
const char* untrained_by(const Json& message);
inline bool is_untrained(const Json& message) { return untrained_by(message) != nullptr; }

// Returns the message without these flags, as a model reads it.
Json without_flags(const Json& message);

// Returns true if two messages are equal apart from these flags.
bool is_same_turn(const Json& a, const Json& b);

// Joins the flags of the first `count` messages of both lists, which must be the same turns: a turn
// that either list excludes becomes untrained in both.
void join_flags(Json& a, Json& b, size_t count);

}  // namespace xrun
