// Rows of a data set one by one: tokens, places, kept columns.

#include <algorithm>

#include "core/data/packs/data_set_state.h"

namespace xrun {

void DataSet::State::merge_kept() {
  for (Source& source : sources) {
    for (const KeptColumn& column : source.cache->kept_columns()) {
      const auto same = std::find_if(kept.begin(), kept.end(),
                                     [&](const Kept& k) { return k.name == column.name; });
      if (same == kept.end()) {
        kept.push_back({column.name, column.is_number, column.is_whole});
        continue;
      }
      XRUN_CHECK(same->is_number == column.is_number,
                 "the kept column \"{}\" holds numbers in one source and strings in another "
                 "({}); rename one of them",
                 column.name, source.cache->ledger().name);
      same->is_whole = same->is_whole && column.is_whole;
    }
  }
  for (Source& source : sources) {
    const std::vector<KeptColumn>& own = source.cache->kept_columns();
    for (Kept& column : kept) {
      const auto found = std::find_if(own.begin(), own.end(),
                                      [&](const KeptColumn& k) { return k.name == column.name; });
      XRUN_CHECK(found != own.end() || !column.is_number,
                 "{}: has no kept column \"{}\", which other sources have as a number; keep it in "
                 "all of them, in none, or give it by map",
                 source.cache->ledger().name, column.name);
      source.kept.push_back(found == own.end() ? -1 : static_cast<int32_t>(found - own.begin()));
    }
  }
}

size_t DataSet::State::kept_index(const std::string& name) const {
  for (size_t k = 0; k < kept.size(); ++k) {
    if (kept[k].name == name) return k;
  }
  throw Error(
      fmt::format("\"{0}\" is no kept column; name it in data.keep: keep = {{ \"{0}\" }}", name));
}

int64_t DataSet::longest() const {
  int64_t most = window_length();
  if (most > 0) return most;
  for (const State::Source& source : state_->sources) {
    most = std::max(most, source.cache->longest().value);
  }
  return most;
}

int64_t DataSet::tokens(int64_t row) const {
  const State::Place at = state_->place(row);
  return at.source.cache->tokens(at.row);
}

TokenStream DataSet::stream(int64_t row, size_t stream) const {
  const State::Place at = state_->place(row);
  TokenStream tokens;
  at.source.cache->read(at.row, stream, tokens);
  return tokens;
}

std::vector<int32_t> DataSet::prompt_ids(int64_t row) const {
  TokenStream tokens = stream(row, 0);
  const auto first = std::find(tokens.trained.begin(), tokens.trained.end(), 1);
  tokens.ids.resize(static_cast<size_t>(first - tokens.trained.begin()));
  return tokens.ids;
}

std::string DataSet::place(int64_t row) const {
  const State::Place at = state_->place(row);
  return at.source.cache->ledger().place(at.source.cache->at(at.row));
}

float DataSet::weight(int64_t row) const {
  const State::Place at = state_->place(row);
  return at.source.cache->weight(at.row);
}

int8_t DataSet::label(int64_t row) const {
  const State::Place at = state_->place(row);
  return at.source.cache->label(at.row);
}

uint64_t DataSet::prompt_hash(int64_t row) const {
  const State::Place at = state_->place(row);
  return at.source.cache->prompt_hash(at.row);
}

const std::vector<DataSet::Kept>& DataSet::kept_columns() const { return state_->kept; }

double DataSet::kept_number(int64_t row, const std::string& name) const {
  const size_t k = state_->kept_index(name);
  XRUN_CHECK(state_->kept[k].is_number, "the kept column \"{}\" holds strings", name);
  const State::Place at = state_->place(row);
  return at.source.cache->kept_number(at.row, static_cast<size_t>(at.source.kept[k]));
}

std::string DataSet::kept_string(int64_t row, const std::string& name) const {
  const size_t k = state_->kept_index(name);
  XRUN_CHECK(!state_->kept[k].is_number, "the kept column \"{}\" holds numbers", name);
  const State::Place at = state_->place(row);
  const int32_t column = at.source.kept[k];
  if (column < 0) return "";
  return std::string(at.source.cache->kept_string(at.row, static_cast<size_t>(column)));
}

void DataSet::verify() const {
  for (const State::Source& source : state_->sources) source.cache->verify();
}

}  // namespace xrun
