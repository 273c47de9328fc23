// Row ids count through the sources in order: row r of source s is first_row[s] + r.

#include "core/data/preference_set.h"

#include <algorithm>
#include <limits>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/data/mixture.h"
#include "core/data/pack.h"
#include "core/data/preference_cache.h"
#include "core/data/preference_source.h"
#include "core/data/row_selection.h"
#include "core/data/row_stream.h"
#include "core/data/split.h"

namespace xrun {

struct PreferenceSet::State {
  struct Source {
    std::shared_ptr<const PairCache> cache;
    int64_t first_row = 0;
    double weight = 1;
    std::vector<int32_t> kept;  // for each column of the set the cache's, or -1
  };
  std::vector<Source> sources;
  int64_t rows = 0;
  Ledger ledger;
  std::string fingerprint;
  std::vector<Kept> kept;
  MixtureStop stop = MixtureStop::kAll;
  int64_t vocab_limit = std::numeric_limits<int32_t>::max();  // token ids are below

  // Where a row id lies.
  struct Place {
    const Source& source;
    size_t index;
    int64_t row;
  };
  Place place(int64_t row) const {
    XRUN_CHECK(row >= 0 && row < rows, "row {} is out of range, the set has {}", row, rows);
    size_t s = sources.size() - 1;
    while (sources[s].first_row > row) --s;
    return {sources[s], s, row - sources[s].first_row};
  }

  void merge_kept();
  size_t kept_index(const std::string& name) const;
};

void PreferenceSet::State::merge_kept() {
  for (Source& source : sources) {
    for (const KeptColumn& column : source.cache->kept_columns()) {
      const auto same = std::find_if(kept.begin(), kept.end(),
                                     [&](const Kept& k) { return k.name == column.name; });
      if (same == kept.end()) {
        kept.push_back({column.name, column.is_number});
        continue;
      }
      XRUN_CHECK(same->is_number == column.is_number,
                 "the kept column \"{}\" holds numbers in one source and strings in another "
                 "({}); rename one of them",
                 column.name, source.cache->ledger().name);
    }
  }
  for (Source& source : sources) {
    const std::vector<KeptColumn>& own = source.cache->kept_columns();
    for (const Kept& column : kept) {
      const auto found = std::find_if(own.begin(), own.end(),
                                      [&](const KeptColumn& k) { return k.name == column.name; });
      source.kept.push_back(found == own.end() ? -1 : static_cast<int32_t>(found - own.begin()));
    }
  }
}

size_t PreferenceSet::State::kept_index(const std::string& name) const {
  for (size_t k = 0; k < kept.size(); ++k) {
    if (kept[k].name == name) return k;
  }
  throw Error(
      fmt::format("\"{0}\" is no kept column; name it in data.keep: keep = {{ \"{0}\" }}", name));
}

PreferenceSet PreferenceSet::open(const PreferenceOptions& options, const Tokenizer& tokenizer,
                                  const ChatTemplate& chat_template) {
  XRUN_CHECK(!options.sources.empty(), "a preference set has no source of data");
  auto state = std::make_shared<State>();
  auto selection = std::make_shared<RowSelection>();
  state->stop = options.stop;
  if (options.vocab_limit > 0) state->vocab_limit = options.vocab_limit;
  Hasher hasher;
  for (size_t s = 0; s < options.sources.size(); ++s) {
    const double weight = options.sources[s].weight;
    require_weight(s, weight);
    const auto cache = open_preference_source(options, s, tokenizer, chat_template);
    state->sources.push_back({cache, state->rows, weight, {}});
    state->rows += cache->size();
    state->ledger.sources.push_back(cache->ledger());
    selection->parts.push_back({0, weight > 0 ? cache->size() : 0, {}, false});
    hasher.field("source", cache->key());
  }
  state->ledger.check_sums();
  state->merge_kept();
  state->fingerprint = hasher.hex();
  PreferenceSet set;
  set.state_ = state;
  set.selection_ = selection;
  XRUN_CHECK(set.size() > 0, "no source of data has a weight above 0, so none is ever drawn");
  if (state->sources.size() > 1) set.stream({});  // a weight too small to be drawn is named now
  return set;
}

int64_t PreferenceSet::size() const { return selection_->size(); }

int64_t PreferenceSet::row(int64_t index) const {
  XRUN_CHECK(index >= 0 && index < size(), "place {} is out of range, the set has {} rows", index,
             size());
  for (size_t s = 0;; ++s) {
    const RowSelection::Part& part = selection_->parts[s];
    if (index < part.size()) return state_->sources[s].first_row + part.at(index);
    index -= part.size();
  }
}

int64_t PreferenceSet::total_rows() const { return state_->rows; }
const Ledger& PreferenceSet::ledger() const { return state_->ledger; }
const std::string& PreferenceSet::fingerprint() const { return state_->fingerprint; }

std::vector<std::filesystem::path> PreferenceSet::cache_dirs() const {
  std::vector<std::filesystem::path> dirs;
  for (const State::Source& source : state_->sources) dirs.push_back(source.cache->dir());
  return dirs;
}

Json PreferenceSet::key_documents() const {
  Json documents = Json::array();
  for (const State::Source& source : state_->sources) {
    documents.push_back(source.cache->key_document());
  }
  return documents;
}

std::pair<PreferenceSet, PreferenceSet> PreferenceSet::split(double fraction, SplitBy by) const {
  std::pair<RowSelection, RowSelection> rows;
  if (by == SplitBy::kRow) {
    rows = selection_->split_last(fraction);
  } else {
    std::vector<uint64_t> prompts;
    for (int64_t i = 0; i < size(); ++i) prompts.push_back(prompt_hash(row(i)));
    rows = selection_->split_flagged(hold_out_prompts(prompts, fraction));
  }
  std::pair<PreferenceSet, PreferenceSet> sets(*this, *this);
  sets.first.selection_ = std::make_shared<RowSelection>(std::move(rows.first));
  sets.second.selection_ = std::make_shared<RowSelection>(std::move(rows.second));
  return sets;
}

RowStream PreferenceSet::stream(const StepPlan& plan) const {
  XRUN_CHECK(plan.pairs > 0, "batch.pairs is {}, wanted at least 1", plan.pairs);
  XRUN_CHECK(plan.epochs >= 0, "epochs is {}, wanted at least 0", plan.epochs);
  std::vector<RowStream::Source> sources;
  for (size_t s = 0; s < state_->sources.size(); ++s) {
    sources.push_back({selection_->parts[s].size(), state_->sources[s].weight});
  }
  return RowStream(std::move(sources), state_->stop, plan.seed, plan.shuffle, plan.epochs);
}

int64_t PreferenceSet::steps_total(const StepPlan& plan) const {
  const std::optional<int64_t> length = stream(plan).length();
  XRUN_CHECK(length,
             "the stream of rows has no end (epochs = {}, mixture.stop = \"{}\"); set steps",
             plan.epochs, state_->stop == MixtureStop::kRestart ? "restart" : "all");
  return *length / plan.pairs + (*length % plan.pairs != 0);
}

std::vector<int64_t> PreferenceSet::step_rows(const StepPlan& plan, int64_t step) const {
  XRUN_CHECK(step >= 0, "step {} is below 0", step);
  const RowStream rows = stream(plan);
  std::vector<int64_t> ids;
  const int64_t end = rows.length().value_or(std::numeric_limits<int64_t>::max());
  if (step > end / plan.pairs) return ids;
  for (int64_t i = step * plan.pairs; i < end && std::ssize(ids) < plan.pairs; ++i) {
    const RowStream::Place place = rows.at(i);
    const size_t s = static_cast<size_t>(place.source);
    ids.push_back(state_->sources[s].first_row + selection_->parts[s].at(place.row));
  }
  return ids;
}

void PreferenceSet::fail_too_long(int64_t row, int64_t tokens, int64_t max_tokens) const {
  throw Error(fmt::format(
      "{}: the pair has {} tokens ({} chosen, {} rejected), batch.max_tokens is {}; raise "
      "batch.max_tokens, or lower max_length with over_length = \"drop\" or \"cut\"",
      place(row), count_text(tokens), count_text(length(row, Side::kChosen)),
      count_text(length(row, Side::kRejected)), count_text(max_tokens)));
}

void PreferenceSet::check_fits(int64_t max_tokens) const {
  for (size_t s = 0; s < state_->sources.size(); ++s) {
    const State::Source& source = state_->sources[s];
    if (source.cache->longest_pair().value <= max_tokens) continue;
    const RowSelection::Part& part = selection_->parts[s];
    for (int64_t i = 0; i < part.size(); ++i) {
      const int64_t tokens = source.cache->pair_tokens(part.at(i));
      if (tokens > max_tokens) fail_too_long(source.first_row + part.at(i), tokens, max_tokens);
    }
  }
}

std::vector<PackedBatch> PreferenceSet::pack(const std::vector<int64_t>& rows,
                                             int64_t max_tokens) const {
  std::vector<int64_t> sizes;
  for (const int64_t row : rows) {
    const State::Place at = state_->place(row);
    sizes.push_back(at.source.cache->pair_tokens(at.row));
    if (sizes.back() > max_tokens) fail_too_long(row, sizes.back(), max_tokens);
  }
  std::vector<PackedBatch> batches;
  std::vector<int32_t> ids;
  std::vector<uint8_t> trained;
  for (const std::vector<int64_t>& pack : best_fit_decreasing(sizes, max_tokens)) {
    PackedBatch& batch = batches.emplace_back();
    for (const int64_t pair : pack) {
      const int64_t row = rows[static_cast<size_t>(pair)];
      const State::Place at = state_->place(row);
      for (const Side side : {Side::kChosen, Side::kRejected}) {
        at.source.cache->read(at.row, side, ids, trained);
        PackedBatch::Segment segment;
        segment.row_id = row;
        segment.pair_id = segment.group_id = pair;
        segment.sample_id = 2 * pair + (side == Side::kRejected);
        segment.source = static_cast<int32_t>(at.index);
        segment.side = static_cast<int8_t>(side);
        segment.weight = at.source.cache->weight(at.row);
        batch.append(segment, ids, trained);
      }
    }
    batch.validate(state_->vocab_limit);
  }
  return batches;
}

int64_t PreferenceSet::length(int64_t row, Side side) const {
  const State::Place at = state_->place(row);
  return at.source.cache->length(at.row, side);
}

std::vector<int32_t> PreferenceSet::prompt_ids(int64_t row) const {
  const State::Place at = state_->place(row);
  std::vector<int32_t> ids;
  std::vector<uint8_t> trained;
  at.source.cache->read(at.row, Side::kChosen, ids, trained);
  const auto first = std::find(trained.begin(), trained.end(), 1);
  ids.resize(static_cast<size_t>(first - trained.begin()));
  return ids;
}

std::string PreferenceSet::place(int64_t row) const {
  const State::Place at = state_->place(row);
  return at.source.cache->ledger().place(at.source.cache->at(at.row));
}

float PreferenceSet::weight(int64_t row) const {
  const State::Place at = state_->place(row);
  return at.source.cache->weight(at.row);
}

uint64_t PreferenceSet::prompt_hash(int64_t row) const {
  const State::Place at = state_->place(row);
  return at.source.cache->prompt_hash(at.row);
}

const std::vector<PreferenceSet::Kept>& PreferenceSet::kept_columns() const { return state_->kept; }

double PreferenceSet::kept_number(int64_t row, const std::string& name) const {
  const size_t k = state_->kept_index(name);
  XRUN_CHECK(state_->kept[k].is_number, "the kept column \"{}\" holds strings", name);
  const State::Place at = state_->place(row);
  const int32_t column = at.source.kept[k];
  return column < 0 ? std::numeric_limits<double>::quiet_NaN()
                    : at.source.cache->kept_number(at.row, static_cast<size_t>(column));
}

std::string PreferenceSet::kept_string(int64_t row, const std::string& name) const {
  const size_t k = state_->kept_index(name);
  XRUN_CHECK(!state_->kept[k].is_number, "the kept column \"{}\" holds numbers", name);
  const State::Place at = state_->place(row);
  const int32_t column = at.source.kept[k];
  if (column < 0) return "";
  return std::string(at.source.cache->kept_string(at.row, static_cast<size_t>(column)));
}

void PreferenceSet::verify() const {
  for (const State::Source& source : state_->sources) source.cache->verify();
}

}  // namespace xrun
