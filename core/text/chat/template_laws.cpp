// Each law checks one sample and returns its breach, or nothing. A sample that the template refuses
// to render breaks no law.

#include "core/text/chat/template_laws.h"

#include <algorithm>
#include <optional>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/base/utf8.h"
#include "core/text/chat/chat_tokens.h"
#include "core/text/chat/message_ranges.h"
#include "core/text/chat/text_difference.h"
#include "core/text/chat/turn_ends.h"

namespace xrun {

namespace {

// A sample with its sides rendered and tokenised once.
struct LawCase {
  const Tokenizer& tokenizer;
  const ChatTemplate& chat_template;
  const LawSample& sample;
  std::vector<ChatTokens> sides;      // the conversation, or chosen and rejected
  std::vector<const Json*> messages;  // of each side
};

using Breach = std::optional<std::string>;

bool has_assistant(const Json& messages) {
  const Json::Array& all = messages.as_array();
  return std::any_of(all.begin(), all.end(), is_assistant);
}

// The beginning of a side's text, for messages.
std::string head(const ChatTokens& side) {
  return visible_blanks(shortened(side.rendering.text, 60));
}

Breach check_bos(const LawCase& at) {
  const std::vector<int32_t> expected = at.tokenizer.leading_bos();
  // If encoding adds no BOS, only a doubled one is a breach.
  const std::optional<int32_t> bos =
      expected.empty() ? at.tokenizer.bos_id() : std::optional<int32_t>(expected.front());
  if (!bos) return {};
  for (size_t s = 0; s < at.sides.size(); ++s) {
    const std::vector<int32_t>& ids = at.sides[s].ids;
    // A token that opens every message is a turn marker, whatever its name. Even that is a fault
    // twice at the start.
    const auto count = static_cast<size_t>(std::count(ids.begin(), ids.end(), *bos));
    if (count >= at.messages[s]->size() && count > 1 && !(ids.size() > 1 && ids[1] == *bos))
      continue;
    size_t leading = 0;
    while (leading < ids.size() && ids[leading] == *bos) ++leading;
    if (leading > 1) {
      return fmt::format(
          "the rendering starts with the BOS {} {} times, wanted once; the template "
          "writes it twice\n  {}",
          at.tokenizer.piece(*bos), leading, head(at.sides[s]));
    }
    if (leading < expected.size()) {
      return fmt::format(
          "the rendering does not start with the BOS {} that the tokenizer's own "
          "encoding adds; write {{{{ bos_token }}}} at the start of the template\n  {}",
          at.tokenizer.piece(*bos), head(at.sides[s]));
    }
  }
  return {};
}

Breach check_eot_trained(const LawCase& at) {
  for (const ChatTokens& side : at.sides) {
    if (Breach breach = find_open_turn(at.tokenizer, side)) return breach;
  }
  return {};
}

// Renders the first `count` messages alone, with the generation prompt if `prompted`.
std::string render_alone(const LawCase& at, size_t side, size_t count, bool prompted) {
  Json kwargs = at.sample.kwargs.is_null() ? Json::object() : at.sample.kwargs;
  if (prompted) kwargs.set("add_generation_prompt", true);
  return at.chat_template.render(first_messages(*at.messages[side], count), kwargs).text;
}

Breach check_prefix(const LawCase& at) {
  for (size_t s = 0; s < at.sides.size(); ++s) {
    const Json::Array& messages = at.messages[s]->as_array();
    const std::string& whole = at.sides[s].rendering.text;
    // An answer that opens the conversation has no prompt.
    for (size_t turn = 1; turn < messages.size(); ++turn) {
      if (!is_assistant(messages[turn])) continue;
      std::string prompt;
      try {
        prompt = render_alone(at, s, turn, false);
        // The prompt as sampling renders it, with or without a generation prompt: some templates
        // close a conversation that is not a prompt, as Phi-3 does with its end of text.
        if (whole.starts_with(prompt) || whole.starts_with(render_alone(at, s, turn, true))) {
          continue;
        }
      } catch (const Error&) {
        continue;  // some templates refuse to stop there
      }
      return fmt::format(
          "the first {} of {} messages render differently alone, so the model would be trained on "
          "prompts that it never sees\n{}",
          turn, messages.size(), text_difference("alone", prompt, "whole", whole));
    }
  }
  return {};
}

Breach check_mask_not_empty(const LawCase& at) {
  for (size_t s = 0; s < at.sides.size(); ++s) {
    // Without an answer there is nothing to train: the row's fault, not the template's.
    if (!has_assistant(*at.messages[s])) continue;
    const std::vector<uint8_t>& mask = at.sides[s].mask;
    if (std::find(mask.begin(), mask.end(), 1) != mask.end()) continue;
    return fmt::format(
        "nothing is trained: no generation block of the template covers an assistant "
        "turn\n  {}",
        head(at.sides[s]));
  }
  return {};
}

Breach check_shared_prompt(const LawCase& at) {
  if (at.sides.size() < 2) return {};
  const Json& chosen = *at.messages[0];
  const Json& rejected = *at.messages[1];
  const size_t turns = count_shared_turns(at.chat_template, chosen, rejected, at.sample.kwargs);
  std::string_view prompts[2];
  std::vector<int32_t> ids[2];
  for (size_t s = 0; s < 2; ++s) {
    const ChatTokens& side = at.sides[s];
    // Nothing is trained, which mask_not_empty reports.
    if (turns >= side.rendering.turns.size()) return {};
    const size_t begin = side.rendering.turns[turns].begin;
    prompts[s] = std::string_view(side.rendering.text).substr(0, begin);
    // Tokens that are entirely in the prompt.
    for (size_t i = 0; i < side.ids.size() && side.offsets[i].end <= begin; ++i) {
      ids[s].push_back(side.ids[i]);
    }
  }
  if (prompts[0] != prompts[1]) {
    return fmt::format("the prompt renders differently on the two sides\n{}",
                       text_difference("chosen", prompts[0], "rejected", prompts[1]));
  }
  // A token across the boundary may belong to one side only; the others must agree.
  const size_t common = std::min(ids[0].size(), ids[1].size());
  if (!std::equal(ids[0].begin(), ids[0].begin() + static_cast<ptrdiff_t>(common),
                  ids[1].begin())) {
    return std::string(
        "the prompt has different tokens on the two sides, although its text is the same");
  }
  return {};
}

struct Law {
  const char* name;
  const char* statement;            // docs/templates.md repeats it
  Breach (*check)(const LawCase&);  // nullptr: each row is checked when it is encoded
};

constexpr Law kLaws[] = {
    {"bos", "the tokens start with exactly the BOS that the tokenizer would add", check_bos},
    {"eot_trained",
     "a trained turn ends with a special token, or the template writes none of this tokenizer's: "
     "then it is noted that sampling cannot stop at its end of turn",
     check_eot_trained},
    {"prefix", "a prefix of the messages renders as a prefix of the text", check_prefix},
    {kMaskLaw, "something is trained", check_mask_not_empty},
    {"shared_prompt", "chosen and rejected share their prompt", check_shared_prompt},
    {kToolCallsLaw, "the template renders the tool calls of a row; a row that loses one is dropped",
     nullptr},
    {kTurnsLaw, "the template renders every turn that has text; a row that loses one is dropped",
     nullptr},
};

// Returns false if a side does not render: a bad row, not a bad template.
bool prepare(LawCase& at) {
  at.messages.push_back(&at.sample.messages);
  if (!at.sample.rejected.is_null()) at.messages.push_back(&at.sample.rejected);
  try {
    for (const Json* messages : at.messages) {
      at.sides.push_back(encode_chat(at.tokenizer, at.chat_template, *messages, at.sample.kwargs));
    }
  } catch (const Error&) {
    return false;
  }
  return true;
}

}  // namespace

const std::vector<std::string>& law_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    for (const Law& law : kLaws) out.emplace_back(law.name);
    return out;
  }();
  return names;
}

std::string law_statement(const std::string& name) {
  for (const Law& law : kLaws) {
    if (law.name == name) return law.statement;
  }
  return "";
}

void require_law_names(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (std::find(law_names().begin(), law_names().end(), name) != law_names().end()) continue;
    const std::string near = nearest_name(name, law_names());
    throw UsageError(fmt::format("\"{}\" is not a template law; {}the laws are {}", name,
                                 near.empty() ? "" : fmt::format("did you mean {}? ", near),
                                 joined(law_names(), ", ")));
  }
}

std::vector<LawBreach> check_laws(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                                  std::span<const LawSample> samples,
                                  const std::vector<std::string>& disabled) {
  require_law_names(disabled);
  // One entry per law: the first sample that breaks it, and the number of those that do.
  std::vector<LawBreach> found(std::size(kLaws));
  int64_t rendered = 0;
  for (const LawSample& sample : samples) {
    LawCase at{tokenizer, chat_template, sample, {}, {}};
    if (!prepare(at)) continue;
    ++rendered;
    for (size_t i = 0; i < std::size(kLaws); ++i) {
      if (kLaws[i].check == nullptr) continue;
      if (std::find(disabled.begin(), disabled.end(), kLaws[i].name) != disabled.end()) continue;
      Breach breach = kLaws[i].check(at);
      if (!breach) continue;
      if (found[i].samples++ == 0) {
        found[i].law = kLaws[i].name;
        found[i].where = sample.where;
        found[i].message = std::move(*breach);
      }
    }
  }
  for (LawBreach& breach : found) breach.rendered = rendered;
  std::erase_if(found, [](const LawBreach& breach) { return breach.samples == 0; });
  return found;
}

}  // namespace xrun
