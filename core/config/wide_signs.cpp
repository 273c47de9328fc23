// The full-width forms U+FF01 to U+FF5E are ASCII's ! to ~ in the same order; other signs have a
// row each. LuaJIT takes all of them as letters, so its own messages do not name them.

#include "core/config/wide_signs.h"

#include <fmt/core.h>

#include <cstdint>
#include <utility>

#include "core/base/utf8.h"
#include "core/config/lua_lexer.h"

namespace xrun {
namespace {

constexpr uint32_t kFirstWide = 0xFF01, kLastWide = 0xFF5E;
constexpr uint32_t kWideColon = 0xFF1A;

constexpr std::pair<uint32_t, std::string_view> kOtherSigns[] = {
    {0x00A0, "a space"}, {0x2018, "'"},       {0x2019, "'"}, {0x201C, "\""}, {0x201D, "\""},
    {0x2212, "-"},       {0x3000, "a space"}, {0x3001, ","}, {0x3002, "."},
};

// Returns the ASCII form of a code point; "" if it has none.
std::string ascii_form(uint32_t point, std::string_view colon) {
  if (point == kWideColon) return std::string(colon);
  if (point >= kFirstWide && point <= kLastWide) {
    return std::string(1, static_cast<char>(point - kFirstWide + '!'));
  }
  for (const auto& [other, plain] : kOtherSigns) {
    if (point == other) return std::string(plain);
  }
  return "";
}

}  // namespace

bool is_wide_sign(std::string_view text) {
  return !text.empty() && !ascii_form(read_utf8(text, 0).value, ":").empty();
}

std::string wide_sign_hint(std::string_view text, std::string_view colon) {
  if (text.empty()) return "";
  const CodePoint point = read_utf8(text, 0);
  const std::string plain = ascii_form(point.value, colon);
  if (plain.empty()) return "";
  return fmt::format("`{}` (U+{:04X}) is not ASCII; write {}", text.substr(0, point.size),
                     point.value, plain);
}

std::string wide_setting_hint(std::string_view text) {
  for (size_t at = 0; at < text.size(); at += read_utf8(text, at).size) {
    if (std::string hint = wide_sign_hint(text.substr(at), "="); !hint.empty()) return hint;
  }
  return "";
}

std::string wide_source_hint(std::string_view text, int first, int last) {
  std::string hint;
  int line = 0;
  for (const LuaToken& token : lex_lua(text)) {
    if (token.line > last) break;
    if (token.line < first || token.line == line || token.kind != LuaTokenKind::kSign) continue;
    const std::string found = wide_sign_hint(text.substr(token.begin));
    if (found.empty()) continue;
    line = token.line;
    hint = (line == last ? "" : fmt::format("line {}: ", line)) + found;
  }
  return hint;
}

}  // namespace xrun
