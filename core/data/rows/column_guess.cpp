// The surest guesses come first, so that a vague one never takes their column: names of public data
// sets, misspellings, names with such a word, then any column that may hold such a value.

#include "core/data/rows/column_guess.h"

#include <algorithm>
#include <string_view>

#include "core/base/strings.h"

namespace xrun {

namespace {

// Column names of public data sets, each with our name for the same column.
constexpr std::pair<const char*, const char*> kOtherNames[] = {
    {"question", "prompt"},
    {"query", "prompt"},
    {"problem", "prompt"},
    {"answer", "completion"},
    {"response", "completion"},
    {"solution", "completion"},
    {"target", "completion"},
    {"conversation", "messages"},
    {"dialogue", "messages"},
    {"dialog", "messages"},
    {"turns", "messages"},
    {"content", "text"},
    {"document", "text"},
    {"body", "text"},
    {"article", "text"},
    {"accepted", "chosen"},
    {"preferred", "chosen"},
    {"winner", "chosen"},
    {"better", "chosen"},
    {"good", "chosen"},
    {"dispreferred", "rejected"},
    {"loser", "rejected"},
    {"worse", "rejected"},
    {"bad", "rejected"},
    {"ask", "prompt"},
    {"reply", "completion"},
    {"问题", "prompt"},
    {"提问", "prompt"},
    {"指令", "prompt"},
    {"答案", "completion"},
    {"回答", "completion"},
    {"回复", "completion"},
    {"输出", "completion"},
    {"对话", "messages"},
    {"文本", "text"},
    {"正文", "text"},
    {"好", "chosen"},
    {"坏", "rejected"},
    {"更好", "chosen"},
    {"更差", "rejected"},
};

// The last words of the names of columns that describe where a row comes from.
constexpr std::string_view kOrigins[] = {"id",     "uuid",     "hash",      "index",   "source",
                                         "src",    "url",      "dataset",   "split",   "language",
                                         "lang",   "category", "topic",     "model",   "type",
                                         "author", "date",     "timestamp", "license", "version"};
// Chinese writes words without a space, so these are endings: 数据来源.
constexpr std::string_view kChineseOrigins[] = {"来源", "语言",   "类别", "类型", "分类",
                                                "编号", "序号",   "日期", "时间", "作者",
                                                "链接", "数据集", "主题", "模型", "版本"};

// "better_answer" -> "better", "answer"
std::vector<std::string> words_of(const std::string& column) {
  std::vector<std::string> words;
  bool begins = true;
  for (const char c : lower_case(column)) {
    const bool between = c == '_' || c == '-' || c == '.' || c == ' ';
    if (begins && !between) words.emplace_back();
    if (!between) words.back() += c;
    begins = between;
  }
  return words;
}

}  // namespace

bool tells_origin(const std::string& column) {
  const std::vector<std::string> words = words_of(column);
  if (words.empty()) return false;
  return std::find(std::begin(kOrigins), std::end(kOrigins), words.back()) != std::end(kOrigins) ||
         std::any_of(std::begin(kChineseOrigins), std::end(kChineseOrigins),
                     [&](std::string_view ending) { return words.back().ends_with(ending); });
}

namespace {

// Our names for the words of a column's name: chosen and completion for "better_answer". Any
// column may be called a text.
std::vector<std::string> meanings(const std::string& column) {
  std::vector<std::string> names;
  for (const std::string& word : words_of(column)) {
    for (const auto& [theirs, ours] : kOtherNames) {
      const bool says_it = word == theirs || word == ours;
      if (says_it && ours != std::string_view("text")) names.emplace_back(ours);
    }
  }
  return names;
}

bool has_meaning(const std::string& column, const std::string& ours) {
  const std::vector<std::string> names = meanings(column);
  return !tells_origin(column) && std::find(names.begin(), names.end(), ours) != names.end();
}

// Returns true if the name of a column means something other than `ours`. Each side of a pair is
// an answer.
bool means_other(const std::string& column, const std::string& ours) {
  const bool answer = ours == "chosen" || ours == "rejected";
  const std::vector<std::string> names = meanings(column);
  return tells_origin(column) ||
         std::any_of(names.begin(), names.end(), [&](const std::string& name) {
           return name != ours && !(answer && name == "completion");
         });
}

bool is_list(const std::string& ours) {
  return ours == "messages" || ours == "conversations" || ours == "input_ids";
}

bool may_hold(const Json& value, const std::string& ours) {
  if (ours == "label") return value.is_number() || value.is_bool() || value.is_string();
  return value.is_array() || (value.is_string() && !is_list(ours));
}

// The only one of `columns` that `fits`; "" if there is none or if there are several.
template <typename Fits>
std::string only_column(const std::vector<std::string>& columns, const Fits& fits) {
  const auto first = std::find_if(columns.begin(), columns.end(), fits);
  const bool several = first != columns.end() && std::any_of(first + 1, columns.end(), fits);
  return first == columns.end() || several ? "" : *first;
}

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

std::string likely_column(const Json& row, const std::string& ours,
                          const std::vector<std::string>& unread, bool by_name) {
  std::vector<std::string> left;
  for (const std::string& column : unread) {
    if (may_hold(*row.find(column), ours)) left.push_back(column);
  }
  const auto usual = std::find_if(left.begin(), left.end(), [&](const std::string& column) {
    return is_other_name(column, ours);
  });
  if (usual != left.end()) return *usual;
  std::string near = nearest_name(ours, left);
  if (!near.empty()) return near;
  const auto has_word = [&](const std::string& column) { return has_meaning(column, ours); };
  std::string named = only_column(left, has_word);
  if (!named.empty() || by_name || std::any_of(left.begin(), left.end(), has_word)) return named;
  return only_column(left, [&](const std::string& column) { return !means_other(column, ours); });
}

ColumnNames guess_columns(const Json& row, const std::vector<std::string>& lacking,
                          const std::vector<std::string>& unread) {
  std::vector<std::string> left;
  for (const std::string& column : unread) {
    // A number is neither a prompt nor an answer.
    if (!row.find(column)->is_number()) left.push_back(column);
  }
  // A column that is null here may have values in other rows, but one with a value is the better
  // guess.
  std::stable_partition(left.begin(), left.end(),
                        [&](const std::string& column) { return !row.find(column)->is_null(); });
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
    take(theirs, std::find_if(left.begin(), left.end(), [&, &ours = ours](const auto& column) {
           return has_meaning(column, ours);
         }));
  }
  for (auto& [ours, theirs] : guess) {
    if (theirs != kNoColumn) continue;
    take(theirs, std::find_if(left.begin(), left.end(), [&, &ours = ours](const auto& column) {
           return !tells_origin(column) && (!is_list(ours) || row.find(column)->is_array());
         }));
  }
  return guess;
}

}  // namespace xrun
