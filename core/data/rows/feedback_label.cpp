// A label is never guessed: a word or a rating is refused, with a map that the user can check and
// paste.

#include "core/data/rows/feedback_label.h"

#include <array>
#include <string>
#include <string_view>

#include "core/base/strings.h"
#include "core/data/rows/ledger.h"

namespace xrun {

namespace {

// Returns a call of xrun.feedback whose map sets the column to a condition.
std::string label_map(const std::string& name, const std::string& condition) {
  return fmt::format(
      "xrun.feedback(cfg.data, policy, {{ map = function(row) row.{} = {} return row end }})", name,
      condition);
}

// Returns the condition that is true for the word of good answers. Known pairs of words match in
// any case. For other words it has a placeholder, since only the user knows what they mean.
std::string good_condition(const std::string& name, const std::string& label) {
  constexpr std::array<std::array<std::string_view, 2>, 12> kBadAndGood = {
      {{"false", "true"},
       {"no", "yes"},
       {"bad", "good"},
       {"0", "1"},
       {"-1", "1"},
       {"undesirable", "desirable"},
       {"negative", "positive"},
       {"rejected", "chosen"},
       {"dislike", "like"},
       {"thumbs_down", "thumbs_up"},
       {"downvote", "upvote"},
       {"incorrect", "correct"}}};
  const std::string word = lower_case(label);
  for (const auto& [bad, good] : kBadAndGood) {
    if (word != bad && word != good) continue;
    return fmt::format("tostring(row.{}):lower() == \"{}\"", name, good);
  }
  return fmt::format("row.{} == \"<the value of good answers>\"", name);
}

// Returns the end of the refusal of a word. Its map keeps the label of rows that already have one.
std::string word_fix(const std::string& name, const std::string& word) {
  return "; turn it into one with a map that names the value of good answers: " +
         label_map(name, fmt::format("row.{0} == true or row.{0} == 1 or {1}", name,
                                     good_condition(name, word)));
}

int8_t number_label(const std::string& name, const Json& label) {
  const double number = label.as_double();
  if (number == 0 || number == 1) return static_cast<int8_t>(number);
  // -1 is the usual opposite of 1; for another number the user has to choose a threshold.
  if (number == -1) {
    throw RatingRefusal("bad_label",
                        fmt::format("\"{}\" is -1, wanted true or false (or 1 or 0); a map "
                                    "translates it: {}",
                                    name, label_map(name, "row." + name + " == 1")));
  }
  throw RatingRefusal(
      "bad_label",
      fmt::format("\"{}\" is {}, wanted true or false (or 1 or 0); if the labels are ratings, "
                  "choose where good answers begin, with a map: {}; if not, correct this row",
                  name, dump_json(label), label_map(name, "row." + name + " >= 4")));
}

}  // namespace

int8_t feedback_label(const RowFields& fields, const Json& row) {
  const std::string name = fields.spelled("label");
  const Json* label = fields.find(row, "label");
  if (label == nullptr) {
    throw RowRefusal("bad_label",
                     fmt::format("has no \"{}\"{}", name, fields.other_columns(row, "label")));
  }
  if (label->is_bool()) return label->as_bool() ? 1 : 0;
  if (label->is_number()) return number_label(name, *label);
  throw RowRefusal("bad_label",
                   fmt::format("\"{}\" is {}, wanted true or false{}", name, dump_json(*label),
                               label->is_string() ? word_fix(name, label->as_string()) : ""));
}

}  // namespace xrun
