// The length of a run (steps, epochs) and its free settings (save, valid.every, export.dtype) are
// not part of its identity: they are neither compared nor hashed. Each loop's number of steps is
// compared when the loop begins.
#include "core/run/resume.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/base/error.h"
#include "core/base/hash.h"

namespace xrun {

namespace {

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool is_length(std::string_view name) { return name == "steps" || name == "epochs"; }

size_t skip_blanks(std::string_view text, size_t at) {
  while (at < text.size() && (text[at] == ' ' || text[at] == '\t')) ++at;
  return at;
}

// The free settings inside tables whose other members decide results.
constexpr std::pair<std::string_view, std::string_view> kFreeMembers[] = {{"valid", "every"},
                                                                          {"export", "dtype"}};

// The members of the configuration whose values decide results, or with `free` those that change
// none.
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
    } else if ((key == "save") == free) {
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
  if (!line.exists) return "absent";
  const size_t from = skip_blanks(line.text, 0);
  return fmt::format("`{}`", line.text.substr(from, 80));
}

// Requires that the texts differ without their lengths.
Difference first_differing_line(std::string_view before, std::string_view now) {
  for (int number = 1;; ++number) {
    const RecipeLine a = take_line(before);
    const RecipeLine b = take_line(now);
    const bool same = a.exists == b.exists && without_lengths(a.text) == without_lengths(b.text);
    // The caller knows that the texts differ, so the loop ends.
    if (!same || !a.exists) return {fmt::format("recipe.lua:{}", number), quoted(a), quoted(b)};
  }
}

// The table: what each difference does and says, before its list of fields.
struct ResumeRule {
  ResumeItem item;
  bool refuses;  // unless --force; otherwise it is only reported
  const char* text;
};

constexpr ResumeRule kResumeRules[] = {
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

}  // namespace

std::string without_lengths(std::string_view text) {
  std::string out;
  size_t at = 0;
  while (at < text.size()) {
    size_t end = at;
    while (end < text.size() && is_word(text[end])) ++end;
    // Not a word: copied byte by byte.
    if (end == at) {
      out += text[at++];
      continue;
    }
    const std::string_view word = text.substr(at, end - at);
    out += word;
    at = end;
    const size_t equals = skip_blanks(text, end);
    // `steps == 3` is a comparison: its second `=` is not a digit, so nothing is replaced below.
    if (!is_length(word) || equals >= text.size() || text[equals] != '=') continue;
    const size_t number = skip_blanks(text, equals + 1);
    size_t number_end = number;
    while (number_end < text.size() && text[number_end] >= '0' && text[number_end] <= '9') {
      ++number_end;
    }
    // `steps = n` or `steps = 3e4` is not a plain number; its line then counts as changed.
    if (number_end == number || (number_end < text.size() && is_word(text[number_end]))) continue;
    out += text.substr(end, number - end);
    out += '0';
    at = number_end;
  }
  return out;
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
  if (without_lengths(before.recipe_text) != without_lengths(now.recipe_text)) {
    out.push_back(first_differing_line(before.recipe_text, now.recipe_text));
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

bool lengths_differ(const RunIdentity& before, const RunIdentity& now) {
  for (const char* key : {"steps", "epochs"}) {
    if (!(length_of(before.config, key) == length_of(now.config, key))) return true;
  }
  return before.recipe_text != now.recipe_text &&
         without_lengths(before.recipe_text) == without_lengths(now.recipe_text);
}

std::vector<Difference> input_differences(const Json& before, const Json& now) {
  const Json* from = before.find("keys");
  const Json* to = now.find("keys");
  std::vector<Difference> out;
  // Fields tell the user what to undo; a digest only tells that something differs.
  if (from != nullptr && to != nullptr) out = find_differences(*from, *to, "data");
  return out.empty() ? find_differences(before.at("digest"), now.at("digest"), "digest") : out;
}

std::string resume_notice(ResumeItem item, const std::string& subject,
                          const std::vector<Difference>& differences,
                          const std::filesystem::path& dir, bool force) {
  const ResumeRule& rule = *std::find_if(std::begin(kResumeRules), std::end(kResumeRules),
                                         [&](const ResumeRule& one) { return one.item == item; });
  const std::string text = fmt::format(fmt::runtime(rule.text), subject) +
                           (differences.empty() ? "" : ":") + "\n" +
                           describe_differences(differences);
  XRUN_CHECK(force || !rule.refuses,
             "{}: cannot resume: {}to resume with these changes, add --force; to start a new run, "
             "choose another folder with --run DIR",
             dir.string(), text);
  return rule.refuses ? "resuming by --force: " + text : text;
}

}  // namespace xrun
