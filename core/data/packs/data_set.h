#pragma once
// A set of rows of one kind: its sources' caches, a split of their rows, the stream of its steps
// and the packs of each.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/json.h"
#include "core/data/packs/data_options.h"
#include "core/data/rows/ledger.h"
#include "core/data/packs/packed_batch.h"
#include "core/data/packs/row_order.h"
#include "core/data/rows/row_trace.h"
#include "core/data/rows/row_type.h"

namespace xrun {

class RowStream;
struct RowSelection;
class Tokenizer;

// The stream of a phase: `epochs` passes over the set as one stream, cut into steps.
struct StepPlan {
  int64_t units = 1;    // pairs, sequences, prompts or windows a step
  int64_t epochs = 1;   // 0: without end
  RowOrder order = {};  // of each epoch
  uint64_t seed = 0;
};

// A cheap handle: copies share their caches. A set is drawn in units: its rows, or the windows of
// its text (in_windows). Ids of rows and of windows are those of the whole set, in a split too.
// Immutable and thread-safe. Row accessors throw Error for a row id out of range.
class DataSet {
 public:
  // Opens each source's cache, building it first where there is none (one process builds, others
  // wait). Throws Error: a missing or malformed file, a broken template law, an over-long row under
  // kRaise, a row under `strict`, a source or set without a row left, an id beyond vocab_limit. The
  // template may be null for kinds of rows without one.
  static DataSet open(const DataOptions& options, const Tokenizer& tokenizer,
                      const std::shared_ptr<const ChatTemplate>& chat_template);

  RowKind kind() const;
  const char* unit_name() const;      // "pair", "sequence", "prompt" or "window"
  int64_t size() const;               // units of this split
  int64_t unit(int64_t index) const;  // the id at a place of this split, in file order
  int64_t total_rows() const;         // rows of the whole set; ids are 0 to total_rows() - 1
  const Ledger& ledger() const;       // of the whole set
  // Of the whole set's tokens, masks, weights and order; equal for equal caches wherever they lie.
  const std::string& fingerprint() const;
  std::vector<std::filesystem::path> cache_dirs() const;
  // A list of what each source's cache was asked for. A run keeps it; where the fingerprint of a
  // resume is another one, the fields that differ are reported (core/run/resume.h).
  Json key_documents() const;

  // By row: the last int(n * fraction) rows of each source, at least 1, at most n - 1; none if
  // n <= 1 or fraction is 0. By prompt: as many of the whole set, no prompt on both sides, chosen
  // by a hash of the prompt. Throws Error unless 0 <= fraction < 1, or if all rows share a prompt;
  // and for a set in windows.
  std::pair<DataSet, DataSet> split(double fraction, SplitBy by = SplitBy::kRow) const;

  // The same rows as windows of `length` tokens (text_windows.h). Throws Error unless these are
  // text or token rows that were not split by prompt.
  DataSet in_windows(int64_t length) const;
  int64_t window_length() const;  // 0: the units are rows

  // Steps of a plan; the last one may be smaller. Throws Error if plan.epochs is 0.
  int64_t steps_total(const StepPlan& plan) const;
  // Unit ids of one step, a pure function of (plan, step); empty past the end and for an empty set.
  std::vector<int64_t> step_units(const StepPlan& plan, int64_t step) const;

  int64_t unit_tokens(int64_t unit) const;
  // Tokens that no unit has more of: those of the longest row of the whole set, or of a window.
  int64_t longest() const;

  // Throws Error that names the row if a unit of this set has more than max_tokens tokens.
  void check_fits(int64_t max_tokens) const;
  // Best-fit-decreasing packs of whole units, each at most max_tokens; a pair lies chosen then
  // rejected side by side, its pair_id the place in `units`. The packs and their units are in the
  // order of `units` by their first unit. Of a window what has no trained token of a row with a
  // weight is left out. Throws Error that names the row of a unit that is longer,
  // and what is wrong with a pack whose cache is damaged or of another vocabulary.
  std::vector<PackedBatch> pack(const std::vector<int64_t>& units, int64_t max_tokens) const;

  int64_t tokens(int64_t row) const;  // of all streams
  // Reads a row's tokens; stream 0 is a pair's chosen side, 1 its rejected one.
  TokenStream stream(int64_t row, size_t stream) const;
  // The first stream up to its first trained token: what a model is given to answer.
  std::vector<int32_t> prompt_ids(int64_t row) const;
  std::string place(int64_t row) const;  // "pairs.jsonl:17"
  // How rows became their tokens, one for one: read again from their files and encoded as they were
  // for the cache. Rows of kinds without a template have no streams. Where a row cannot be told,
  // `failure` says why: its file is gone or changed, or the row lies more than 256 MB into it.
  std::vector<RowTrace> trace(const std::vector<int64_t>& rows, const Tokenizer& tokenizer) const;
  // Tokens that over_length = "cut" took off the row, as far as the ledger lists them; 0 for
  // others.
  int64_t cut_tokens(int64_t row) const;
  float weight(int64_t row) const;
  int8_t label(int64_t row) const;  // of feedback
  uint64_t prompt_hash(int64_t row) const;

  // Kept columns of all sources by name. A source that lacks one of strings gives ""; one that
  // lacks one of numbers is refused at opening, since a number may be part of the loss.
  struct Kept {
    std::string name;
    bool is_number;
    bool is_whole = false;  // every row of every source has a whole number of at most 2^53
  };
  const std::vector<Kept>& kept_columns() const;
  double kept_number(int64_t row, const std::string& name) const;
  std::string kept_string(int64_t row, const std::string& name) const;

  // Checks every byte of every cache.
  void verify() const;

 private:
  struct State;
  struct Windows;
  class RowReader;
  DataSet() = default;
  RowStream stream_of(const StepPlan& plan) const;
  int64_t part_size(size_t source) const;
  void append_unit(PackedBatch& batch, int64_t unit, int64_t place) const;
  void append_window(PackedBatch& batch, int64_t unit, int64_t place) const;
  [[noreturn]] void fail_too_long(int64_t row, int64_t tokens, int64_t max_tokens) const;

  std::shared_ptr<const State> state_;
  std::shared_ptr<const RowSelection> selection_;
  std::shared_ptr<const Windows> windows_;  // null: the units are rows
};

}  // namespace xrun
