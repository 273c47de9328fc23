// Makes a sentence for each pair of rows, such as:
// rows a.jsonl:3 and a.jsonl:7 share 41 tokens, too few to fold (batch.fold_min is 64): token 41 is
// "·Monday" in one and "·Tuesday" in the other, from the text of the system message (line 2 of the
// chat template), after "Today·is"; after "·Monday" and "·Tuesday" the next 80 tokens are equal

#include "core/console/inspect/fold_breaks.h"

#include <algorithm>
#include <tuple>

#include "core/base/strings.h"
#include "core/console/inspect/inspected_pack.h"
#include "core/console/terminal/shown_text.h"

namespace xrun {

namespace {

constexpr size_t kBytesBefore = 24;  // of the common text that is quoted before a break

std::string location(const InspectedBreak::BreakSide& side) {
  return fmt::format("{}:{}", shown_text(side.file, Blanks::kBreaksMarked), side.line);
}

// Returns the text of consecutive tokens, with visible blanks.
std::string quoted(const InspectedSegment& segment, int64_t begin, int64_t count) {
  std::string bytes;
  for (auto t = static_cast<size_t>(begin); t < static_cast<size_t>(begin + count); ++t) {
    // A token without bytes is shown by its id.
    const InspectedToken& token = segment.tokens[t];
    bytes += token.bytes.empty() ? token.shown : token.bytes;
  }
  return '"' + shown_text(bytes, Blanks::kMarked) + '"';
}

// Returns true if the differing tokens spell the same text except for blanks.
bool same_without_blanks(const InspectedSegment& a, const InspectedSegment& b,
                         const RowBreak& found) {
  // Compares texts, because tokens may divide the same text differently.
  const auto letters = [&](const InspectedSegment& segment, int64_t count) {
    std::string bytes;
    for (int64_t t = found.at.position; t < found.at.position + count; ++t) {
      bytes += segment.tokens[static_cast<size_t>(t)].bytes;
    }
    std::erase_if(bytes, [](char c) { return kBlanks.find(c) != std::string_view::npos; });
    return bytes;
  };
  return letters(a, found.differing_a) == letters(b, found.differing_b);
}

// Returns the role of the message that wrote a byte, or "".
std::string role_at(const RowTrace::Stream& trace, size_t byte) {
  // A generation block belongs to the assistant, whatever the message ranges say.
  for (const ByteRange turn : trace.rendering.turns) {
    if (turn.begin <= byte && byte < turn.end) return "assistant";
  }
  for (const MessageRange& range : trace.messages) {
    if (range.bytes.begin <= byte && byte < range.bytes.end) {
      return shown_text(range.role, Blanks::kBreaksMarked);
    }
  }
  return "";
}

InspectedBreak::BreakSide side_of(const InspectedSegment& segment, const RowTrace::Stream* trace,
                                  int64_t position) {
  const InspectedToken& token = segment.tokens[static_cast<size_t>(position)];
  InspectedBreak::BreakSide side;
  side.file = segment.file;
  side.line = segment.line;
  side.side = segment.side;
  side.token = token.id;
  side.text = token.bytes.empty() ? token.shown : shown_text(token.bytes, Blanks::kMarked);
  side.origin = token_origin_name(token.origin);
  // There is no rendering of a window, or of a row that could not be rendered again.
  if (trace == nullptr) return side;
  const size_t byte = trace->offsets[static_cast<size_t>(position)].begin;
  side.role = role_at(*trace, byte);
  side.template_line = line_at(trace->rendering, byte);
  return side;
}

// "from line 2 of the chat template (system message)"; "" if nothing is known.
std::string origin_text(const InspectedBreak::BreakSide& side) {
  if (side.origin.empty()) return "";
  const std::string line = side.template_line > 0
                               ? fmt::format("line {} of the chat template", side.template_line)
                               : "the chat template";
  const std::string message = side.role.empty() ? "" : fmt::format("{} message", side.role);
  if (side.origin == "template") {
    return fmt::format("from {}{}", line, message.empty() ? "" : fmt::format(" ({})", message));
  }
  const std::string text =
      message.empty() ? "the row's text" : fmt::format("the text of the {}", message);
  return side.origin == "both" ? fmt::format("from {} and {}", line, text)
                               : fmt::format("from {} ({})", text, line);
}

// Names the rows and what they share.
std::string shared_text(const InspectedBreak& found, bool same_row, int64_t min_run) {
  std::string text =
      same_row ? fmt::format("the two answers of {}", location(found.sides[0]))
               : fmt::format("rows {} and {}", location(found.sides[0]), location(found.sides[1]));
  text += fmt::format(" share {}", counted(found.position, "token"));
  if (found.position > 0 && found.position < min_run) {
    text += fmt::format(", too few to fold (batch.fold_min is {})", count_text(min_run));
  }
  return text;
}

// Names the first token that differs, with its text and origin.
std::string token_text(const InspectedBreak& found, bool same_row) {
  const InspectedBreak::BreakSide& a = found.sides[0];
  const InspectedBreak::BreakSide& b = found.sides[1];
  // The answers of one pair have names.
  const char* const in_a = same_row ? "the chosen one" : "one";
  const char* const in_b = same_row ? "the rejected one" : "the other";
  const std::string from_a = origin_text(a), from_b = origin_text(b);
  // A common origin is named once, after the second token.
  const bool equal = from_a == from_b;
  const auto after_comma = [](const std::string& from) { return from.empty() ? "" : ", " + from; };
  return fmt::format("token {} is \"{}\" in {}{} and \"{}\" in {}{}", count_text(found.position),
                     a.text, in_a, equal || from_a.empty() ? "" : after_comma(from_a) + ",", b.text,
                     in_b, after_comma(from_b));
}

// Explains the causes that the token alone does not explain.
std::string cause_text(const RowBreak& found, const InspectedSegment& a,
                       const InspectedSegment& b) {
  const int64_t position = found.at.position;
  switch (found.cause) {
    case BreakCause::kTemplate:
      return fmt::format(
          "; both begin with the same {}, which the template renders differently",
          found.equal_messages == 1 ? "message" : count_text(found.equal_messages) + " messages");
    case BreakCause::kMerged:
      return "; this token joins the end of the prompt with the beginning of the answer";
    case BreakCause::kText: {
      const bool blanks = same_without_blanks(a, b, found);
      // After an insertion, one side has no differing token.
      const std::string of_a = found.differing_a > 0 ? quoted(a, position, found.differing_a) : "";
      const std::string of_b = found.differing_b > 0 ? quoted(b, position, found.differing_b) : "";
      const char* const both = of_a.empty() || of_b.empty() ? "" : " and ";
      return fmt::format("; {} the next {} are equal",
                         blanks ? "only blanks differ," : "after " + of_a + both + of_b,
                         counted(found.equal_after, "token"));
    }
    // The token and its origin explain any other cause.
    default: return "";
  }
}

std::string sentence_of(const InspectedBreak& shown, const RowBreak& found,
                        const InspectedSegment& a, const InspectedSegment& b, int64_t min_run) {
  const bool same_row = a.row == b.row && a.side != b.side;  // the two answers of a pair
  const std::string shared = shared_text(shown, same_row, min_run);
  if (found.cause == BreakCause::kFrequencies) {
    return fmt::format(
        "{} but not their rotary frequencies, which depend on the length (here {} and {} tokens)",
        shared, count_text(std::ssize(a.tokens)), count_text(std::ssize(b.tokens)));
  }
  int64_t before = found.at.position;
  // Goes back by whole tokens until there is enough text.
  for (size_t bytes = 0; before > 0 && bytes < kBytesBefore;) {
    bytes += a.tokens[static_cast<size_t>(--before)].bytes.size();
  }
  const std::string after =
      before == found.at.position ? "" : ", after " + quoted(a, before, found.at.position - before);
  return fmt::format("{}: {}{}{}", shared, token_text(shown, same_row), after,
                     cause_text(found, a, b));
}

ComparedRow compared_row(const InspectedSegment& segment, const std::vector<int32_t>& ids,
                         const FoldSettings& fold, const RowTrace::Stream* trace) {
  ComparedRow row;
  row.tokens = ids;
  for (const InspectedToken& token : segment.tokens) row.trained.push_back(token.target ? 1 : 0);
  if (fold.frequency_class) row.frequency_class = fold.frequency_class(std::ssize(ids));
  row.trace = trace;
  return row;
}

}  // namespace

// Compares rows of different packs too.
void add_breaks(const FoldSettings& fold, const StreamOf& stream_of, InspectedStep& step) {
  if (!fold.folds()) return;
  std::vector<const InspectedSegment*> segments;
  std::vector<InspectedPack*> packs;  // the pack of each segment
  for (InspectedPack& pack : step.packs) {
    for (const InspectedSegment& segment : pack.segments) {
      segments.push_back(&segment);
      packs.push_back(&pack);
    }
  }
  std::vector<std::vector<int32_t>> ids(segments.size());
  std::vector<ComparedRow> rows;
  for (size_t s = 0; s < segments.size(); ++s) {
    for (const InspectedToken& token : segments[s]->tokens) ids[s].push_back(token.id);
    rows.push_back(compared_row(*segments[s], ids[s], fold, stream_of(*segments[s])));
  }
  for (const RowBreak& found : find_row_breaks(rows, fold.min_run)) {
    const InspectedSegment& a = *segments[found.a];
    const InspectedSegment& b = *segments[found.b];
    InspectedBreak shown;
    shown.cause = found.cause;
    shown.position = found.at.position;
    shown.sides = {side_of(a, rows[found.a].trace, shown.position),
                   side_of(b, rows[found.b].trace, shown.position)};
    shown.sentence = sentence_of(shown, found, a, b, fold.min_run);
    packs[found.b]->breaks.push_back(std::move(shown));
  }
}

std::string unfolded_text(const PackedBatch& pack, const FoldSettings& fold,
                          const std::vector<int64_t>& frequency_classes) {
  // Folds as if folding were forced, to show the saving that is missed.
  FoldSettings always = fold;
  always.mode = FoldMode::kAlways;
  const std::optional<FoldedPack> tree = fold_where_it_pays(pack, always, frequency_classes);
  if (!tree) return "";
  const std::string saving =
      fmt::format("folding would compute {} of {} tokens", count_text(tree->token_count()),
                  count_text(tree->logical_tokens()));
  if (fold.mode == FoldMode::kAuto) {
    return fmt::format("{}; \"auto\" folds only from {:g} tokens per computed token", saving,
                       fold.min_ratio);
  }
  const bool pays = tree->ratio() >= fold.min_ratio;
  return pays && !fold.off.empty() ? fmt::format("{}; {}", fold.off, saving) : "";
}

std::string BreakGroup::text() const {
  if (count == 1) return example->sentence;
  return fmt::format("{} ({} more like it)", example->sentence, count_text(count - 1));
}

std::vector<BreakGroup> break_groups(std::span<const InspectedPack> packs) {
  const auto kind = [](const InspectedBreak& one) {
    // The tokens of short and frequency breaks explain nothing, so these are grouped by cause
    // alone.
    const bool by_token = one.cause != BreakCause::kShort && one.cause != BreakCause::kFrequencies;
    const InspectedBreak::BreakSide& side = one.sides[0];
    return by_token ? std::tuple(one.cause, side.role, side.template_line)
                    : std::tuple(one.cause, std::string(), int32_t{0});
  };
  std::vector<BreakGroup> groups;
  for (const InspectedPack& pack : packs) {
    for (const InspectedBreak& found : pack.breaks) {
      const auto same = std::find_if(groups.begin(), groups.end(), [&](const BreakGroup& group) {
        return kind(*group.example) == kind(found);
      });
      if (same == groups.end()) {
        groups.push_back({&found, 1});
      } else {
        ++same->count;
      }
    }
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const BreakGroup& x, const BreakGroup& y) { return x.count > y.count; });
  return groups;
}

}  // namespace xrun
