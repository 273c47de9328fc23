// The length of a run (steps, epochs) and its free settings (save, dist, valid.every, export.dtype,
// batch.fold_check) are not part of its identity: they are neither compared nor hashed. Each loop's
// number of steps is compared when the loop begins.

#include "core/run/resume.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/strings.h"
#include "core/config/lua_source.h"

namespace xrun {

namespace {

bool is_length(std::string_view name) { return name == "steps" || name == "epochs"; }

// The free settings inside tables whose other members decide results.
constexpr std::pair<std::string_view, std::string_view> kFreeMembers[] = {
    {"valid", "every"}, {"export", "dtype"}, {"batch", "fold_check"}};

// Returns the members of the configuration that can change results, or with `free` the others;
// lengths are in neither.
Json members(const Json& config, bool free) {
  Json out = Json::object();
  if (!config.is_object()) return out;
  for (const auto& [key, value] : config.as_object()) {
    if (is_length(key)) continue;
    const auto member = std::find_if(std::begin(kFreeMembers), std::end(kFreeMembers),
                                     [&](const auto& one) { return one.first == key; });
    if (member != std::end(kFreeMembers) && value.is_object()) {
      Json inner = Json::object();
      for (const auto& [name, one] : value.as_object()) {
        if ((name == member->second) == free) inner.set(name, one);
      }
      out.set(key, std::move(inner));
    } else if ((key == "save" || key == "stop" || key == "dist") == free) {
      out.set(key, value);
    }
  }
  return out;
}

Json length_of(const Json& config, std::string_view key) {
  const Json* value = config.find(key);
  return value == nullptr ? Json() : *value;
}

struct RecipeLine {
  std::string_view text;
  bool exists;
};

RecipeLine take_line(std::string_view& text) {
  if (text.empty()) return {"", false};
  const size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return {line, true};
}

std::string quoted(const RecipeLine& line) {
  return line.exists ? fmt::format("`{}`", trimmed(line.text).substr(0, 80)) : "absent";
}

// Returns the first line in which the compared texts differ, as the sources `before` and `now` have
// it. Requires that they differ, and that a compared text has the same line breaks as its source.
Difference first_differing_line(std::string_view before, std::string_view now,
                                std::string_view compared_before, std::string_view compared_now) {
  for (int number = 1;; ++number) {
    const RecipeLine a = take_line(compared_before), b = take_line(compared_now);
    const RecipeLine shown_a = take_line(before), shown_b = take_line(now);
    // The caller knows that they differ, so the loop ends.
    if (a.exists != b.exists || a.text != b.text || !a.exists) {
      return {fmt::format("recipe.lua:{}", number), quoted(shown_a), quoted(shown_b)};
    }
  }
}

constexpr const char* kForceOrNew =
    "to resume with these changes, add --force; to start a new run, choose another folder with "
    "--run DIR";
constexpr const char* kOwnRecipeOrNew =
    "name its own recipe to resume it; to start a new run, choose another folder with --run DIR";

// The table of differences: the effect of each, and its text, which the list of fields and the fix
// follow.
struct ResumeRule {
  ResumeItem item;
  bool refuses;  // unless --force; otherwise it is only reported
  const char* text;
  const char* fix = kForceOrNew;
};

constexpr ResumeRule kResumeRules[] = {
    {ResumeItem::kRecipe, true, "it is a run of {}", kOwnRecipeOrNew},
    {ResumeItem::kIdentity, true, "the recipe, its configuration or xrun has changed"},
    {ResumeItem::kFree, false, "settings that do not affect training have changed"},
    {ResumeItem::kMachine, false,
     "the machine or its settings have changed, so the last digits may differ"},
    {ResumeItem::kInput, true, "{} has changed since the run began"},
    {ResumeItem::kLoopData, true, "the data of {} has changed since it was trained on"},
    {ResumeItem::kLoopShrank, true, "{}: a resume can only add steps"},
    {ResumeItem::kLoopRegrown, true,
     "{}, and a later loop has begun since: a loop that is done cannot grow"},
};

const ResumeRule& rule_of(ResumeItem item) {
  return *std::find_if(std::begin(kResumeRules), std::end(kResumeRules),
                       [&](const ResumeRule& one) { return one.item == item; });
}

}  // namespace

bool resume_is_refused(ResumeItem item) { return rule_of(item).refuses; }

std::string without_lengths(std::string_view text) {
  const std::vector<LuaToken> tokens = lex_lua(text);
  std::string out;
  size_t copied = 0;
  for (size_t t = 0; t + 2 < tokens.size(); ++t) {
    const bool assigns = tokens[t].kind == LuaTokenKind::kName && is_length(tokens[t].text) &&
                         is_sign(tokens[t + 1], "=");
    const LuaToken& number = tokens[t + 2];
    // `steps = n` or `steps = 3e4` is not a plain number; its line then counts as changed.
    if (!assigns || number.kind != LuaTokenKind::kNumber ||
        number.text.find_first_not_of("0123456789") != std::string::npos) {
      continue;
    }
    out += text.substr(copied, number.begin - copied);
    out += '0';
    copied = number.end;
  }
  return out + std::string(text.substr(copied));
}

std::string short_hash(const RunIdentity& identity) {
  Hasher hasher;
  hasher.field("recipe", without_lengths(identity.recipe_text));
  // Sorted keys: moving a line of the config must not start another folder.
  hasher.field("config", dump_json(members(identity.config, false), {.sort_keys = true}));
  return hasher.hex().substr(0, 8);
}

std::filesystem::path default_run_dir(const RunIdentity& identity) {
  return std::filesystem::path("runs") /
         fmt::format("{}-{}", identity.recipe_name, short_hash(identity));
}

std::string recipe_name(const std::filesystem::path& recipe) { return recipe.stem().string(); }

std::vector<Difference> identity_differences(const RunIdentity& before, const RunIdentity& now) {
  std::vector<Difference> out;
  // without_lengths keeps the line breaks.
  const std::string compared_before = without_lengths(before.recipe_text);
  const std::string compared_now = without_lengths(now.recipe_text);
  if (compared_before != compared_now) {
    out.push_back(
        first_differing_line(before.recipe_text, now.recipe_text, compared_before, compared_now));
  }
  const auto add = [&](const Json& a, const Json& b, const char* name) {
    for (auto& difference : find_differences(a, b, name)) out.push_back(std::move(difference));
  };
  add(members(before.config, false), members(now.config, false), "config");
  add(before.binary, now.binary, "binary");
  return out;
}

std::vector<Difference> free_differences(const RunIdentity& before, const RunIdentity& now) {
  return find_differences(members(before.config, true), members(now.config, true), "config");
}

std::vector<Difference> length_differences(const RunIdentity& before, const RunIdentity& now) {
  std::vector<Difference> out;
  for (const char* key : {"steps", "epochs"}) {
    const auto differing = find_differences(
        length_of(before.config, key), length_of(now.config, key), fmt::format("config.{}", key));
    out.insert(out.end(), differing.begin(), differing.end());
  }
  const std::string_view a = before.recipe_text, b = now.recipe_text;
  // run:steps(data, { steps = 40 }) has a length that no setting has.
  if (out.empty() && a != b && without_lengths(a) == without_lengths(b)) {
    out.push_back(first_differing_line(a, b, a, b));
  }
  return out;
}

std::vector<Difference> input_differences(const Json& before, const Json& now) {
  const Json* from = before.find("keys");
  const Json* to = now.find("keys");
  std::vector<Difference> out;
  // Fields tell the user what to undo; a digest only tells that something differs.
  if (from != nullptr && to != nullptr) out = find_differences(*from, *to, "data");
  // A file of another size has another digest, too, so only the size is reported.
  const std::vector<Difference> all = out;
  std::erase_if(out, [&](const Difference& one) {
    const size_t name = one.path.rfind(".xxh3");
    return name != std::string::npos &&
           std::any_of(all.begin(), all.end(), [&](const Difference& other) {
             return other.path == one.path.substr(0, name) + ".bytes";
           });
  });
  return out.empty() ? find_differences(before.at("digest"), now.at("digest"), "digest") : out;
}

std::string resume_notice(ResumeItem item, const std::string& subject,
                          const std::vector<Difference>& differences,
                          const std::filesystem::path& dir, bool force) {
  const ResumeRule& rule = rule_of(item);
  const std::string text = fmt::format(fmt::runtime(rule.text), subject) +
                           (differences.empty() ? "" : ":") + "\n" +
                           describe_differences(differences);
  XRUN_CHECK(force || !rule.refuses, "{}: cannot resume: {}{}", dir.string(), text, rule.fix);
  return rule.refuses ? "resuming by --force: " + text : text;
}

}  // namespace xrun
