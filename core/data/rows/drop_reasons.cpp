// One row per reason, in the order in which a row meets them: parsing, columns, conversation,
// tokens.

#include "core/data/rows/drop_reasons.h"

#include "core/data/rows/ledger.h"

namespace xrun {

namespace {

constexpr DropReason kDropReasons[] = {
    {"malformed_json", "all", "the line is not JSON"},
    {"not_an_object", "all", "the line is JSON, but not an object"},
    {"unknown_format", "all", "the row has none of the columns that its kind reads"},
    {"wrong_type", "all", "the type of a column is not the wanted one"},
    {"empty_list", "all", "a list of messages or of ids is empty"},
    {"columns_differ", "conversations, tokens",
     "two names of one column (`messages` and `conversations`) have different values"},
    {"missing_side", "pairs", "there is no `chosen` or no `rejected` answer"},
    {"empty_prompt", "conversations", "a user turn has no text"},
    {"no_prompt", "pairs, prompts, feedback", "no turn comes before the answer"},
    {"prompt_mismatch", "pairs", "the prompt is not the beginning of the conversation"},
    {"prompts_differ", "pairs", "the two sides differ before an answer"},
    {"no_assistant", "conversations", "there is no answer: no turn of the assistant"},
    {"last_not_assistant", "pairs", "the last turn of a side is not the assistant's"},
    {"empty_answer", "conversations", "the last answer has no text"},
    {"same_answers", "pairs", "both answers are equal, as text or as tokens (after a cut)"},
    {"bad_choices", "choices", "the choices or the number of the right one are not usable"},
    {kLostCallsReason, "conversations",
     "the template leaves out a tool call; `--set laws.tool_calls=false` trains without it"},
    {kLostTurnReason, "conversations",
     "the template leaves out a turn, often of a role that it does not know; "
     "`--set laws.turns=false` trains without it"},
    {"bad_arguments", "conversations",
     "the arguments of a tool call begin as a JSON object and are not JSON, or the template needs a "
     "part of the call that is missing"},
    {"refused_kwargs", "conversations", "a template argument of the row belongs to the engine"},
    {"empty_text", "text", "the text is empty"},
    {"bad_token", "tokens",
     "an id is outside the vocabulary, or a label is neither the id nor -100"},
    {"length_mismatch", "tokens", "lists of the row have different lengths"},
    {"bad_token_weight", "tokens", "the weight of a token is not a finite number of at least 0"},
    {"bad_weight", "all", "the weight of the row is not a finite number of at least 0"},
    {kBadExtraReason, "all",
     "the type of a column that `keep` names differs from the first row, or it has a whole number "
     "beyond 2^53"},
    {"bad_label", "feedback",
     "the label is neither true nor false; a number other than 0 and 1 ends the reading, since it "
     "may be a rating"},
    {"template_error", "conversations", "the template refuses the row"},
    {"empty_mask", "all", "no token would be trained"},
    {kTooLongReason, "all",
     "the row has more tokens than `max_length`, or is too long to be read or rendered"},
    {kNoAnswerLeftReason, "conversations",
     "the prompt leaves no room within `max_length`, so `over_length = \"cut\"` would keep no answer"},
    {kFilteredReason, "all", "the filter of the recipe leaves the row out"},
};

}  // namespace

std::span<const DropReason> drop_reasons() { return kDropReasons; }

}  // namespace xrun
