#include "core/data/preference_tokens.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/data/messages.h"
#include "core/text/chat_tokens.h"

namespace xrun {

namespace {

size_t count_assistants(const Json& messages, size_t first_messages) {
  const Json::Array& list = messages.as_array();
  return static_cast<size_t>(
      std::count_if(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(first_messages),
                    [](const Json& message) { return message_role(message) == "assistant"; }));
}

// Returns the first generation block behind the first `first_messages` messages. Where the template
// makes one block an assistant turn the roles tell it; else the rendering of the prefix does.
size_t first_turn_behind(const ChatTokens& tokens, const ChatTemplate& chat_template,
                         const Json& messages, size_t first_messages, const Json& kwargs) {
  const size_t assistants = count_assistants(messages, first_messages);
  if (assistants == 0) return 0;
  if (tokens.rendering.turns.size() == count_assistants(messages, messages.size())) {
    return assistants;
  }
  const Json::Array& list = messages.as_array();
  const Json prefix(
      Json::Array(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(first_messages)));
  const size_t turns = count_shared_turns(chat_template, messages, prefix, kwargs);
  if (turns == 0) {
    throw RowRefusal("template_error",
                     "the template does not render the shared turns alone, so "
                     "they cannot be told from the answer");
  }
  return turns;
}

SideTokens encode_side(const Json& messages, const PreferenceRow& row, const Tokenizer& tokenizer,
                       const ChatTemplate& chat_template, TrainOn train_on) {
  ChatTokens tokens = encode_chat(tokenizer, chat_template, messages, row.kwargs);
  SideTokens side;
  if (train_on == TrainOn::kAll) {
    side.trained.assign(tokens.ids.size(), 1);
  } else {
    const size_t given = train_on == TrainOn::kLast ? messages.size() - 1 : row.shared;
    const size_t first = first_turn_behind(tokens, chat_template, messages, given, row.kwargs);
    if (first > 0) train_turns_from(tokens, first);
    side.trained = std::move(tokens.mask);
    side.straddlers = tokens.straddlers;
  }
  side.ids = std::move(tokens.ids);
  if (!side.trained.empty()) side.trained[0] = 0;
  return side;
}

bool is_trained(const SideTokens& side) {
  return std::find(side.trained.begin(), side.trained.end(), 1) != side.trained.end();
}

void check_trained(const SideTokens& side, const char* name) {
  if (is_trained(side)) return;
  throw RowRefusal("empty_mask", fmt::format("no token of the {} side is trained", name));
}

int64_t cut(SideTokens& side, int64_t max_length) {
  const int64_t over = static_cast<int64_t>(side.ids.size()) - max_length;
  if (over <= 0) return 0;
  side.ids.resize(static_cast<size_t>(max_length));
  side.trained.resize(static_cast<size_t>(max_length));
  return over;
}

// Cuts both sides from the same end, so that what is left is the prompt and the head of each
// answer.
void cut_pair(PairTokens& pair, int64_t max_length, const std::string& place) {
  pair.cut_tokens = cut(pair.chosen, max_length) + cut(pair.rejected, max_length);
  for (const SideTokens* side : {&pair.chosen, &pair.rejected}) {
    XRUN_CHECK(
        is_trained(*side),
        "{}: cut to max_length = {}, the {} side has no trained token left: its prompt alone "
        "is as long; raise max_length or set over_length = \"drop\"",
        place, count_text(max_length), side == &pair.chosen ? "chosen" : "rejected");
  }
}

void fit_length(PairTokens& pair, const PairSettings& settings, const std::string& place) {
  const int64_t chosen = static_cast<int64_t>(pair.chosen.ids.size());
  const int64_t rejected = static_cast<int64_t>(pair.rejected.ids.size());
  if (settings.max_length <= 0 || std::max(chosen, rejected) <= settings.max_length) return;
  if (settings.over_length == OverLength::kCut) {
    return cut_pair(pair, settings.max_length, place);
  }
  const std::string lengths =
      fmt::format("the chosen side has {} tokens and the rejected side {}, max_length is {}",
                  count_text(chosen), count_text(rejected), count_text(settings.max_length));
  if (settings.over_length == OverLength::kDrop) throw RowRefusal("too_long", lengths);
  throw Error(fmt::format("{}: {}; raise max_length or set over_length = \"drop\" or \"cut\"",
                          place, lengths));
}

}  // namespace

PairTokens encode_pair(const PreferenceRow& row, const Tokenizer& tokenizer,
                       const ChatTemplate& chat_template, const PairSettings& settings,
                       const std::string& place) {
  PairTokens pair;
  try {
    pair.chosen = encode_side(row.chosen, row, tokenizer, chat_template, settings.train_on);
    pair.rejected = encode_side(row.rejected, row, tokenizer, chat_template, settings.train_on);
  } catch (const RowRefusal&) {
    throw;
  } catch (const Interrupted&) {
    throw;
  } catch (const Error& error) {
    throw RowRefusal("template_error", error.what());
  }
  check_trained(pair.chosen, "chosen");
  check_trained(pair.rejected, "rejected");
  fit_length(pair, settings, place);
  return pair;
}

}  // namespace xrun
