#pragma once
// One packed micro-batch as tensors: its views, units, fields, and the forwards run on it.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/packs/packed_batch.h"
#include "core/train/batches/batch_info.h"
#include "core/train/batches/unit.h"
#include "core/train/batches/view.h"

namespace xrun {

class HeldPrefix;
class LogprobSource;
class MicroForwards;
class Model;
struct ComputedPack;
struct RouterRecord;
struct TokenRoutes;

// A PackedBatch with its tensors. Made through std::make_shared; views hold it. Not thread-safe.
class MicroBatch : public std::enable_shared_from_this<MicroBatch> {
 public:
  // The caller has validated the pack. `index` counts the micro-batches of the step.
  MicroBatch(PackedBatch pack, std::shared_ptr<const BatchInfo> info, int64_t index);
  ~MicroBatch();

  const PackedBatch& pack() const { return pack_; }
  const BatchInfo& info() const { return *info_; }
  c10::Device device() const { return info_->device; }
  Unit unit() const { return info_->unit; }
  int64_t index() const { return index_; }
  int64_t segment_count() const;  // n
  int64_t row_count() const;      // R
  int64_t pair_count() const;     // P; 0 without pairs
  int64_t token_count() const;    // T

  View all();       // every segment, in the pack's order
  View chosen();    // one segment per pair, in pair order; Error if the data are not pairs
  View rejected();  // the other segment of each pair: chosen()[i] and rejected()[i] are one pair

  // Returns the hidden states after the last norm, a row per computed token, in the compute type,
  // from one forward of the whole micro-batch. Cached by (model, its update count, gradient mode)
  // until close() or a later update of the model.
  at::Tensor hidden(Model& model);
  // Returns log p of every loss row, [R] float32, from the same forward, cached under
  // the same key. Without gradient the hidden states are freed unless hidden() was called.
  at::Tensor token_logprob(Model& model, int64_t head_mb);
  // For an operator that has the logits of all loss rows anyway. takes_token_logprob() returns true
  // if token_logprob() has not been called yet and would compute log-probs [R] at temperature 1,
  // with one product per loss row. set_token_logprob() then sets its result, with its graph.
  bool takes_token_logprob(Model& model);
  void set_token_logprob(Model& model, at::Tensor logprob);
  // Keeps the gradients of the log-probs until close(). After the backward logprob_gradients()
  // returns them, [R] float32 for each trained model whose log-probs the loss depends on.
  void retain_logprob_gradients();
  std::vector<at::Tensor> logprob_gradients() const;
  // The tokens that a model computes for this micro-batch, folded where that pays. Loss rows index
  // its hidden states.
  const ComputedPack& computed(const Model& model);
  // Makes the micro-batch begin, until close(), with a prefix that the step computes: a forward
  // with gradient computes only what follows it. Frees earlier forwards.
  void begin_with(std::shared_ptr<HeldPrefix> prefix);
  // Makes every forward of `model` over this micro-batch take these experts, given by segment;
  // null: the router chooses. They stay after close().
  void replay(const Model& model, std::vector<std::shared_ptr<const TokenRoutes>> routes);
  // The experts to take for computed(model), as ForwardOptions::replay; null: the router chooses.
  std::shared_ptr<const std::vector<at::Tensor>> replayed(const Model& model);
  // The token that every loss row predicts, [R] int64.
  const at::Tensor& row_target() const { return row_target_; }
  // Returns the rest of `head_mb` MiB for the logits or softmax rows of one more product of `rows`
  // rows with a vocabulary of `vocab`, and reserves what it will keep. All products with gradient
  // share the budget until close().
  int64_t take_head_mb(int64_t head_mb, int64_t rows, int64_t vocab);

  // Frees hidden states that no gradient needs; for scoring whole batches.
  void free_hidden();

  // Returns the experts chosen in the cached forward with gradient; null without one, or for a
  // dense model.
  const RouterRecord* router(const Model& model) const;

  // Frees the forwards and their graphs and makes every existing view throw "closed". New views
  // work (a batch may be stepped twice).
  void close();
  uint64_t generation() const { return generation_; }

  // Returns true if losses may be given in a unit: pairs if the data have them, groups if every
  // segment has one that is whole in this micro-batch, chunks if the rows name them.
  bool has_unit(Unit unit) const;
  // Returns the weights of a unit's losses, float32 on the CPU: pair [P], sequence [n], token [R],
  // group (the mean over its segments) and chunk (its segment's, whatever its length) in the order
  // in which they first appear. Throws Error for a unit that the data do not have.
  at::Tensor unit_weight(Unit unit) const;
  int64_t unit_count(Unit unit) const;
  // Returns the segment of every unit, the first of several.
  std::vector<int64_t> unit_segments(Unit unit) const;
  // Returns the row id of the i-th unit.
  int64_t unit_row(Unit unit, int64_t i) const;
  // Returns "pairs.jsonl:17", or "row 17" if the batch has no names.
  std::string row_name(int64_t row) const;

  // Notes that the group of segment s has segments in another micro-batch too.
  void note_split_group(int64_t s) { split_segment_ = s; }

  // Sets this micro-batch's slice of a field, [R] if by_row, else [n]; moves it to the device.
  //   signed_scale  the step's sum of row weights over the sum of row weights times |value|; -1:
  //                 unknown
  void set_field(const std::string& name, at::Tensor value, bool by_row, double signed_scale = -1);
  // Finds an assigned field by its tensor, as field() returned it; `known` is false for any other
  // tensor.
  struct SignedField {
    bool known = false, by_row = false;
    double scale = 0;  // as set_field's signed_scale
  };
  SignedField signed_field(const at::Tensor& value) const;
  // An extra column of strings, one per segment; nullptr if there is none of this name.
  void set_strings(const std::string& name, std::vector<std::string> values);
  const std::vector<std::string>* strings(std::string_view name) const;
  // Returns a field (View::field) of the whole micro-batch, [R] if *by_row, else [n]. Throws Error
  // for strings and for a probable misspelling, MissingField for any other unknown name.
  at::Tensor field(std::string_view name, bool* by_row) const;
  std::vector<std::string> field_names() const;       // sorted, with those of strings
  static std::vector<std::string> own_field_names();  // of the data: row, weight, ...
  // Returns the own field that begins with these letters, at least three ("len": length), or "".
  static std::string own_field_beginning(std::string_view name);

  // Notes the log-probs [R] that `source` gave for a view since the last close; the step reports
  // them as logprob_<view> and length_<view>.
  struct Scored {
    const LogprobSource* source;
    std::shared_ptr<const ViewRows> rows;
    at::Tensor token_logprob;  // [R] float32, detached
    at::Tensor logprob;        // [n], their sums
  };
  void note_scored(const LogprobSource* source, const View& view, const at::Tensor& token_logprob);
  const std::vector<Scored>& scored() const { return scored_; }
  void clear_scored() { scored_.clear(); }

  // Note, until the next close, that an objective read a field, called View::truncated_ratio, or
  // made its loss by reinforce.
  void note_read(std::string_view name) { read_.emplace(name); }
  void note_corrected() { corrected_ = true; }
  void note_reinforced() { reinforced_ = true; }
  bool was_read(std::string_view name) const { return read_.find(name) != read_.end(); }
  bool is_corrected() const { return corrected_; }
  bool is_reinforced() const { return reinforced_; }

 private:
  struct FieldValue {
    at::Tensor value;
    bool by_row;
    double signed_scale = -1;
  };
  View side_view(const char* name, int8_t side);
  at::Tensor own_field(std::string_view name) const;  // on the CPU; undefined: no such field
  [[noreturn]] void throw_no_unit(Unit unit) const;
  std::shared_ptr<const ViewRows> make_rows(std::string name, std::vector<int64_t> segments) const;

  PackedBatch pack_;
  std::shared_ptr<const BatchInfo> info_;
  int64_t index_;
  std::unique_ptr<MicroForwards> forwards_;
  at::Tensor row_target_;  // [R] int64
  std::map<std::string, FieldValue, std::less<>> fields_;
  std::map<std::string, std::vector<std::string>, std::less<>> strings_;
  std::map<std::string, std::shared_ptr<const ViewRows>> views_;
  std::vector<Scored> scored_;
  std::set<std::string, std::less<>> read_;
  bool corrected_ = false, reinforced_ = false;
  int64_t split_segment_ = -1;  // of a group that is split between micro-batches; -1: none
  uint64_t generation_ = 0;
};

}  // namespace xrun
