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

// The saving from which kAuto folds: below it the tree's bookkeeping and its shorter runs of
// attention take the time that fewer tokens save.
constexpr double kFoldRatio = 1.05;

struct FoldSettings {
  FoldMode mode = FoldMode::kNever;
  int64_t min_run = kFoldMin;     // tokens of the shortest run that is shared
  double min_ratio = kFoldRatio;  // of kAuto: tokens of a pack for each computed one
  int64_t max_tokens = 0;         // a pack of more is folded by kAuto whatever it saves; 0: unknown
  std::string off = {};           // why kNever, for messages: "batch.fold is false"
  SharedRows rows = SharedRows::kPerSample;  // the weights of loss rows that segments share
  // The class of a sequence's rotary frequencies by its length; none: all are equal.
  std::function<int64_t(int64_t length)> frequency_class = {};

  bool folds() const { return mode != FoldMode::kNever; }
};

// The limits under which DataSet::pack plans such packs.
PackLimits pack_limits(int64_t max_tokens, const FoldSettings& settings);

// Returns the folded pack; nullopt under kNever, without shared tokens, and under kAuto for a pack
// that fits unfolded and whose ratio is below min_ratio.
//   frequency_classes  as FoldOptions::frequency_classes; empty: by settings.frequency_class
//   token_keys         as FoldOptions::token_keys
std::optional<FoldedPack> fold_where_it_pays(const PackedBatch& batch, const FoldSettings& settings,
                                             const std::vector<int64_t>& frequency_classes = {},
                                             const std::vector<int32_t>& token_keys = {});

// Sets the weights of a step's loss rows by settings.rows. The tree of all shared prefixes of the
// step decides, in the order of its segments, so that a result does not depend on the packs or
// on the tokens that are computed once.
void weigh_shared_rows(std::vector<PackedBatch>& packs, const FoldSettings& settings);

}  // namespace xrun
