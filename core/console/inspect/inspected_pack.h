#pragma once
// The packs of a step as they will train: plain values, shown as text, JSON or a page.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"
#include "core/console/inspect/fold_breaks.h"
#include "core/console/terminal/console.h"
#include "core/data/packs/data_set.h"
#include "core/data/packs/packed_batch.h"
#include "core/prefix/fold_settings.h"

namespace xrun {

// Origin of a token's bytes.
enum class TokenOrigin { kUnknown, kTemplate, kMessage, kBoth };
const char* token_origin_name(TokenOrigin origin);  // "", "template", "message", "both"

struct InspectedToken {
  int32_t id = 0;
  int32_t position = 0;  // in its segment
  std::string bytes;     // of the vocabulary; "" for an id without a piece
  std::string shown;     // safe text with visible blanks; "<#50300>" without a piece; a character
                         // that spans several tokens is shown at the last one, "┈" at the others
  float weight = 0;      // of its loss; 0: not trained
  bool target = false;   // has a loss row, whose weight may be 0
  bool special = false;
  TokenOrigin origin = TokenOrigin::kUnknown;
  std::optional<float> policy, reference;  // log-probs
};

// Consecutive tokens of one message. A token across a border belongs to the later message.
struct InspectedTurn {
  std::string role;      // "user"; "template" outside messages
  int64_t message = -1;  // from 0; -1: outside messages
  size_t begin = 0;      // the first token, an index in the segment
};

struct InspectedSegment {
  std::string file;
  int64_t line = 0;           // from 1
  int64_t row = -1;           // of the data set
  int64_t pair = -1;          // unique in the step; -1: no pair
  int8_t side = 0;            // +1 chosen, -1 rejected
  float weight = 1;           // of the row
  std::optional<bool> label;  // of feedback: is the answer desirable?
  std::vector<InspectedToken> tokens;
  std::vector<InspectedTurn> turns;  // empty: roles are unknown; else the first begins at 0
  int64_t cut_tokens = 0;            // tokens that over_length = "cut" removed from its end
  std::string cut_text;              // the beginning of the removed text; "" if unknown
  std::vector<std::string> remarks;  // on oddities and on what is unknown

  int64_t targets() const;
};
const char* side_name(int8_t side);  // "chosen", "rejected", ""

// The tree of a folded pack.
struct InspectedFold {
  FoldedPack tree;
  std::vector<int32_t> flat_of;  // index in the tree of each shown token, segments end to end
  struct InspectedNode {
    int64_t tokens = 0, segments = 0;
    std::string text;               // its beginning, safe
    std::vector<std::string> ends;  // segments that end in it, not safe: "chosen pairs.jsonl:17"
  };
  std::vector<InspectedNode> nodes;  // in the order of tree.parent
};

struct InspectedPack {
  int64_t index = 0;                // in the step
  int64_t tokens = 0, targets = 0;  // of all its segments, shown or not
  int64_t left_out = 0;             // segments that are not shown
  std::vector<InspectedSegment> segments;
  std::optional<InspectedFold> fold;   // nullopt: every token is computed
  std::string unfolded;                // the reason, if segments share prefixes but are not folded
  std::vector<InspectedBreak> breaks;  // between its rows and earlier ones of the step
};

// Returns the rejected side of the pair whose chosen side is segment s; nullptr if there is none.
const InspectedSegment* rejected_after(const InspectedPack& pack, size_t s);
// Returns the first turn that begins at or after a token, or turns.end().
std::vector<InspectedTurn>::const_iterator turn_from(const InspectedSegment& segment, size_t token);

// The packs that one data set contributes to a step.
struct InspectedStep {
  std::string recipe;
  std::string data;             // "pairs.jsonl"
  int64_t step = 0, steps = 0;  // steps 0: no end
  int64_t units = 0, units_left_out = 0;
  std::string unit_name;                            // "pair"
  int64_t max_tokens = 0;                           // limit of a pack
  int64_t pack_count = 0, tokens = 0, targets = 0;  // of the whole step, shown or not
  int64_t computed = 0;                             // tokens after folding
  std::vector<InspectedPack> packs;                 // those with a segment to show
  Ledger ledger;                                    // of the set
};

// Inputs of inspect_step.
struct InspectedSource {
  const DataSet& set;
  const Tokenizer& tokenizer;
  std::string recipe, data;
  int64_t step = 0, steps = 0, max_tokens = 0;
  int64_t first_pair = 0;  // number of pairs in earlier sets of the step
  FoldSettings fold = {};
  // Segments of a pack that may share tokens, as FoldOptions::frequency_classes; empty: all.
  std::function<std::vector<int64_t>(const PackedBatch&)> frequency_classes = {};
};

// Returns the values of the packs that the set made of `units`. Only the first `rows` units are
// shown (negative: all). Their rows are read again for roles and origins.
InspectedStep inspect_step(const InspectedSource& source, const std::vector<int64_t>& units,
                           const std::vector<PackedBatch>& packs, int64_t rows = -1);

// Likewise for a step of a plan, counted from the plan's first one.
InspectedStep inspect_step(const InspectedSource& source, const StepPlan& plan, int64_t plan_step,
                           int64_t rows = -1);

// Returns the number of tokens at the beginning of both segments that are equal in id, target and
// weight.
size_t shared_tokens(const InspectedSegment& a, const InspectedSegment& b);

// The nodes of a tree that are drawn, in the order of the pack.
struct FoldTreeNodes {
  std::vector<size_t> shared;  // every root that several sequences share, and all nodes below it
  int64_t alone = 0;           // sequences that share nothing
};
FoldTreeNodes fold_tree_nodes(const InspectedFold& fold);

// Returns "3 sequences that share nothing".
std::string shares_nothing_text(int64_t alone);

// Draws a tree with a line of at most `width` columns per node: "├─ 1,024 tokens x2:
// <|im_start|>...", where x2 means that two sequences share it. One line counts the sequences that
// share nothing.
std::vector<std::string> fold_tree_lines(const InspectedFold& fold, int width);

struct PackTextStyle {
  ColorDepth colors = ColorDepth::kNone;
  int width = 80;  // no line is wider; at least 1
};

// The least width at which the sides of a pair are side by side, not one below the other.
constexpr int kSideBySideWidth = 100;

// Returns the head of a step, a block per segment or pair, and a footer: trained tokens, fill,
// dropped and cut rows, and the meaning of colours or marks. Every line ends with a newline.
// Foreign text has passed shown_text.
std::string step_text(const InspectedStep& step, const PackTextStyle& style);

// Returns a pack as an object. Always:
//   step, pack, data, max_tokens
//   tokens, position_ids, cu_seqlens
//   labels, weights  at the predicted token, as in Hugging Face's data sets; -100 and 0 elsewhere
//   rows             per segment: file, line, side ("chosen", "rejected" or null), pair (or null),
//                    weight, cut_tokens, turns (role, message, begin: a token of the segment), and
//                    for feedback label (true or false)
//   left_out         number of segments that are not shown
// If they apply:
//   logprobs  policy, reference: null for tokens that are not scored
//   fold      tokens, position_ids, prev, end: of the computed tokens; flat_of: the index of every
//             shown token among them
//   unfolded  the reason that a pack with shared prefixes is not folded
//   breaks    per pair of rows that look alike and do not share: cause ("template", "merged",
//             "text", "frequencies" or "short"; BreakCause), position (the number of tokens that
//             both share), text (the break in words), rows (for both, the first token that is not
//             shared: file, line, side, token, token_text, origin, role, template_line; null where
//             unknown)
Json pack_json(const InspectedStep& step, const InspectedPack& pack);

// Returns one self-contained page with search. Tokens are coloured by loss weight (palette.h),
// special ones underlined, the template's own text in italics. The sides of a pair are side by side
// below their shared prefix. Hovering over a token shows its id, position, weight, origin and
// log-probs.
std::string pack_page(const std::vector<InspectedStep>& steps);

}  // namespace xrun
