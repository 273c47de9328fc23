#pragma once
// Rows of multiple-choice questions: prompts with the extra columns choices and answer.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/rows/row.h"

namespace xrun {

// The extra columns: the choices' texts as a JSON list, and the index of the right one.
inline constexpr const char* kChoiceColumns[] = {"choices", "answer"};

// Returns the transform that runs `own` (null: none) and then reads {"choices", "answer"} of a row:
// a list of at least two texts or numbers, and an index from 0 or the text of a choice. Other rows
// are refused with the reason bad_choices.
std::shared_ptr<const RowTransformSource> make_choice_rows(
    std::shared_ptr<const RowTransformSource> own);

// Returns the texts in a row's column "choices".
std::vector<std::string> choice_texts(const std::string& column);

}  // namespace xrun
