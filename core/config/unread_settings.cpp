// A recipe must pass on the keys in kPassedOn. The engine reads every other key itself: xrun.run
// reads `save`, xrun.policy reads `lora`, the data sets read `laws`.

#include "core/config/unread_settings.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/config/config_check.h"
#include "core/config/config_set.h"

namespace xrun {
namespace {

// The keys that a recipe passes on, as in xrun.adamw(policy, cfg.optim).
constexpr std::string_view kPassedOn[] = {"model", "data",     "valid", "optim",
                                          "batch", "sampling", "kd"};

// Members that the engine reads as well, for evaluations and windows of text.
constexpr std::string_view kReadByEngine[] = {"batch.tokens", "batch.max_tokens", "batch.fold",
                                              "batch.fold_min", "batch.fold_weight"};

class UnreadSettings {
 public:
  UnreadSettings(const ScannedRecipe& recipe, const std::vector<std::string>& sets)
      : recipe_(recipe), sets_(sets) {}

  std::vector<std::string> notes() {
    if (recipe_.config_name.empty() || recipe_.passed_on) return {};
    const Literal root = checked_config(recipe_, sets_);
    for (const std::string_view key : kPassedOn) {
      if (const Literal* value = root.find(key)) add(std::string(key), *value);
    }
    return std::move(notes_);
  }

 private:
  // Returns true if the recipe reads this member of the key, or the key as a whole.
  bool is_read(const std::string& key, const std::string& member) const {
    return std::any_of(recipe_.reads.begin(), recipe_.reads.end(), [&](const ConfigRead& read) {
      return read.path[0] == key && (read.path.size() == 1 || read.path[1] == member);
    });
  }
  bool is_any_read(const std::string& key) const {
    return std::any_of(recipe_.reads.begin(), recipe_.reads.end(),
                       [&](const ConfigRead& read) { return read.path[0] == key; });
  }

  // Returns false for a value of a base or bundle.
  static bool is_own(const Literal& value) {
    return value.line == kSetLine || (value.source == 0 && value.origin.empty());
  }

  void add(const std::string& key, const Literal& value) {
    if (is_read(key, "")) return;
    if (!value.is_table || value.is_list()) {
      if (is_own(value) && !is_any_read(key)) add_note(key, origin(key, value));
      return;
    }
    for (const Literal::Entry& entry : value.entries) {
      const std::string path = key + "." + entry.key;
      const bool engine = std::find(std::begin(kReadByEngine), std::end(kReadByEngine), path) !=
                          std::end(kReadByEngine);
      if (engine || !is_own(entry.value) || is_read(key, entry.key)) continue;
      if (is_any_read(key)) {
        add_note(path, origin(path, entry.value));
        continue;
      }
      // One note stands for all members.
      const bool of_file = entry.value.line != kSetLine && is_own(value);
      return add_note(key, origin(path, of_file ? value : entry.value));
    }
  }

  void add_note(const std::string& path, const std::string& origin) {
    notes_.push_back(fmt::format(
        "{}: {} has no effect: no line of {} reads {}.{}; xrun explain {} says what takes it",
        origin, path, recipe_.file, recipe_.config_name, path, path));
  }

  // "dpo.lua:9", or "--set sampling.temperature=0.3".
  std::string origin(const std::string& path, const Literal& value) const {
    if (value.line != kSetLine) return literal_origin(recipe_, value);
    // The member, something in it, or its whole table was set.
    const std::string table = path.substr(0, path.find('.')) + "=";
    for (const std::string& start : {path + "=", path + ".", table}) {
      for (const std::string& set : sets_) {
        if (set.starts_with(start)) return "--set " + set;
      }
    }
    return "--set";
  }

  const ScannedRecipe& recipe_;
  const std::vector<std::string>& sets_;
  std::vector<std::string> notes_;
};

}  // namespace

std::vector<std::string> unread_settings(const ScannedRecipe& recipe,
                                         const std::vector<std::string>& sets) {
  return UnreadSettings(recipe, sets).notes();
}

}  // namespace xrun
