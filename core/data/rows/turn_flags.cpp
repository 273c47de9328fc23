// Flags are read in three spellings, and removed before turns are compared or hashed: they say what
// is trained, not what a model reads.

#include "core/data/rows/turn_flags.h"

#include <algorithm>
#include <iterator>

#include "core/base/error.h"
#include "core/data/rows/ledger.h"

namespace xrun {

namespace {

constexpr const char* kTrainingFlags[] = {"weight", "train", "training"};

// Returns true if a flag is on.
bool read_flag(const Json::Member& member, const std::string& where) {
  const Json& value = member.second;
  if (value.is_bool()) return value.as_bool();
  if (value.is_number() && (value.as_double() == 0 || value.as_double() == 1)) {
    return value.as_double() == 1;
  }
  throw RowRefusal("wrong_type",
                   fmt::format("{} has a {} that is {}, wanted 0 or 1: a turn is trained or not",
                               where, member.first, dump_json(value)));
}

bool is_flag(const std::string& key) {
  return std::find(std::begin(kTrainingFlags), std::end(kTrainingFlags), key) !=
         std::end(kTrainingFlags);
}

}  // namespace

// Reads every flag, also one without a note, so that a flag neither on nor off is refused.
std::string flag_note(const Json::Member& member, const std::string& where, bool is_answer) {
  const std::string& flag = member.first;
  const bool says = is_flag(flag) && !member.second.is_null();
  if (!says || read_flag(member, where) == is_answer) return "";
  return is_answer
             ? fmt::format("assistant turns whose \"{}\" is off are not trained", flag)
             : fmt::format("\"{}\" asks to train a turn that is not an answer; it is not trained",
                           flag);
}

const char* untrained_by(const Json& message) {
  for (const char* name : kTrainingFlags) {
    const Json* flag = message.find(name);
    if (flag == nullptr || flag->is_null()) continue;
    if (flag->is_bool() ? !flag->as_bool() : flag->as_double() == 0) return name;
  }
  return nullptr;
}

Json without_flags(const Json& message) {
  Json::Object members;
  for (const Json::Member& member : message.as_object()) {
    if (!is_flag(member.first)) members.push_back(member);
  }
  return members;
}

bool is_same_turn(const Json& a, const Json& b) {
  if (a == b) return true;
  const auto has_flag = [](const Json& message) {
    return std::any_of(message.as_object().begin(), message.as_object().end(),
                       [](const Json::Member& member) { return is_flag(member.first); });
  };
  return (has_flag(a) || has_flag(b)) && without_flags(a) == without_flags(b);
}

// Both sides get one prompt, so that its tokens have one mask.
void join_flags(Json& a, Json& b, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    Json& first = a.as_array()[i];
    Json& second = b.as_array()[i];
    if (first == second) continue;
    // A turn that one side excludes is trained on neither.
    if (is_untrained(first)) {
      second = first;
    } else {
      first = second;
    }
  }
}

}  // namespace xrun
