#pragma once
// The settings under which packs are folded (batch.fold of a recipe).

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/config/config_field.h"
#include "core/data/packs/pack_plan.h"
#include "core/prefix/folded_pack.h"

namespace xrun {

enum class FoldMode { kNever, kAuto, kAlways };

// The least ratio at which kAuto folds. Below it the tree's bookkeeping and its shorter runs of
// attention take the time that computing fewer tokens saves.
constexpr double kFoldRatio = 1.05;

struct FoldSettings {
  FoldMode mode = FoldMode::kNever;
  int64_t min_run = kFoldMin;     // tokens of the shortest run that is shared
  double min_ratio = kFoldRatio;  // for kAuto: tokens of a pack per computed token
  int64_t max_tokens = 0;         // kAuto folds a longer pack whatever that saves; 0: unknown
  std::string off = {};           // why kNever, for messages: "batch.fold is false"
  SharedRows rows = SharedRows::kPerSample;  // the weights of loss rows that segments share
  // The class of a sequence's rotary frequencies by its length; none: all are equal.
  std::function<int64_t(int64_t length)> frequency_class = {};

  bool folds() const { return mode != FoldMode::kNever; }
};

// Returns the limits under which DataSet::pack plans packs of these settings.
PackLimits pack_limits(int64_t max_tokens, const FoldSettings& settings);

// Returns the folded pack; nullopt under kNever, for a pack without shared tokens, and under kAuto
// for a pack that fits unfolded and whose ratio is below min_ratio.
//   frequency_classes  as FoldOptions::frequency_classes; empty: by settings.frequency_class
//   token_keys         as FoldOptions::token_keys
std::optional<FoldedPack> fold_where_it_pays(const PackedBatch& batch, const FoldSettings& settings,
                                             const std::vector<int64_t>& frequency_classes = {},
                                             const std::vector<int32_t>& token_keys = {});

// Sets the weights of a step's loss rows by settings.rows. They follow from one tree over all
// segments of the step, in the order of their ids, so that they depend neither on the packs nor on
// which tokens are computed once.
void weigh_shared_rows(std::vector<PackedBatch>& packs, const FoldSettings& settings);

}  // namespace xrun
