// Ids of rows and windows count through the sources in order. A split, a set in windows and a set
// with chunks are handles on the same caches.

#include "core/data/packs/data_set.h"

#include <algorithm>
#include <filesystem>
#include <limits>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/data/packs/data_set_state.h"
#include "core/data/packs/data_source.h"
#include "core/data/packs/mixture.h"
#include "core/data/packs/row_stream.h"
#include "core/data/packs/split.h"
#include "core/data/rows/byte_stream.h"

namespace xrun {

namespace {

// Returns the name of a source in metrics: with the source's number added if an earlier source has
// the name, and "source_N" if the path is a glob.
std::string metric_name(const DataSource& source, const std::vector<std::string>& earlier) {
  std::string name = source.name;
  if (name.empty()) name = std::filesystem::path(content_name(source.path)).stem().string();
  // A slash would make another level of metric names.
  std::replace(name.begin(), name.end(), '/', '_');
  const bool is_plain = !name.empty() && name.find_first_of("*?[") == std::string::npos;
  if (!is_plain) name = "source";
  const bool is_new = std::find(earlier.begin(), earlier.end(), name) == earlier.end();
  return is_plain && is_new ? name : fmt::format("{}_{}", name, earlier.size() + 1);
}

}  // namespace

DataSet DataSet::open(const DataOptions& options, const Tokenizer& tokenizer,
                      const std::shared_ptr<const ChatTemplate>& chat_template) {
  XRUN_CHECK(!options.sources.empty(), "the list of data sources is empty; wanted at least one");
  auto state = std::make_shared<State>();
  auto selection = std::make_shared<RowSelection>();
  state->kind = options.kind;
  state->stop = options.stop;
  state->stages = options.stages;
  state->order = options.order;
  state->vocab_limit =
      options.vocab_limit > 0 ? options.vocab_limit : std::numeric_limits<int32_t>::max();
  Hasher hasher;
  for (size_t s = 0; s < options.sources.size(); ++s) {
    const double weight = options.sources[s].weight;
    require_weight(s, weight);
    const auto cache = open_data_source(options, s, tokenizer, chat_template);
    state->sources.push_back({cache,
                              state->rows,
                              weight,
                              row_encoding(options, s, chat_template),
                              {},
                              options.sources[s].quota_rows,
                              options.sources[s].quota_tokens});
    state->source_names.push_back(metric_name(options.sources[s], state->source_names));
    state->rows += cache->size();
    state->ledger.sources.push_back(cache->ledger());
    // Weight 0: the source is opened and checked, and no row of it is drawn or validated on.
    selection->ranges.push_back({0, weight > 0 ? cache->size() : 0, {}, false});
    // Keys have everything that determines the bytes, so the fingerprint does too.
    hasher.field("source", cache->key());
  }
  state->ledger.check_sums();
  state->merge_extra();
  state->fingerprint = hasher.hex();
  DataSet set;
  set.state_ = state;
  set.selection_ = selection;
  set.streams_ = std::make_shared<Streams>();
  XRUN_CHECK(set.size() > 0, kNoWeight);
  // Building a stream rejects a weight too small to be drawn: do it now, not at the first step.
  // With this many units per step each stage fills a block.
  if (state->sources.size() > 1) set.stream_of({.units = Mixture::kBlock});
  return set;
}

RowKind DataSet::kind() const { return state_->kind; }

const char* DataSet::unit_name() const {
  if (windows_) return "window";
  if (kind() == RowKind::kPreference) return "pair";
  return kind() == RowKind::kPrompts ? "prompt" : "sequence";
}

int64_t DataSet::size() const { return windows_ ? windows_->first.back() : selection_->size(); }

int64_t DataSet::unit(int64_t index) const {
  XRUN_CHECK(index >= 0 && index < size(), "index {} is out of range, the set has {} {}s", index,
             size(), unit_name());
  // Windows are numbered through all sources.
  if (windows_) return index;
  for (size_t s = 0;; ++s) {
    const RowSelection::SourceRange& range = selection_->ranges[s];
    if (index < range.size()) return state_->sources[s].first_row + range.at(index);
    // A linear search: there are a handful of sources.
    index -= range.size();
  }
}

int64_t DataSet::total_rows() const { return state_->rows; }
const std::vector<std::string>& DataSet::source_names() const { return state_->source_names; }
const Ledger& DataSet::ledger() const { return state_->ledger; }
const std::string& DataSet::fingerprint() const { return state_->fingerprint; }

std::vector<std::filesystem::path> DataSet::cache_dirs() const {
  std::vector<std::filesystem::path> dirs;
  for (const State::MixedSource& source : state_->sources) dirs.push_back(source.cache->dir());
  return dirs;
}

Json DataSet::key_documents() const {
  Json documents = Json::array();
  for (const State::MixedSource& source : state_->sources) {
    documents.push_back(source.cache->key_document());
  }
  return documents;
}

std::pair<DataSet, DataSet> DataSet::split(double fraction, SplitBy by) const {
  XRUN_CHECK(!windows_, "a set in windows cannot be split; split its rows first");
  std::pair<RowSelection, RowSelection> rows;
  if (by == SplitBy::kRow) {
    rows = selection_->split_last(fraction);
  } else {
    std::vector<uint64_t> prompts;
    // 8 bytes per row; the tokens are not read.
    for (int64_t i = 0; i < size(); ++i) prompts.push_back(prompt_hash(unit(i)));
    rows = selection_->split_flagged(hold_out_prompts(prompts, fraction));
  }
  std::pair<DataSet, DataSet> sets(*this, *this);
  // The halves have different rows, so neither may reuse the streams of the other or of this set.
  sets.first.selection_ = std::make_shared<RowSelection>(std::move(rows.first));
  sets.second.selection_ = std::make_shared<RowSelection>(std::move(rows.second));
  sets.first.streams_ = std::make_shared<Streams>();
  sets.second.streams_ = std::make_shared<Streams>();
  return sets;
}

DataSet DataSet::in_windows(int64_t length) const {
  XRUN_CHECK(kind() == RowKind::kText || kind() == RowKind::kTokens,
             "batch.tokens cuts windows of text and token rows; {} rows are whole: write "
             "batch = {{ {}s = 8 }}",
             row_kind_name(kind()), unit_name());
  auto windows = std::make_shared<Windows>();
  windows->length = length;
  for (size_t s = 0; s < state_->sources.size(); ++s) {
    const RowSelection::SourceRange& range = selection_->ranges[s];
    // A window may span rows, so rows that are left out would join others.
    XRUN_CHECK(!range.listed,
               "batch.tokens cuts windows of whole files; split them by = \"row\" instead of "
               "by prompt, or write batch = {{ sequences = 8 }}");
    windows->sources.emplace_back(state_->sources[s].cache, range.begin, range.end, length);
    windows->first.push_back(windows->first.back() + windows->sources.back().size());
  }
  DataSet set = *this;
  set.windows_ = std::move(windows);
  set.streams_ = std::make_shared<Streams>();
  return set;
}

// Chunks change packs, not the order of rows, so the streams stay.
DataSet DataSet::with_companion(std::shared_ptr<const CompanionSource> source) const {
  DataSet set = *this;
  set.companion_ = std::move(source);
  set.row_chunks_.reset();
  return set;
}

DataSet DataSet::with_row_chunks(int64_t limit) const {
  DataSet set = *this;
  set.companion_ = nullptr;
  set.row_chunks_ = limit;
  return set;
}

int64_t DataSet::window_length() const { return windows_ ? windows_->length : 0; }

int64_t DataSet::source_size(size_t source) const {
  return windows_ ? windows_->sources[source].size() : selection_->ranges[source].size();
}

int64_t DataSet::unit_of(size_t source, int64_t row) const {
  return windows_ ? windows_->first[source] + row
                  : state_->sources[source].first_row + selection_->ranges[source].at(row);
}

// Building a stream walks its quotas, so the last few are remembered by their plan.
std::shared_ptr<const RowStream> DataSet::stream_of(const StepPlan& plan) const {
  constexpr size_t kKnown = 4;  // a loop has one plan; a preview asks for a few
  const std::lock_guard lock(streams_->mutex);
  auto& known = streams_->known;
  for (const auto& [of, stream] : known) {
    if (of == plan) return stream;
  }
  if (known.size() == kKnown) known.erase(known.begin());
  return known.emplace_back(plan, std::make_shared<const RowStream>(make_stream(plan))).second;
}

// The stream may outlive this set: RowStream drops `tokens`, which refers to it, once it is built.
RowStream DataSet::make_stream(const StepPlan& plan) const {
  XRUN_CHECK(plan.units > 0, "a step has {} {}s, wanted at least 1", plan.units, unit_name());
  XRUN_CHECK(plan.epochs >= 0, "epochs is {}, wanted at least 0", plan.epochs);
  RowStream::Plan stream;
  for (size_t s = 0; s < state_->sources.size(); ++s) {
    const State::MixedSource& source = state_->sources[s];
    RowStream::StreamSource& from = stream.sources.emplace_back();
    from.rows = source_size(s);
    from.weight = source.weight;
    if (source.quota_rows > 0) from.quota = source.quota_rows;
    from.quota_tokens = source.quota_tokens;
    // Only quotas in tokens call it.
    from.tokens = [this, s](int64_t row) { return unit_tokens(unit_of(s, row)); };
  }
  stream.stop = state_->stop;
  stream.stages = state_->stages;
  stream.mixture_order = state_->order;
  XRUN_CHECK(plan.changes.empty() || stream.stages.empty(),
             "batch.schedule changes the size of the steps that mixture.stages counts; use one of "
             "the two");
  stream.step_rows = plan.units;
  stream.epochs = plan.epochs;
  stream.seed = plan.seed;
  stream.order = plan.order;
  return RowStream(std::move(stream));
}

bool DataSet::has_quotas() const {
  return std::any_of(state_->sources.begin(), state_->sources.end(),
                     [](const State::MixedSource& source) {
                       return source.quota_rows > 0 || source.quota_tokens > 0;
                     });
}

Json DataSet::mixture_plan(const StepPlan& plan) const { return stream_of(plan)->mixture_plan(); }

std::optional<int64_t> DataSet::stream_length(const StepPlan& plan) const {
  return stream_of(plan)->length();
}

int64_t DataSet::steps_total(const StepPlan& plan) const {
  const auto stream = stream_of(plan);
  const std::optional<int64_t> length = stream->length();
  XRUN_CHECK(length, "the stream of rows has no end ({}); set steps", stream->endless_reason());
  return plan.steps_of(*length);
}

std::vector<int64_t> DataSet::step_units(const StepPlan& plan, int64_t step) const {
  XRUN_CHECK(step >= 0, "step {} is below 0", step);
  const auto rows = stream_of(plan);
  std::vector<int64_t> ids;
  const int64_t end = rows->length().value_or(std::numeric_limits<int64_t>::max());
  const int64_t units = plan.units_at(step);
  for (int64_t i = plan.units_before(step); i < end && std::ssize(ids) < units; ++i) {
    const RowStream::DrawnRow drawn = rows->at(i);
    ids.push_back(unit_of(static_cast<size_t>(drawn.source), drawn.row));
  }
  return ids;
}

}  // namespace xrun
