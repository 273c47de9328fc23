#pragma once
// Sampled answers as text: prompt, answer, reward, advantage, length. Foreign text passes
// shown_text.

#include <string>
#include <vector>

#include "core/run/record/rollout_record.h"

namespace xrun {

// Returns a label and its text, in at most three lines of `width` columns, each after a newline. A
// long prompt loses its first lines, because the answer follows its end; any other text loses its
// last lines.
std::string labelled_text(const std::string& label, const std::string& text, int width,
                          bool is_prompt);

// Returns foreign text as one paragraph with visible line breaks.
std::string one_paragraph(const std::string& bytes);

// Returns "reward 0.75 (format 1, right 0.5) · advantage -0.3 · 12 tokens · stop", without values
// that are absent.
std::string rollout_headline(const RecordedRollout& one);

// Returns one answer: its group and sample, its headline, the end of its prompt, its text. Begins
// with a newline.
std::string rollout_text(const RecordedRollout& one, int width);

// Draws the beginnings that the answers to a prompt share, as fold_tree_lines does: one line of at
// most `width` columns for each run of tokens; no lines if no two answers begin alike. The record
// has no text of single tokens, so a run shows the text that its answers have in common, and no
// text for conversations.
std::vector<std::string> answer_tree_lines(const std::vector<RecordedRollout>& answers, int width);

// Returns the first `most` groups (-1: all) of a step: the prompt, the answers with the highest
// reward first, and the tree of the answers. Ends with a newline.
std::string rollout_groups_text(const RecordedRollouts& rollouts, int64_t most, int width);

}  // namespace xrun
