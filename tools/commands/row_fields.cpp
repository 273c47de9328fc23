// Every message begins with the row's file and line.

#include "tools/commands/row_fields.h"

#include <charconv>

#include "core/base/error.h"

namespace xrun {

namespace {

const Json& field_of(const Json& row, const RowReader& rows, const char* name) {
  const Json* field = row.find(name);
  XRUN_CHECK(row.is_object() && field != nullptr, "{}: wanted an object with the field \"{}\"",
             rows.location(), name);
  return *field;
}

}  // namespace

Json parse_row(const std::string& line, const RowReader& rows) {
  return parse_json(line, rows.name(), rows.line());
}

std::string text_field(const Json& row, const RowReader& rows) {
  const Json& text = field_of(row, rows, "text");
  XRUN_CHECK(text.is_string(), "{}: the field \"text\" has type {}, wanted a string",
             rows.location(), text.kind_name());
  return text.as_string();
}

std::vector<int32_t> ids_field(const Json& row, const RowReader& rows, const char* name) {
  const Json& field = field_of(row, rows, name);
  XRUN_CHECK(field.is_array(), "{}: the field \"{}\" has type {}, wanted an array", rows.location(),
             name, field.kind_name());
  std::vector<int32_t> ids;
  for (const Json& id : field.as_array()) {
    XRUN_CHECK(id.is_int() && id.as_int() >= 0 && id.as_int() <= INT32_MAX,
               "{}: \"{}\"[{}] is {}, wanted an id", rows.location(), name, ids.size(),
               dump_json(id));
    ids.push_back(int32_t(id.as_int()));
  }
  return ids;
}

void append_number(std::string& out, int64_t value) {
  char digits[24];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, value);
  out.append(digits, end);
}

void append_ids(std::string& out, const std::vector<int32_t>& ids) {
  out += '[';
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) out += ',';
    append_number(out, ids[i]);
  }
  out += ']';
}

}  // namespace xrun
