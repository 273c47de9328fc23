// Ids, weights and positions come from the packs that train; segment_traces.cpp adds roles and
// origins.

#include "core/console/inspect/inspected_pack.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "core/base/utf8.h"
#include "core/console/inspect/segment_traces.h"
#include "core/console/terminal/shown_text.h"
#include "core/text/tokenizer/token_bytes.h"

namespace xrun {

namespace {

// The tokens of the vocabulary, each decoded once.
struct TokenPieces {
  explicit TokenPieces(const Tokenizer& of) : tokenizer(of), bytes(of) {}

  InspectedToken token(int32_t id) {
    const auto [found, is_new] = known.try_emplace(id);
    if (is_new) {
      InspectedToken& token = found->second;
      token.id = id;
      token.bytes = bytes.of(id);
      token.special = tokenizer.is_special(id);
      token.shown = token.bytes.empty() ? "<#" + std::to_string(id) + ">"
                                        : shown_text(token.bytes, Blanks::kMarked);
    }
    return found->second;
  }

  const Tokenizer& tokenizer;
  TokenBytes bytes;
  std::unordered_map<int32_t, InspectedToken> known;
};

constexpr const char* kContinued = "┈";  // stands for the bytes of a character that ends later

// Shows a character that spans several tokens at the last of them, so that text of any script can
// be read. Changes only `shown`, not `bytes`.
void join_characters(std::vector<InspectedToken>& tokens) {
  std::string carried;  // moved here from the tokens before
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::string text = std::exchange(carried, "") + tokens[i].bytes;
    // The token may leave a character incomplete.
    const size_t open = open_utf8_bytes(text);
    std::string character = text.substr(text.size() - open);
    size_t j = i + 1;  // the token that ends it
    // A character has at most four bytes.
    for (; open > 0 && j < tokens.size() && character.size() < 4; ++j) {
      const std::string& next = tokens[j].bytes;
      size_t taken = 0;
      while (taken < next.size() && is_continuation(next[taken])) ++taken;
      if (taken == 0) break;
      character += next.substr(0, taken);
      // Other bytes after the continuation begin another character.
      if (taken < next.size() || read_utf8(character, 0).valid) break;
    }
    // If later tokens complete the character that this one leaves open, it moves to the next token.
    const bool ends = open > 0 && j < tokens.size() && read_utf8(character, 0).valid;
    if (ends) carried = text.substr(text.size() - open);
    // If nothing moved in or out, `shown` is right already.
    if (!ends && text.size() == tokens[i].bytes.size()) continue;
    const std::string whole = text.substr(0, text.size() - (ends ? open : 0));
    tokens[i].shown = shown_text(whole, Blanks::kMarked) + (ends ? kContinued : "");
  }
}

void fill_tokens(InspectedSegment& segment, const PackedBatch& pack, size_t s,
                 TokenPieces& pieces) {
  const auto begin = static_cast<size_t>(pack.cu_seqlens[s]);
  const auto end = static_cast<size_t>(pack.cu_seqlens[s + 1]);
  for (size_t t = begin; t < end; ++t) {
    segment.tokens.push_back(pieces.token(pack.tokens[t]));
    segment.tokens.back().position = pack.position_ids[t];
  }
  join_characters(segment.tokens);
}

// Adds the loss rows to the tokens: row r predicts the token after its slot.
void fill_weights(const PackedBatch& pack, const std::vector<InspectedSegment*>& segments) {
  for (size_t r = 0; r < pack.rows.hidden.size(); ++r) {
    const auto s = static_cast<size_t>(pack.rows.segment[r]);
    if (segments[s] == nullptr) continue;
    InspectedToken& token =
        segments[s]->tokens[static_cast<size_t>(pack.rows.hidden[r] + 1 - pack.cu_seqlens[s])];
    token.target = true;
    token.weight = pack.rows.weight[r];
  }
}

InspectedSegment start_segment(const InspectedSource& source, const PackedBatch& pack, size_t s) {
  InspectedSegment segment;
  segment.row = pack.row_id[s];
  // Pairs are numbered over all sets of the step.
  segment.pair = pack.pair_id[s] < 0 ? -1 : pack.pair_id[s] + source.first_pair;
  segment.side = pack.side[s];
  segment.weight = pack.weight[s];
  if (source.set.kind() == RowKind::kFeedback) {
    segment.label = source.set.label(segment.row) != 0;
  }
  const std::string location = source.set.location(segment.row);
  // From the end: a file's name may hold colons.
  const size_t colon = location.rfind(':');
  segment.file = location.substr(0, colon);
  segment.line = std::stoll(location.substr(colon + 1));
  return segment;
}

constexpr size_t kNodeText = 24;  // tokens; enough to recognise a node

// "chosen pairs.jsonl:17"
std::string end_name(const InspectedSource& source, const PackedBatch& pack, size_t s) {
  const std::string side = side_name(pack.side[s]);
  return fmt::format("{}{}{}", side, side.empty() ? "" : " ", source.set.location(pack.row_id[s]));
}

std::optional<InspectedFold> inspected_fold(const InspectedSource& source, const PackedBatch& pack,
                                            const std::vector<InspectedSegment*>& shown,
                                            const std::vector<int64_t>& classes,
                                            TokenPieces& pieces) {
  std::optional<FoldedPack> tree = fold_where_it_pays(pack, source.fold, classes);
  if (!tree) return std::nullopt;
  InspectedFold fold;
  for (size_t s = 0; s < shown.size(); ++s) {
    if (shown[s] == nullptr) continue;
    fold.flat_of.insert(fold.flat_of.end(), tree->flat_of.begin() + pack.cu_seqlens[s],
                        tree->flat_of.begin() + pack.cu_seqlens[s + 1]);
  }
  for (size_t n = 0; n < tree->parent.size(); ++n) {
    InspectedFold::InspectedNode& node = fold.nodes.emplace_back();
    const auto begin = static_cast<size_t>(tree->node_begin[n]);
    const auto end = static_cast<size_t>(tree->node_begin[n + 1]);
    node.tokens = static_cast<int64_t>(end - begin);
    node.segments = tree->segments[n];
    for (size_t t = begin; t < std::min(end, begin + kNodeText); ++t) {
      node.text += pieces.token(tree->tokens[t]).bytes;
    }
    node.text = shown_text(node.text, Blanks::kBreaksMarked);
  }
  // The path of a sequence ends at its leaf.
  for (size_t s = 0; s < tree->leaf.size(); ++s) {
    fold.nodes[static_cast<size_t>(tree->leaf[s])].ends.push_back(end_name(source, pack, s));
  }
  fold.tree = std::move(*tree);
  return fold;
}

}  // namespace

const char* token_origin_name(TokenOrigin origin) {
  constexpr const char* kNames[] = {"", "template", "message", "both"};
  return kNames[static_cast<size_t>(origin)];
}

const char* side_name(int8_t side) { return side > 0 ? "chosen" : side < 0 ? "rejected" : ""; }

int64_t InspectedSegment::targets() const {
  return std::count_if(tokens.begin(), tokens.end(),
                       [](const InspectedToken& token) { return token.target; });
}

InspectedStep inspect_step(const InspectedSource& source, const std::vector<int64_t>& units,
                           const std::vector<PackedBatch>& packs, int64_t rows) {
  InspectedStep step;
  step.recipe = source.recipe;
  step.data = source.data;
  step.step = source.step;
  step.steps = source.steps;
  step.units = static_cast<int64_t>(units.size());
  step.unit_name = source.set.unit_name();
  step.ledger = source.set.ledger();
  step.max_tokens = source.max_tokens;
  step.pack_count = static_cast<int64_t>(packs.size());
  const int64_t shown = rows < 0 ? step.units : std::min(rows, step.units);
  step.units_left_out = step.units - shown;
  TokenPieces pieces(source.tokenizer);
  // Windows are planned without folding, so nothing explains why they are not folded. A pack of
  // them may still fold.
  const bool windows = source.set.window_length() > 0;
  for (size_t p = 0; p < packs.size(); ++p) {
    const PackedBatch& packed = packs[p];
    InspectedPack pack;
    pack.index = static_cast<int64_t>(p);
    pack.tokens = packed.token_count();
    pack.targets = packed.rows.size();
    step.tokens += pack.tokens;
    step.targets += pack.targets;
    const auto count = static_cast<size_t>(packed.segment_count());
    // Pointers into `segments` are taken below, so it must not reallocate.
    pack.segments.reserve(count);
    std::vector<InspectedSegment*> shown_segments(count, nullptr);
    for (size_t s = 0; s < count; ++s) {
      // A group id is the index of a unit of the step.
      if (packed.group_id[s] >= shown) continue;
      pack.segments.push_back(start_segment(source, packed, s));
      shown_segments[s] = &pack.segments.back();
      fill_tokens(*shown_segments[s], packed, s, pieces);
    }
    pack.left_out = static_cast<int64_t>(count - pack.segments.size());
    const auto classes =
        source.frequency_classes ? source.frequency_classes(packed) : std::vector<int64_t>();
    pack.fold = inspected_fold(source, packed, shown_segments, classes, pieces);
    if (!pack.fold && !windows) pack.unfolded = unfolded_text(packed, source.fold, classes);
    // Counts the whole pack, even if only some of its segments are shown.
    step.computed += pack.fold ? pack.fold->tree.token_count() : pack.tokens;
    fill_weights(packed, shown_segments);
    if (!pack.segments.empty()) step.packs.push_back(std::move(pack));
  }
  const SegmentTraces traces(source, step);
  trace_segments(source, traces, step);
  if (!windows) {
    add_breaks(
        source.fold, [&](const InspectedSegment& one) { return traces.stream(one); }, step);
  }
  return step;
}

InspectedStep inspect_step(const InspectedSource& source, const StepPlan& plan, int64_t plan_step,
                           int64_t rows) {
  const std::vector<int64_t> units = source.set.step_units(plan, plan_step);
  const PackLimits limits = pack_limits(source.max_tokens, source.fold);
  return inspect_step(source, units, source.set.pack(units, limits), rows);
}

// In a pack the rejected answer of a pair follows the chosen one.
const InspectedSegment* rejected_after(const InspectedPack& pack, size_t s) {
  const bool pair = pack.segments[s].side > 0 && s + 1 < pack.segments.size() &&
                    pack.segments[s + 1].pair == pack.segments[s].pair;
  return pair ? &pack.segments[s + 1] : nullptr;
}

std::vector<InspectedTurn>::const_iterator turn_from(const InspectedSegment& segment,
                                                     size_t token) {
  return std::lower_bound(segment.turns.begin(), segment.turns.end(), token,
                          [](const InspectedTurn& one, size_t at) { return one.begin < at; });
}

size_t shared_tokens(const InspectedSegment& a, const InspectedSegment& b) {
  // Also compares mask and weight, because the shared prefix is shown once for both sides.
  const auto same = [](const InspectedToken& x, const InspectedToken& y) {
    return x.id == y.id && x.target == y.target && x.weight == y.weight;
  };
  const auto [end, ignored] =
      std::mismatch(a.tokens.begin(), a.tokens.end(), b.tokens.begin(), b.tokens.end(), same);
  return static_cast<size_t>(end - a.tokens.begin());
}

}  // namespace xrun
