// The length of a run is no part of its identity: what is compared and hashed has no steps and
// epochs. Whether a phase became shorter is looked at when it begins (Run::begin_phase).
#include "core/run/run_identity.h"

#include <fmt/core.h>

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

Json config_without_lengths(const Json& config) {
  if (!config.is_object()) return config;
  Json rest = Json::object();
  for (const auto& [key, value] : config.as_object()) {
    if (!is_length(key)) rest.set(key, value);
  }
  return rest;
}

Json length_of(const Json& config, std::string_view key) {
  const Json* value = config.find(key);
  return value == nullptr ? Json() : *value;
}

struct LineOfText {
  std::string_view text;
  bool exists;
};

LineOfText take_line(std::string_view& text) {
  if (text.empty()) return {"", false};
  const size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return {line, true};
}

std::string quote(const LineOfText& line) {
  if (!line.exists) return "absent";
  const size_t from = skip_blanks(line.text, 0);
  return fmt::format("`{}`", line.text.substr(from, 80));
}

// Requires that the texts differ without their lengths.
Difference first_differing_line(std::string_view before, std::string_view now) {
  for (int number = 1;; ++number) {
    const LineOfText a = take_line(before);
    const LineOfText b = take_line(now);
    const bool same = a.exists == b.exists && without_lengths(a.text) == without_lengths(b.text);
    if (!same || !a.exists) return {fmt::format("recipe.lua:{}", number), quote(a), quote(b)};
  }
}

}  // namespace

std::string without_lengths(std::string_view text) {
  std::string out;
  size_t at = 0;
  while (at < text.size()) {
    size_t end = at;
    while (end < text.size() && is_word(text[end])) ++end;
    if (end == at) {
      out += text[at++];
      continue;
    }
    const std::string_view word = text.substr(at, end - at);
    out += word;
    at = end;
    const size_t equals = skip_blanks(text, end);
    if (!is_length(word) || equals >= text.size() || text[equals] != '=') continue;
    const size_t number = skip_blanks(text, equals + 1);
    size_t number_end = number;
    while (number_end < text.size() && text[number_end] >= '0' && text[number_end] <= '9') {
      ++number_end;
    }
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
  hasher.field("config", dump_json(config_without_lengths(identity.config), {.sort_keys = true}));
  return hasher.hex().substr(0, 8);
}

std::vector<Difference> identity_differences(const RunIdentity& before, const RunIdentity& now) {
  std::vector<Difference> out;
  if (without_lengths(before.recipe_text) != without_lengths(now.recipe_text)) {
    out.push_back(first_differing_line(before.recipe_text, now.recipe_text));
  }
  const auto add = [&](const Json& a, const Json& b, const char* name) {
    for (auto& difference : find_differences(a, b, name)) out.push_back(std::move(difference));
  };
  add(config_without_lengths(before.config), config_without_lengths(now.config), "config");
  add(before.binary, now.binary, "binary");
  return out;
}

bool lengths_differ(const RunIdentity& before, const RunIdentity& now) {
  for (const char* key : {"steps", "epochs"}) {
    if (!(length_of(before.config, key) == length_of(now.config, key))) return true;
  }
  return before.recipe_text != now.recipe_text &&
         without_lengths(before.recipe_text) == without_lengths(now.recipe_text);
}

}  // namespace xrun
