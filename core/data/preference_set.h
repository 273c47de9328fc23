#pragma once
// A set of preference pairs: its sources' caches, a split of their rows, the stream of its steps
// and the packs of each.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/json.h"
#include "core/data/data_settings.h"
#include "core/data/ledger.h"
#include "core/data/packed_batch.h"

namespace xrun {

class ChatTemplate;
class PairCache;
class RowStream;
struct RowSelection;
class Tokenizer;
enum class Side : int8_t;

struct PreferenceSource {
  std::string path;   // a .jsonl file, or a glob of them
  double weight = 1;  // share of the rows drawn among several sources; 0: never drawn
  // (our name, the file's name) for prompt, system, chosen, rejected, tools, chat_template_kwargs,
  // weight; weight is read only if it is named here.
  std::vector<std::pair<std::string, std::string>> fields;
  // Columns that stay with the row, numbers or strings as the first row has them. One that the
  // first row lacks is left out, an absent string is "", a row without a number is dropped.
  std::vector<std::string> keep;
  std::string name;  // "" is the path
};

struct BuildProgress {
  std::string source;
  bool hashing = false;  // its files are read for their digests, before any row is
  int64_t rows = 0;
  double fraction = 0;  // of the bytes: of the source, or of the file that is hashed
};

struct PreferenceOptions {
  std::vector<PreferenceSource> sources;
  int64_t max_length = 0;  // tokens of one side; 0: no limit
  OverLength over_length = OverLength::kRaise;
  TrainOn train_on = TrainOn::kAssistant;
  Json template_kwargs = Json::object();  // for every row, below the row's own
  std::vector<std::string> disabled_laws;
  bool strict = false;      // a dropped, cut or repaired row is an Error
  int64_t vocab_limit = 0;  // ids must be below; 0: unknown
  MixtureStop stop = MixtureStop::kAll;
  std::filesystem::path cache_root;  // "": $XRUN_CACHE, else ~/.cache/xrun
  uint64_t segment_bytes = 8 << 20;  // of a cache file; what a kill during a build may lose
  // Called at most every 0.2 s of a build, and after each MiB that is hashed; may throw.
  std::function<void(const BuildProgress&)> progress;
  std::function<void(const std::string&)> notice;  // a line for the user: waiting for a process
};

// The stream of a phase: `epochs` passes over the set as one stream, cut into steps.
struct StepPlan {
  int64_t pairs = 1;    // a step
  int64_t epochs = 1;   // 0: without end
  bool shuffle = true;  // each epoch in another order; false: in the order of the files
  uint64_t seed = 0;
};

// A cheap handle: copies share their caches. Row ids are those of the whole set, in a split too.
// Immutable and thread-safe. Row accessors throw Error for a row id out of range.
class PreferenceSet {
 public:
  // Opens each source's cache, building it first where there is none (one process builds, others
  // wait). Throws Error: a missing or malformed file, a broken template law, an over-long row under
  // kRaise, a row under `strict`, a source or set without a row left, an id beyond vocab_limit.
  static PreferenceSet open(const PreferenceOptions& options, const Tokenizer& tokenizer,
                            const ChatTemplate& chat_template);

  int64_t size() const;              // rows of this split
  int64_t row(int64_t index) const;  // the row id at a place of this split, in file order
  int64_t total_rows() const;        // rows of the whole set; ids are 0 to total_rows() - 1
  const Ledger& ledger() const;      // of the whole set
  // Of the whole set's tokens, masks, weights and order; equal for equal caches wherever they lie.
  const std::string& fingerprint() const;
  std::vector<std::filesystem::path> cache_dirs() const;
  // A list of what each source's cache was asked for. A run keeps it; where the fingerprint of a
  // resume is another one, key_difference(saved, today's) names the fields.
  Json key_documents() const;

  // By row: the last int(n * fraction) rows of each source, at least 1, at most n - 1; none if
  // n <= 1 or fraction is 0. By prompt: as many of the whole set, no prompt on both sides, chosen
  // by a hash of the prompt. Throws Error unless 0 <= fraction < 1, or if all rows share a prompt.
  std::pair<PreferenceSet, PreferenceSet> split(double fraction, SplitBy by = SplitBy::kRow) const;

  // Steps of a plan; the last one may be smaller. Throws Error if plan.epochs is 0.
  int64_t steps_total(const StepPlan& plan) const;
  // Row ids of one step, a pure function of (plan, step); empty past the end and for an empty set.
  std::vector<int64_t> step_rows(const StepPlan& plan, int64_t step) const;

  // Throws Error that names the row if a pair of this set has more than max_tokens tokens.
  void check_fits(int64_t max_tokens) const;
  // Best-fit-decreasing packs of whole pairs, each at most max_tokens, chosen then rejected side by
  // side; pair_id is the place in `rows`. The packs and their pairs are in the order of `rows` by
  // their first pair. Throws Error that names the row of a pair that is longer, and what is wrong
  // with a pack whose cache is damaged or of another vocabulary.
  std::vector<PackedBatch> pack(const std::vector<int64_t>& rows, int64_t max_tokens) const;

  int64_t length(int64_t row, Side side) const;  // tokens
  // The chosen side up to its first trained token: what a model is given to answer.
  std::vector<int32_t> prompt_ids(int64_t row) const;
  std::string place(int64_t row) const;  // "pairs.jsonl:17"
  float weight(int64_t row) const;
  uint64_t prompt_hash(int64_t row) const;

  // Kept columns of all sources by name. A source that lacks one gives NaN or "".
  struct Kept {
    std::string name;
    bool is_number;
  };
  const std::vector<Kept>& kept_columns() const;
  double kept_number(int64_t row, const std::string& name) const;
  std::string kept_string(int64_t row, const std::string& name) const;

  // Checks every byte of every cache.
  void verify() const;

 private:
  struct State;
  PreferenceSet() = default;
  RowStream stream(const StepPlan& plan) const;
  [[noreturn]] void fail_too_long(int64_t row, int64_t tokens, int64_t max_tokens) const;

  std::shared_ptr<const State> state_;
  std::shared_ptr<const RowSelection> selection_;
};

}  // namespace xrun
