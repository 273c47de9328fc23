// Packs the units of a data set. Every pack is validated before it is returned, and aligned first
// if the set is.

#include <algorithm>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/data/packs/companion_source.h"
#include "core/data/packs/data_set_state.h"
#include "core/data/packs/pack.h"
#include "core/data/packs/split.h"
#include "core/data/rows/data_fault.h"

namespace xrun {

namespace {

constexpr int64_t kCanonicalRows = 256;  // bounds the rows whose lengths are read for one pack

UnitTokens token_lists(const std::vector<TokenStream>& streams) {
  UnitTokens lists;
  for (const TokenStream& stream : streams) lists.emplace_back(stream.ids);
  return lists;
}

// Returns true if a piece of a document gives a loss; any other piece is left out.
bool has_target(const TokenStream& tokens, float weight) {
  // Nothing in the piece predicts its first token.
  return weight > 0 &&
         std::find(tokens.trained.begin() + 1, tokens.trained.end(), 1) != tokens.trained.end();
}

}  // namespace

// Names a row that does not fit, and the settings that would admit it.
void DataSet::fail_too_long(int64_t row, int64_t tokens, const PackLimits& limits) const {
  const int64_t max_tokens = limits.max_tokens;
  const State::SourceRow at = state_->find(row);
  std::string sides;
  if (kind() == RowKind::kPreference) {
    sides = fmt::format(" ({} chosen, {} rejected)",
                        count_text(at.source.cache->length(at.row, kChosen)),
                        count_text(at.source.cache->length(at.row, kRejected)));
    if (limits.fold) {
      sides += fmt::format(", {} with the shared prefix once",
                           count_text(folded_row_tokens(row, limits)));
    }
  }
  const SourceLine line = at.source.cache->at(at.row);
  const std::vector<std::string>& files = at.source.cache->ledger().files;
  std::vector<PastedSetting> settings = {
      {fmt::format("batch.max_tokens={}", longest_in_pack(limits)),
       "the longest row fits into a micro-batch; needs more memory"}};
  // A pair is certain to fit if each side has at most half of max_tokens.
  const int64_t length = kind() == RowKind::kPreference ? max_tokens / 2 : max_tokens;
  if (has_row_within(length)) {
    settings.push_back(
        {fmt::format("max_length={} --set over_length=drop", length), "leave longer rows out"});
    settings.push_back(
        {fmt::format("max_length={} --set over_length=cut", length),
         "cut longer rows; one whose prompt alone fills it is left out and counted"});
  }
  throw data_error(fmt::format("{}: the {} has {} tokens{}, batch.max_tokens is {}", location(row),
                               unit_name(), count_text(tokens), sides, count_text(max_tokens)),
                   row_of_file(files.at(static_cast<size_t>(line.file)), line.line), settings);
}

// Returns the smallest batch.max_tokens that holds every row.
int64_t DataSet::longest_in_pack(const PackLimits& limits) const {
  int64_t longest = 0;
  // Counts all rows, so that the number also fits the other part of a split, which is read later.
  for (const State::MixedSource& source : state_->sources) {
    for (int64_t i = 0; i < source.cache->size(); ++i) {
      const int64_t row = source.first_row + i;
      // Folding only removes tokens, so rows that are shorter unfolded need not be read.
      if (tokens(row) <= longest) continue;
      longest = std::max(longest, limits.fold ? folded_row_tokens(row, limits) : tokens(row));
    }
  }
  return longest;
}

bool DataSet::has_row_within(int64_t length) const {
  for (size_t s = 0; s < state_->sources.size(); ++s) {
    const RowCache& cache = *state_->sources[s].cache;
    const RowSelection::SourceRange& range = selection_->ranges[s];
    for (int64_t i = 0; i < range.size(); ++i) {
      bool within = true;
      for (size_t stream = 0; stream < cache.stream_count(); ++stream) {
        within &= cache.length(range.at(i), stream) <= length;
      }
      if (within) return true;
    }
  }
  return false;
}

// Returns all sides of a row: one stream, or chosen and rejected.
std::vector<TokenStream> DataSet::read_streams(int64_t row) const {
  const State::SourceRow at = state_->find(row);
  std::vector<TokenStream> streams(static_cast<size_t>(at.source.cache->stream_count()));
  for (size_t s = 0; s < streams.size(); ++s) at.source.cache->read(at.row, s, streams[s]);
  return streams;
}

int64_t DataSet::folded_row_tokens(int64_t row, const PackLimits& limits) const {
  const std::vector<TokenStream> streams = read_streams(row);
  const UnitTokens unit = token_lists(streams);
  return folded_tokens(std::span(&unit, 1), limits);
}

// Called before step 0, so that no run ends at step 900 because of one row.
void DataSet::check_fits(const PackLimits& limits) const {
  const int64_t max_tokens = limits.max_tokens;
  XRUN_CHECK(window_length() <= max_tokens,
             "a window has {} tokens, batch.max_tokens is {}; lower max_length", window_length(),
             max_tokens);
  if (windows_) return;
  for (size_t s = 0; s < state_->sources.size(); ++s) {
    const State::MixedSource& source = state_->sources[s];
    // The cache knows its longest row; rows are visited only to find one in this selection.
    if (source.cache->longest().value <= max_tokens) continue;
    const RowSelection::SourceRange& range = selection_->ranges[s];
    for (int64_t i = 0; i < range.size(); ++i) {
      const int64_t tokens = source.cache->tokens(range.at(i));
      if (tokens <= max_tokens) continue;
      const int64_t row = source.first_row + range.at(i);
      // A pack shares the prefix of the sides, so the row may still fit.
      if (limits.fold && folded_row_tokens(row, limits) <= max_tokens) continue;
      fail_too_long(row, tokens, limits);
    }
  }
}

int64_t DataSet::unit_tokens(int64_t unit) const {
  if (!windows_) return tokens(unit);
  int64_t sum = 0;
  for (const TextWindows::WindowPiece& piece : windows_->pieces(unit))
    sum += piece.end - piece.begin;
  return sum;
}

void DataSet::append_unit(PackedBatch& batch, int64_t unit, int64_t index,
                          const std::vector<TokenStream>& streams) const {
  const State::SourceRow at = state_->find(unit);
  const bool is_pair = kind() == RowKind::kPreference;
  // Stream 0 of a pair is the chosen side, 1 the rejected one.
  for (int64_t s = 0; s < std::ssize(streams); ++s) {
    const TokenStream& tokens = streams[static_cast<size_t>(s)];
    PackedBatch::Segment segment;
    segment.row_id = unit;
    segment.pair_id = is_pair ? index : -1;
    segment.group_id = index;
    // Unique in the step, and ascending in the order of the stream.
    segment.segment_id = std::ssize(streams) * index + s;
    segment.source = static_cast<int32_t>(at.index);
    segment.side = static_cast<int8_t>(is_pair ? (s == 0 ? 1 : -1) : 0);
    segment.weight = at.source.cache->weight(at.row);
    batch.append(segment, tokens.ids, tokens.trained, tokens.weights);
  }
}

void DataSet::append_window(PackedBatch& batch, int64_t unit, int64_t index) const {
  const size_t s = windows_->source_of(unit);
  const State::MixedSource& source = state_->sources[s];
  TokenStream tokens;
  int64_t number = 0;
  for (const TextWindows::WindowPiece& piece : windows_->pieces(unit)) {
    // Reads only the tokens of the piece, not the whole document.
    source.cache->read_part(piece.row, 0, piece.begin, piece.end, tokens);
    // No loss would read the forward of such a piece.
    if (!has_target(tokens, source.cache->weight(piece.row))) continue;
    PackedBatch::Segment segment;
    segment.row_id = source.first_row + piece.row;
    segment.group_id = index;
    // A window has at most `length` pieces, so ids are unique and rise with the unit.
    segment.segment_id = index * windows_->length + number++;
    segment.source = static_cast<int32_t>(s);
    segment.weight = source.cache->weight(piece.row);
    batch.append(segment, tokens.ids, tokens.trained, tokens.weights);
  }
}

std::vector<PackedBatch> DataSet::pack(const std::vector<int64_t>& units,
                                       const PackLimits& limits) const {
  // Windows are pieces of running text and seldom share prefixes.
  if (limits.fold && !windows_) return pack_folded(units, limits);
  std::vector<int64_t> sizes;
  for (const int64_t unit : units) {
    sizes.push_back(unit_tokens(unit));
    if (!windows_ && sizes.back() > limits.max_tokens) fail_too_long(unit, sizes.back(), limits);
  }
  std::vector<PackedBatch> batches;
  for (const std::vector<int64_t>& pack : best_fit_decreasing(sizes, limits.max_tokens)) {
    PackedBatch batch;
    for (const int64_t index : pack) {
      // The index into `units` makes group and pair ids independent of the packs.
      const int64_t unit = units[static_cast<size_t>(index)];
      windows_ ? append_window(batch, unit, index)
               : append_unit(batch, unit, index, read_streams(unit));
    }
    if (batch.segment_count() == 0) continue;  // windows without a target
    batches.push_back(std::move(batch));
  }
  finish(batches);
  return batches;
}

void DataSet::finish(std::vector<PackedBatch>& batches) const {
  // One call for all packs of a step, since documents are aligned on several threads.
  if (companion_) add_companions(batches, *companion_);
  for (PackedBatch& batch : batches) {
    if (row_chunks_) number_row_chunks(batch, *row_chunks_);
    batch.validate(state_->vocab_limit);
  }
}

// Reads all tokens first, since the plan depends on shared prefixes and not on lengths alone.
std::vector<PackedBatch> DataSet::pack_folded(const std::vector<int64_t>& units,
                                              const PackLimits& limits) const {
  std::vector<std::vector<TokenStream>> streams;
  std::vector<UnitTokens> lists;
  for (const int64_t unit : units) {
    streams.push_back(read_streams(unit));
    lists.push_back(token_lists(streams.back()));
    if (tokens(unit) <= limits.max_tokens) continue;
    // A pair above the limit may fit if its prompt counts once.
    const bool fits = folded_tokens(std::span(&lists.back(), 1), limits) <= limits.max_tokens;
    if (!fits) fail_too_long(unit, tokens(unit), limits);
  }
  std::vector<PackedBatch> batches;
  for (const std::vector<int64_t>& pack : plan_folded_packs(lists, limits)) {
    PackedBatch& batch = batches.emplace_back();
    for (const int64_t index : pack) {
      const size_t i = static_cast<size_t>(index);
      append_unit(batch, units[i], index, streams[i]);
    }
  }
  finish(batches);
  return batches;
}

// The reference scores these packs, so their contents must not depend on the step that asks.
PackedBatch DataSet::canonical_pack(int64_t row, int64_t capacity) const {
  const State::SourceRow at = state_->find(row);
  const RowCache& cache = *at.source.cache;
  // Begins at a fixed row of the cache, so that every row of a pack gives the same pack.
  int64_t begin = at.row / kCanonicalRows * kCanonicalRows;
  const int64_t end = std::min(begin + kCanonicalRows, cache.size());
  int64_t held = 0;
  int64_t next = begin;
  for (; next < end; ++next) {
    const int64_t tokens = cache.tokens(next);
    // Rows join a pack while they fit; a row above the capacity is a pack by itself.
    if (next > begin && held + tokens > capacity) {
      // The pack of the wanted row is complete.
      if (next > at.row) break;
      begin = next;
      held = 0;
    }
    held += tokens;
  }
  std::vector<PackedBatch> batches(1);
  for (int64_t r = begin; r < next; ++r) {
    const int64_t row_id = at.source.first_row + r;
    append_unit(batches[0], row_id, r - begin, read_streams(row_id));
  }
  finish(batches);
  return std::move(batches[0]);
}

}  // namespace xrun
