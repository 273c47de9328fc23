// Chunk names: "@dpo.lua" for a file, "@input 3" for a line typed at the prompt.

#include "lua/state/source_texts.h"

#include <utility>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/config/excerpt.h"
#include "lua/state/lua_state.h"

namespace xrun {

namespace {

constexpr uint64_t kMostSourceBytes = uint64_t{1} << 20;

}  // namespace

void remember_source(lua_State* L, std::string chunk_name, std::string text) {
  auto& texts = LuaState::of(L).service<SourceTexts>();
  texts.newest = chunk_name;
  texts.by_chunk[std::move(chunk_name)] = std::move(text);
}

const std::string& source_text(lua_State* L, const std::string& chunk_name) {
  auto& texts = LuaState::of(L).service<SourceTexts>().by_chunk;
  auto found = texts.find(chunk_name);
  if (found == texts.end()) {
    // An unreadable file is remembered as empty, so it is tried once.
    std::string text;
    try {
      text = read_file(chunk_name.substr(1), kMostSourceBytes);
    } catch (const Error&) {
      // gone or unreadable: the error shows no excerpt
    }
    found = texts.emplace(chunk_name, std::move(text)).first;
  }
  return found->second;
}

std::string source_line(lua_State* L, const std::string& chunk_name, int line) {
  return std::string(line_of(source_text(L, chunk_name), line));
}

}  // namespace xrun
