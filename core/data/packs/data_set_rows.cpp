// Single rows of a data set: tokens, locations, extra columns.

#include <algorithm>

#include "core/data/packs/data_set_state.h"

namespace xrun {

// Sources may have different extra columns; a batch has one list of them.
void DataSet::State::merge_extra() {
  for (MixedSource& source : sources) {
    for (const ExtraColumn& column : source.cache->extra_columns()) {
      const auto same = std::find_if(extra.begin(), extra.end(),
                                     [&](const ExtraColumn& k) { return k.name == column.name; });
      if (same == extra.end()) {
        extra.push_back({column.name, column.is_number, column.is_whole});
        continue;
      }
      // A loss reads a column by its type, so both sources must agree.
      XRUN_CHECK(same->is_number == column.is_number,
                 "the extra column \"{}\" holds numbers in one source and strings in another "
                 "({}); rename one of them",
                 column.name, source.cache->ledger().name);
      same->is_whole = same->is_whole && column.is_whole;
    }
  }
  for (MixedSource& source : sources) {
    const std::vector<ExtraColumn>& own = source.cache->extra_columns();
    for (ExtraColumn& column : extra) {
      const auto found = std::find_if(own.begin(), own.end(),
                                      [&](const ExtraColumn& k) { return k.name == column.name; });
      // A missing string is "", but no number would be neutral in every loss.
      XRUN_CHECK(found != own.end() || !column.is_number,
                 "{}: has no extra column \"{}\", which other sources have as a number; keep it in "
                 "all of them, in none, or add it with map",
                 source.cache->ledger().name, column.name);
      // -1: this source lacks the string column.
      source.extra.push_back(found == own.end() ? -1 : static_cast<int32_t>(found - own.begin()));
    }
  }
}

size_t DataSet::State::extra_index(const std::string& name) const {
  for (size_t k = 0; k < extra.size(); ++k) {
    if (extra[k].name == name) return k;
  }
  throw Error(fmt::format(
      "\"{0}\" is not an extra column; name it in data.keep: keep = {{ \"{0}\" }}", name));
}

// The longest of all rows, drawn or not, since the bound must hold for every selection.
int64_t DataSet::longest() const {
  // Windows all have one length.
  int64_t most = window_length();
  if (most > 0) return most;
  for (const State::MixedSource& source : state_->sources) {
    most = std::max(most, source.cache->longest().value);
  }
  return most;
}

int64_t DataSet::tokens(int64_t row) const {
  const State::SourceRow at = state_->find(row);
  return at.source.cache->tokens(at.row);
}

TokenStream DataSet::stream(int64_t row, size_t stream) const {
  const State::SourceRow at = state_->find(row);
  TokenStream tokens;
  at.source.cache->read(at.row, stream, tokens);
  return tokens;
}

// Returns no ids if the first token is trained, and those of the whole row if none is.
std::vector<int32_t> DataSet::prompt_ids(int64_t row) const {
  TokenStream tokens = stream(row, 0);
  // The answer begins at the first trained token.
  const auto first = std::find(tokens.trained.begin(), tokens.trained.end(), 1);
  tokens.ids.resize(static_cast<size_t>(first - tokens.trained.begin()));
  return tokens.ids;
}

std::string DataSet::location(int64_t row) const {
  const State::SourceRow at = state_->find(row);
  return at.source.cache->ledger().location(at.source.cache->at(at.row));
}

float DataSet::weight(int64_t row) const {
  const State::SourceRow at = state_->find(row);
  return at.source.cache->weight(at.row);
}

int8_t DataSet::label(int64_t row) const {
  const State::SourceRow at = state_->find(row);
  return at.source.cache->label(at.row);
}

// Feedback losses need both labels; a run on one label is a mistake worth an error.
std::optional<int8_t> DataSet::only_label() const {
  if (kind() != RowKind::kFeedback || size() == 0) return std::nullopt;
  const int8_t first = label(unit(0));
  for (int64_t i = 1; i < size(); ++i) {
    if (label(unit(i)) != first) return std::nullopt;
  }
  return first;
}

uint64_t DataSet::prompt_hash(int64_t row) const {
  const State::SourceRow at = state_->find(row);
  return at.source.cache->prompt_hash(at.row);
}

const std::vector<ExtraColumn>& DataSet::extra_columns() const { return state_->extra; }

double DataSet::extra_number(int64_t row, const std::string& name) const {
  const size_t k = state_->extra_index(name);
  XRUN_CHECK(state_->extra[k].is_number, "the extra column \"{}\" holds strings, wanted numbers",
             name);
  const State::SourceRow at = state_->find(row);
  return at.source.cache->extra_number(at.row, static_cast<size_t>(at.source.extra[k]));
}

std::string DataSet::extra_string(int64_t row, const std::string& name) const {
  const size_t k = state_->extra_index(name);
  XRUN_CHECK(!state_->extra[k].is_number, "the extra column \"{}\" holds numbers, wanted strings",
             name);
  const State::SourceRow at = state_->find(row);
  const int32_t column = at.source.extra[k];
  // A source without the column.
  if (column < 0) return "";
  return std::string(at.source.cache->extra_string(at.row, static_cast<size_t>(column)));
}

void DataSet::verify() const {
  for (const State::MixedSource& source : state_->sources) source.cache->verify();
}

}  // namespace xrun
