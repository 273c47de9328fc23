// Units of a set laid into packs, which are checked before anyone trains on them.

#include <algorithm>

#include "core/base/count_text.h"
#include "core/base/error.h"
#include "core/data/packs/data_set_state.h"
#include "core/data/packs/data_set_windows.h"
#include "core/data/packs/pack.h"
#include "core/data/packs/row_selection.h"

namespace xrun {

namespace {

// Whether a stretch of a document gives a loss: what does not would be seen by nothing.
bool has_target(const TokenStream& tokens, float weight) {
  return weight > 0 &&
         std::find(tokens.trained.begin() + 1, tokens.trained.end(), 1) != tokens.trained.end();
}

}  // namespace

void DataSet::fail_too_long(int64_t row, int64_t tokens, int64_t max_tokens) const {
  std::string sides;
  if (kind() == RowKind::kPreference) {
    const State::Place at = state_->place(row);
    sides = fmt::format(" ({} chosen, {} rejected)",
                        count_text(at.source.cache->length(at.row, kChosen)),
                        count_text(at.source.cache->length(at.row, kRejected)));
  }
  throw Error(fmt::format(
      "{}: the {} has {} tokens{}, batch.max_tokens is {}; raise batch.max_tokens, or lower "
      "max_length with over_length = \"drop\" or \"cut\"",
      place(row), unit_name(), count_text(tokens), sides, count_text(max_tokens)));
}

void DataSet::check_fits(int64_t max_tokens) const {
  XRUN_CHECK(window_length() <= max_tokens,
             "a window has {} tokens, batch.max_tokens is {}; lower max_length", window_length(),
             max_tokens);
  if (windows_) return;
  for (size_t s = 0; s < state_->sources.size(); ++s) {
    const State::Source& source = state_->sources[s];
    if (source.cache->longest().value <= max_tokens) continue;
    const RowSelection::Part& part = selection_->parts[s];
    for (int64_t i = 0; i < part.size(); ++i) {
      const int64_t tokens = source.cache->tokens(part.at(i));
      if (tokens > max_tokens) fail_too_long(source.first_row + part.at(i), tokens, max_tokens);
    }
  }
}

int64_t DataSet::unit_tokens(int64_t unit) const {
  if (!windows_) return tokens(unit);
  int64_t sum = 0;
  for (const TextWindows::Piece& piece : windows_->pieces(unit)) sum += piece.end - piece.begin;
  return sum;
}

void DataSet::append_unit(PackedBatch& batch, int64_t unit, int64_t place) const {
  const State::Place at = state_->place(unit);
  const bool is_pair = kind() == RowKind::kPreference;
  const int64_t streams = static_cast<int64_t>(at.source.cache->stream_count());
  TokenStream tokens;
  for (int64_t s = 0; s < streams; ++s) {
    at.source.cache->read(at.row, static_cast<size_t>(s), tokens);
    PackedBatch::Segment segment;
    segment.row_id = unit;
    segment.pair_id = is_pair ? place : -1;
    segment.group_id = place;
    segment.sample_id = streams * place + s;
    segment.source = static_cast<int32_t>(at.index);
    segment.side = static_cast<int8_t>(is_pair ? (s == 0 ? 1 : -1) : 0);
    segment.weight = at.source.cache->weight(at.row);
    batch.append(segment, tokens.ids, tokens.trained, tokens.weights);
  }
}

// A window has at most as many pieces as tokens, so sample ids are unique and rise with the place.
void DataSet::append_window(PackedBatch& batch, int64_t unit, int64_t place) const {
  const size_t s = windows_->source_of(unit);
  const State::Source& source = state_->sources[s];
  TokenStream tokens;
  int64_t number = 0;
  for (const TextWindows::Piece& piece : windows_->pieces(unit)) {
    source.cache->read_part(piece.row, 0, piece.begin, piece.end, tokens);
    if (!has_target(tokens, source.cache->weight(piece.row))) continue;
    PackedBatch::Segment segment;
    segment.row_id = source.first_row + piece.row;
    segment.group_id = place;
    segment.sample_id = place * windows_->length + number++;
    segment.source = static_cast<int32_t>(s);
    segment.weight = source.cache->weight(piece.row);
    batch.append(segment, tokens.ids, tokens.trained, tokens.weights);
  }
}

std::vector<PackedBatch> DataSet::pack(const std::vector<int64_t>& units,
                                       int64_t max_tokens) const {
  std::vector<int64_t> sizes;
  for (const int64_t unit : units) {
    sizes.push_back(unit_tokens(unit));
    if (!windows_ && sizes.back() > max_tokens) fail_too_long(unit, sizes.back(), max_tokens);
  }
  std::vector<PackedBatch> batches;
  for (const std::vector<int64_t>& pack : best_fit_decreasing(sizes, max_tokens)) {
    PackedBatch batch;
    for (const int64_t place : pack) {
      const int64_t unit = units[static_cast<size_t>(place)];
      windows_ ? append_window(batch, unit, place) : append_unit(batch, unit, place);
    }
    if (batch.segment_count() == 0) continue;  // windows without a target
    batch.validate(state_->vocab_limit);
    batches.push_back(std::move(batch));
  }
  return batches;
}

}  // namespace xrun
