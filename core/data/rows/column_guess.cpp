// The surest guesses come first, so that a vague one never takes their column: names of public data
// sets, misspellings, then any column that may hold such a value.

#include "core/data/rows/column_guess.h"

#include <algorithm>

#include "core/base/strings.h"

namespace xrun {

namespace {

// Column names of public data sets and ours for the same thing.
constexpr std::pair<const char*, const char*> kOtherNames[] = {
    {"question", "prompt"},       {"query", "prompt"},
    {"problem", "prompt"},        {"answer", "completion"},
    {"response", "completion"},   {"solution", "completion"},
    {"target", "completion"},     {"conversation", "messages"},
    {"dialogue", "messages"},     {"dialog", "messages"},
    {"turns", "messages"},        {"content", "text"},
    {"document", "text"},         {"body", "text"},
    {"article", "text"},          {"accepted", "chosen"},
    {"preferred", "chosen"},      {"winner", "chosen"},
    {"better", "chosen"},         {"good", "chosen"},
    {"dispreferred", "rejected"}, {"loser", "rejected"},
    {"worse", "rejected"},        {"bad", "rejected"},
};

}  // namespace

bool is_other_name(const std::string& theirs, const std::string& ours) {
  return std::any_of(std::begin(kOtherNames), std::end(kOtherNames),
                     [&](const auto& name) { return theirs == name.first && ours == name.second; });
}

std::vector<std::string> our_names(const std::vector<std::string>& columns) {
  std::vector<std::string> names;
  for (const auto& [theirs, ours] : kOtherNames) {
    if (std::find(columns.begin(), columns.end(), theirs) != columns.end()) names.push_back(ours);
  }
  return names;
}

ColumnNames guess_columns(const Json& row, const std::vector<std::string>& lacking,
                          const std::vector<std::string>& unread) {
  std::vector<std::string> left;
  for (const std::string& column : unread) {
    // A number is neither a prompt nor an answer.
    if (!row.find(column)->is_number()) left.push_back(column);
  }
  ColumnNames guess;
  for (const std::string& ours : lacking) guess.emplace_back(ours, kNoColumn);
  const auto take = [&](std::string& theirs, auto at) {
    if (at == left.end()) return;
    theirs = *at;
    left.erase(at);
  };
  for (auto& [ours, theirs] : guess) {
    auto at = std::find_if(left.begin(), left.end(), [&, &ours = ours](const auto& column) {
      return is_other_name(column, ours);
    });
    if (at == left.end()) at = std::find(left.begin(), left.end(), nearest_name(ours, left));
    take(theirs, at);
  }
  for (auto& [ours, theirs] : guess) {
    if (theirs != kNoColumn) continue;
    const bool list = ours == "messages" || ours == "conversations" || ours == "input_ids";
    take(theirs, std::find_if(left.begin(), left.end(), [&](const auto& column) {
           return !list || row.find(column)->is_array();
         }));
  }
  return guess;
}

}  // namespace xrun
