#pragma once
// Builders of config fields: one expression declares a field, so that the table reads as a list.

#include <string>
#include <utility>
#include <vector>

#include "core/config/config_field.h"

namespace xrun::field_builders {

inline ConfigField of_kind(FieldKind kind, std::string path, Json default_value, std::string doc) {
  return {.path = std::move(path),
          .kind = kind,
          .default_value = std::move(default_value),
          .doc = std::move(doc)};
}

inline ConfigField text(std::string path, Json default_value, std::string doc,
                        std::vector<std::string> choices = {}) {
  ConfigField field =
      of_kind(FieldKind::kText, std::move(path), std::move(default_value), std::move(doc));
  field.choices = std::move(choices);
  return field;
}

inline ConfigField flag_or_text(std::string path, Json default_value, std::string doc,
                                std::vector<std::string> choices) {
  ConfigField field =
      of_kind(FieldKind::kFlagOrText, std::move(path), std::move(default_value), std::move(doc));
  field.choices = std::move(choices);
  return field;
}

inline ConfigField flag(std::string path, bool default_value, std::string doc) {
  return of_kind(FieldKind::kFlag, std::move(path), Json(default_value), std::move(doc));
}

inline ConfigField at_least(double least, ConfigField field) {
  field.least = least;
  return field;
}

inline ConfigField up_to(double most, ConfigField field) {
  field.most = most;
  return field;
}

inline ConfigField whole(std::string path, Json default_value, double least, std::string doc) {
  return at_least(
      least, of_kind(FieldKind::kWhole, std::move(path), std::move(default_value), std::move(doc)));
}

inline ConfigField number(std::string path, Json default_value, double least, double most,
                          std::string doc) {
  ConfigField field =
      of_kind(FieldKind::kNumber, std::move(path), std::move(default_value), std::move(doc));
  field.most = most;
  return at_least(least, std::move(field));
}

// A list of numbers of any length.
inline ConfigField numbers(std::string path, Json default_value, double least, std::string doc) {
  return at_least(least, of_kind(FieldKind::kNumbers, std::move(path), std::move(default_value),
                                 std::move(doc)));
}

inline ConfigField above_zero(std::string path, Json default_value, std::string doc) {
  ConfigField field =
      of_kind(FieldKind::kNumber, std::move(path), std::move(default_value), std::move(doc));
  field.above_least = true;
  return at_least(0, std::move(field));
}

inline ConfigField required(ConfigField field) {
  field.required = true;
  return field;
}

inline ConfigField of_data_set(ConfigField field) {
  field.of_data_set = true;
  return field;
}

inline ConfigField below_most(ConfigField field) {
  field.below_most = true;
  return field;
}

// Two numbers of at least 0 and below 1.
inline ConfigField betas(std::string path, Json default_value, std::string doc) {
  ConfigField field = numbers(std::move(path), std::move(default_value), 0, std::move(doc));
  field.most = 1;
  field.elements = 2;
  return below_most(std::move(field));
}

// Sets the field's names in other libraries: arguments of TRL, Transformers and PEFT, Axolotl's
// YAML.
inline ConfigField foreign(std::vector<std::string> names, ConfigField field) {
  field.foreign = std::move(names);
  return field;
}

}  // namespace xrun::field_builders
