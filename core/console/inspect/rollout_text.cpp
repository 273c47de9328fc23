// group 3 · sums.jsonl:18 · 8 answers, mean reward 0.25
//   prompt    ...
//   0         reward 1 · advantage 1.62 · 9 tokens · stop
//             the answer
//   shared    ├─ 4 tokens x3: The sum is
//             │  ├─ 5 tokens (sample 0): 93.

#include "core/console/inspect/rollout_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "core/base/strings.h"
#include "core/base/utf8.h"
#include "core/console/inspect/inspected_pack.h"
#include "core/console/terminal/shown_text.h"
#include "core/console/terminal/table.h"
#include "core/console/terminal/text_width.h"
#include "core/data/packs/prefix_trie.h"

namespace xrun {

namespace {

constexpr size_t kMostLines = 3;  // of a prompt or an answer
constexpr int kLabelWidth = 10;   // "rejected", the longest label, and two blanks

constexpr std::string_view kDot = " · ";  // between items

// Returns the columns for text beside a label, with room for an ellipsis.
int text_columns(int width) { return std::max(1, width - kLabelWidth - 4); }

std::string labelled_line(const std::string& label, const std::string& line, int width) {
  return "\n" + cut_to_width("  " + pad_to_width(label, kLabelWidth) + line, std::max(1, width));
}

std::string short_number(double value) { return fmt::format("{:.4g}", value); }

std::string group_headline(const std::vector<RecordedRollout>& answers,
                           const std::vector<size_t>& group) {
  double sum = 0;
  int64_t rewards = 0;
  for (const size_t i : group) {
    if (!answers[i].reward) continue;
    sum += *answers[i].reward;
    ++rewards;
  }
  const RecordedRollout& first = answers[group.front()];
  std::string text = fmt::format("group {} · {} · {}", first.group, one_paragraph(first.row_text()),
                                 counted(std::ssize(group), "answer"));
  if (rewards > 0) text += ", mean reward " + short_number(sum / static_cast<double>(rewards));
  return text;
}

// Returns the length of the common beginning of both texts, in whole characters.
size_t common_text(const std::string& a, const std::string& b) {
  const auto [end, other] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  auto length = static_cast<size_t>(end - a.begin());
  while (length > 0 && length < a.size() && is_continuation(a[length])) --length;
  return length;
}

// Returns the tree of the answers' tokens, with every common beginning as one node.
PrefixTrie answer_trie(const std::vector<RecordedRollout>& answers) {
  std::vector<TokenList> lists;
  std::vector<int64_t> lengths;
  for (const RecordedRollout& one : answers) {
    lists.emplace_back(one.ids);
    lengths.push_back(std::ssize(one.ids));
  }
  return prefix_trie(lengths, sort_lists(lists), /*min_run=*/1);
}

}  // namespace

std::vector<std::string> answer_tree_lines(const std::vector<RecordedRollout>& answers, int width) {
  const PrefixTrie trie = answer_trie(answers);
  if (std::none_of(trie.lists.begin(), trie.lists.end(), [](int32_t n) { return n > 1; })) {
    return {};
  }
  InspectedFold fold;
  fold.tree.parent = trie.parent;
  fold.nodes.resize(trie.parent.size());
  // [N] the common beginning of all answers whose path has the node.
  std::vector<std::optional<std::string>> begun(trie.parent.size());
  for (size_t s = 0; s < answers.size(); ++s) {
    // The ids of a conversation include other turns, which `text` lacks.
    const bool is_conversation = std::ssize(answers[s].ids) != answers[s].length;
    const std::string text = is_conversation ? "" : answers[s].text;
    if (trie.leaf[s] < 0) continue;
    fold.nodes[static_cast<size_t>(trie.leaf[s])].ends.push_back(
        fmt::format("sample {}", answers[s].sample));
    // The answer's path, from its leaf to its root.
    for (int32_t n = trie.leaf[s]; n >= 0; n = trie.parent[static_cast<size_t>(n)]) {
      auto& known = begun[static_cast<size_t>(n)];
      known = known ? known->substr(0, common_text(*known, text)) : text;
    }
  }
  for (size_t n = 0; n < fold.nodes.size(); ++n) {
    InspectedFold::InspectedNode& node = fold.nodes[n];
    node.tokens = trie.end[n] - trie.begin(n);
    node.segments = trie.lists[n];
    // The parent shows the text up to here.
    const size_t above =
        trie.parent[n] < 0 ? 0 : begun[static_cast<size_t>(trie.parent[n])]->size();
    node.text = one_paragraph(begun[n]->substr(above));
  }
  return fold_tree_lines(fold, width);
}

std::string one_paragraph(const std::string& bytes) {
  return shown_text(bytes, Blanks::kBreaksMarked);
}

std::string labelled_text(const std::string& label, const std::string& text, int width,
                          bool is_prompt) {
  if (text.empty()) return "";
  std::vector<std::string> lines = broken_lines(text, text_columns(width));
  if (lines.size() > kMostLines && is_prompt) {
    // The question is at the end of a prompt, after examples and system text.
    lines.erase(lines.begin(), lines.end() - kMostLines);
    lines.front() = "…" + lines.front();
  } else if (lines.size() > kMostLines) {
    lines.resize(kMostLines);
    lines.back() += "…";
  }
  std::string out;
  for (const std::string& line : lines) {
    out += labelled_line(out.empty() ? label : "", line, width);
  }
  return out;
}

std::string rollout_headline(const RecordedRollout& one) {
  std::string text;
  add_item(text, one.reward ? "reward " + short_number(*one.reward) : "no reward");
  std::string parts;
  for (const auto& [name, value] : one.parts) {
    add_item(parts, one_paragraph(name) + " " + short_number(value));
  }
  if (!parts.empty()) text += " (" + parts + ")";
  if (one.advantage) add_item(text, "advantage " + short_number(*one.advantage), kDot);
  add_item(text, counted(one.length, "token"), kDot);
  if (!one.finish.empty()) add_item(text, one_paragraph(one.finish), kDot);
  return text;
}

std::string rollout_text(const RecordedRollout& one, int width) {
  const std::string headline = rollout_headline(one);
  return fmt::format("\n{} · group {}, sample {}, {}", headline, one.group, one.sample,
                     one_paragraph(one.row_text())) +
         labelled_text("prompt", one_paragraph(one.prompt), width, true) +
         labelled_text("answer", one_paragraph(one.text), width, false);
}

std::string rollout_groups_text(const RecordedRollouts& rollouts, int64_t most, int width) {
  const std::vector<std::vector<size_t>> groups = groups_of(rollouts.answers);
  const int64_t shown = most < 0 ? std::ssize(groups) : std::min(most, std::ssize(groups));
  std::string text =
      fmt::format("step {} · {} · {}{}\n", rollouts.step, counted(std::ssize(groups), "group"),
                  counted(std::ssize(rollouts.answers), "answer"),
                  shown < std::ssize(groups) ? fmt::format(" · {} shown", shown) : "");
  for (int64_t g = 0; g < shown; ++g) {
    const std::vector<size_t>& group = groups[static_cast<size_t>(g)];
    std::vector<RecordedRollout> answers;
    for (const size_t i : group) answers.push_back(rollouts.answers[i]);
    text += "\n" + group_headline(rollouts.answers, group);
    text += labelled_text("prompt", one_paragraph(answers.front().prompt), width, true);
    // The highest reward first: a reader wants to see what the reward prefers.
    for (const size_t i : ordered_by(answers, "reward", true)) {
      text += labelled_text(fmt::format("{}", answers[i].sample), rollout_headline(answers[i]),
                            width, false);
      text += labelled_text("", one_paragraph(answers[i].text), width, false);
    }
    std::string label = "shared";
    for (const std::string& line : answer_tree_lines(answers, text_columns(width))) {
      text += labelled_line(label, line, width);
      label.clear();
    }
    text += "\n";
  }
  return text;
}

}  // namespace xrun
