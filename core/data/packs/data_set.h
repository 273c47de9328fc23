#pragma once
// A set of rows of one kind, from one source or several: its splits, the units of each step, and
// their packs.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/json.h"
#include "core/data/packs/data_options.h"
#include "core/data/packs/pack_plan.h"
#include "core/data/packs/packed_batch.h"
#include "core/data/packs/step_plan.h"
#include "core/data/rows/ledger.h"
#include "core/data/rows/row.h"

namespace xrun {

class CompanionSource;
class RowStream;
struct Conversation;
struct RowSelection;
class Tokenizer;

// A cheap handle: copies share their caches. A set is drawn in units: its rows, or the windows of
// its text (in_windows). Row and window ids are those of the whole set, also in a split. Immutable
// and thread-safe. Row accessors throw Error for a row id out of range.
class DataSet {
 public:
  // Opens each source's cache and builds the missing ones first (one process builds, others wait).
  // The template may be null for kinds without one. Throws Error for
  //   - a missing or malformed file, or a template that breaks a law;
  //   - an over-long row under kRaise, or a row that `strict` rejects;
  //   - a source or a set without a remaining row;
  //   - a token id beyond vocab_limit.
  static DataSet open(const DataOptions& options, const Tokenizer& tokenizer,
                      const std::shared_ptr<const ChatTemplate>& chat_template);

  RowKind kind() const;
  const char* unit_name() const;      // "pair", "sequence", "prompt" or "window"
  int64_t size() const;               // units of this split
  int64_t unit(int64_t index) const;  // the id of the index-th unit of this split, in file order
  int64_t total_rows() const;         // rows of the whole set; ids are 0 to total_rows() - 1
  const Ledger& ledger() const;       // of the whole set
  // Names of the sources in metrics, in their order: data.N.name, else the stem of the file's name;
  // all different and without '/'.
  const std::vector<std::string>& source_names() const;
  // A hash of the whole set's tokens, masks, weights and order; equal for equal caches in any
  // folder.
  const std::string& fingerprint() const;
  std::vector<std::filesystem::path> cache_dirs() const;
  // A list of the key document of each source's cache. A run stores it; if a resume has another
  // fingerprint, the fields that differ are reported (core/run/resume.h).
  Json key_documents() const;

  // Returns (training, validation). Of n rows, int(n * fraction) are held out, but at least 1 and
  // at most n - 1; none if n <= 1 or fraction is 0.
  //   kRow     the last rows of each source; n counts those of the source
  //   kPrompt  whole prompts, chosen by a hash, up to that number of rows; n counts the whole set
  // Throws Error unless 0 <= fraction < 1, if all rows share a prompt, and for a set in windows.
  std::pair<DataSet, DataSet> split(double fraction, SplitBy by = SplitBy::kRow) const;

  // Returns the same rows as windows of `length` tokens (text_windows.h). Throws Error unless they
  // are text or token rows that were not split by prompt.
  DataSet in_windows(int64_t length) const;
  int64_t window_length() const;  // 0: the units are rows

  // Return the same rows with packs that have companions from `source` (packed_batch.h), or chunks
  // for a teacher of this set's vocabulary that reads `limit` tokens (number_row_chunks). Splits
  // and windows of the result have them too.
  DataSet with_companion(std::shared_ptr<const CompanionSource> source) const;
  DataSet with_row_chunks(int64_t limit) const;
  bool has_chunks() const { return companion_ || row_chunks_; }  // one of the two was called
  const std::shared_ptr<const CompanionSource>& companion() const { return companion_; }

  // Steps of a plan; the last one may be smaller. Throws Error if plan.epochs is 0.
  int64_t steps_total(const StepPlan& plan) const;
  // The number of units that a plan draws in all; nullopt if the stream has no end.
  std::optional<int64_t> stream_length(const StepPlan& plan) const;
  bool has_quotas() const;  // a source has a quota of rows or tokens
  // Returns RowStream::mixture_plan of the plan's stream.
  Json mixture_plan(const StepPlan& plan) const;
  // Unit ids of one step, a pure function of (plan, step); empty past the end and for an empty set.
  std::vector<int64_t> step_units(const StepPlan& plan, int64_t step) const;

  int64_t unit_tokens(int64_t unit) const;
  // The tokens of the longest row of the whole set, or of a window.
  int64_t longest() const;

  // Throws Error that names the row if a unit of this set has more tokens than a pack may have.
  void check_fits(const PackLimits& limits) const;
  // Returns best-fit-decreasing packs of whole units, ordered by their first unit; units in a pack
  // are ordered as in `units`.
  //   - A pack has at most max_tokens tokens. With `fold` only computed tokens count
  //     (plan_folded_packs), except for windows, which seldom share prefixes.
  //   - The sides of a pair are adjacent, chosen first; its pair_id is its index in `units`.
  //   - Pieces of a window without a trained token of positive weight are left out.
  // Throws Error that names the row if a unit is longer than a pack may be, and for a pack from a
  // damaged cache or of another vocabulary.
  std::vector<PackedBatch> pack(const std::vector<int64_t>& units, const PackLimits& limits) const;

  // Returns the canonical pack of a row: the run of consecutive rows of its source to which it
  // belongs if each row joins the one before it while their tokens are at most `capacity`,
  // beginning again at every 256th row. A longer row gets a separate pack. A pure function
  // of (cache, row, capacity): which rows share a pack depends on no split, step or earlier call.
  // Throws as pack() does.
  PackedBatch canonical_pack(int64_t row, int64_t capacity) const;

  int64_t tokens(int64_t row) const;  // of all streams
  // Reads a row's tokens; stream 0 is a pair's chosen side, 1 its rejected one.
  TokenStream stream(int64_t row, size_t stream) const;
  // The first stream up to its first trained token: the prompt that a model answers.
  std::vector<int32_t> prompt_ids(int64_t row) const;
  std::string location(int64_t row) const;  // "pairs.jsonl:17"
  // Returns one trace per row, read again from its file and encoded as for the cache. Rows of kinds
  // without a template have no streams. `failure` says why a row has no trace: its file is missing
  // or changed, or the row is more than 256 MB into it.
  std::vector<RowTrace> trace(const std::vector<int64_t>& rows, const Tokenizer& tokenizer) const;
  // Returns traces of conversations as trace() does, wherever they are in their files. Throws Error
  // that names the row where its file is missing or has changed.
  std::vector<RowTrace> renderings(const std::vector<int64_t>& rows,
                                   const Tokenizer& tokenizer) const;
  // Returns the conversation of each prompt, read again from its file. Of an uncompressed file that
  // was read before, only the bytes near each row are read (LineIndex). Throws Error for rows that
  // are not prompts, and one that names the row if the file is missing or has changed.
  std::vector<Conversation> conversations(const std::vector<int64_t>& rows,
                                          const Tokenizer& tokenizer) const;
  // Tokens that over_length = "cut" removed from the row if the ledger lists it, else 0.
  int64_t cut_tokens(int64_t row) const;
  float weight(int64_t row) const;
  int8_t label(int64_t row) const;  // of a feedback row: 1 desirable, 0 undesirable
  // The label that all rows of this split have; nullopt if both occur, or none. Stops at the first
  // row with the other label.
  std::optional<int8_t> only_label() const;
  uint64_t prompt_hash(int64_t row) const;

  // Extra columns of all sources by name. A source that lacks a column of strings gives ""; one
  // that lacks a column of numbers is refused at opening, since a number may be part of the loss.
  const std::vector<ExtraColumn>& extra_columns() const;
  double extra_number(int64_t row, const std::string& name) const;
  std::string extra_string(int64_t row, const std::string& name) const;

  // Checks every byte of every cache.
  void verify() const;

 private:
  struct State;
  struct Windows;
  struct Streams;
  class TraceReader;
  DataSet() = default;
  std::shared_ptr<const RowStream> stream_of(const StepPlan& plan) const;
  RowStream make_stream(const StepPlan& plan) const;
  int64_t unit_of(size_t source, int64_t row) const;
  int64_t source_size(size_t source) const;
  std::vector<TokenStream> read_streams(int64_t row) const;
  // trace() over the first max_bytes of each file.
  std::vector<RowTrace> read_again(const std::vector<int64_t>& rows, const Tokenizer& tokenizer,
                                   uint64_t max_bytes) const;
  int64_t folded_row_tokens(int64_t row, const PackLimits& limits) const;
  std::vector<PackedBatch> pack_folded(const std::vector<int64_t>& units,
                                       const PackLimits& limits) const;
  void append_unit(PackedBatch& batch, int64_t unit, int64_t index,
                   const std::vector<TokenStream>& streams) const;
  void append_window(PackedBatch& batch, int64_t unit, int64_t index) const;
  // The last step of every pack: companions or chunks, then the checks of PackedBatch::validate.
  void finish(std::vector<PackedBatch>& batches) const;
  [[noreturn]] void fail_too_long(int64_t row, int64_t tokens, const PackLimits& limits) const;
  // Tokens that the longest row takes in a pack, of all rows.
  int64_t longest_in_pack(const PackLimits& limits) const;
  // Returns true if the selection has a row whose streams all have at most `length` tokens.
  bool has_row_within(int64_t length) const;

  std::shared_ptr<const State> state_;
  std::shared_ptr<const RowSelection> selection_;
  std::shared_ptr<const Windows> windows_;  // null: the units are rows
  std::shared_ptr<Streams> streams_;        // of the selection and the windows
  std::shared_ptr<const CompanionSource> companion_;
  std::optional<int64_t> row_chunks_;  // the limit of with_row_chunks
};

}  // namespace xrun
