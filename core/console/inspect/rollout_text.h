#pragma once
// Sampled answers as text: prompt, answer, reward, advantage, length.

#include <string>
#include <vector>

#include "core/run/record/rollout_record.h"

namespace xrun {

// Returns a label and its text, in at most three lines of `width` columns, each after a newline. A
// long prompt loses its first lines (the answer follows its end), any other text its last.
std::string labelled_text(const std::string& label, const std::string& text, int width,
                          bool is_prompt);

// Returns foreign text as one paragraph, with marks for its line breaks.
std::string one_paragraph(const std::string& bytes);

// Returns the parts that apply of "reward 0.75 (format 1, right 0.5) · advantage -0.3 · 12 tokens ·
// stop".
std::string rollout_headline(const RecordedRollout& one);

// Returns one answer: its group and sample, its headline, the end of its prompt, its text. Begins
// with a newline.
std::string rollout_text(const RecordedRollout& one, int width);

// Draws the beginnings that the answers to a prompt share, one line of at most `width` columns for
// each run of tokens (fold_tree_lines); nothing if they share none. The record has no text of
// single tokens, so a run shows the text that its answers have in common, and none for
// conversations.
std::vector<std::string> answer_tree_lines(const std::vector<RecordedRollout>& answers, int width);

// Returns the first `most` groups (-1: all) of a step, each with its prompt once and its answers,
// the highest reward first, then the tree of the answers. Ends with a newline.
std::string rollout_groups_text(const RecordedRollouts& rollouts, int64_t most, int width);

}  // namespace xrun
