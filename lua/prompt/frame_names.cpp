// The paused frame is the one whose `for` walks over the loop. Before an error unwinds the frames,
// the names of the main chunk are copied into the registry.

#include "lua/prompt/frame_names.h"

#include <algorithm>

#include "core/base/error.h"
#include "lua/bind/recipe.h"
#include "lua/bind/run/run_loop.h"
#include "lua/state/class.h"

namespace xrun {

namespace {

const char kSavedKey = 0;  // registry[&kSavedKey] = { name = value } of a main chunk that failed

bool is_of_file(lua_State* L, lua_Debug& frame) {
  lua_getinfo(L, "S", &frame);
  return frame.source != nullptr && frame.source[0] == '@';
}

// Hidden slots, such as those of a `for`, have names like "(for state)"; upvalues of C functions
// have the name "".
bool is_name(const char* name) { return name[0] != '\0' && name[0] != '('; }

// Returns true if the `for` of a frame iterates over the loop.
bool walks_over(lua_State* L, lua_Debug& frame, const StepLoop* loop) {
  const StackGuard guard(L);
  // A `for` keeps its iterator in hidden slots of this name.
  for (int n = 1; const char* name = lua_getlocal(L, &frame, n); ++n) {
    const int value = lua_gettop(L);
    if (std::string_view(name) == "(for state)" && class_of(L, value) == &class_info<StepLoop> &&
        object_at<StepLoop>(L, value).get() == loop) {
      return true;
    }
    lua_pop(L, 1);
  }
  return false;
}

// Returns the level of the frame whose `for` walks over the loop; else of the innermost main chunk
// of a file, else of the innermost function of one; -1 if there is none.
int find_level(lua_State* L, const StepLoop* loop) {
  int first = -1, chunk = -1;
  lua_Debug frame{};
  for (int level = 0; lua_getstack(L, level, &frame) != 0; ++level) {
    if (!is_of_file(L, frame)) continue;
    if (loop != nullptr && walks_over(L, frame, loop)) return level;
    if (first < 0) first = level;
    if (chunk < 0 && std::string_view(frame.what) == "main") chunk = level;
  }
  return chunk >= 0 ? chunk : first;
}

// Pushes the table of saved names; nil if there is none.
void push_saved(lua_State* L) {
  lua_pushlightuserdata(L, const_cast<char*>(&kSavedKey));
  lua_rawget(L, LUA_REGISTRYINDEX);
}

}  // namespace

FrameNames::FrameNames(lua_State* thread, const StepLoop* loop) : thread_(thread) {
  luaL_checkstack(thread, LUA_MINSTACK, "no room to read names");
  const StackGuard guard(thread);
  level_ = find_level(thread, loop);
  lua_Debug frame{};
  if (level_ < 0 || lua_getstack(thread, level_, &frame) == 0) return;
  lua_getinfo(thread, "fl", &frame);
  line_ = frame.currentline;
  const int function = lua_gettop(thread);
  for (int n = 1; const char* name = lua_getlocal(thread, &frame, n); ++n) {
    if (is_name(name)) {
      // A later local hides an earlier one of its name.
      std::erase_if(names_, [&](const FrameName& known) { return known.name == name; });
      names_.push_back({name, FrameNameKind::kLocal, n});
    }
    lua_pop(thread, 1);
  }
  for (int n = 1; const char* name = lua_getupvalue(thread, function, n); ++n) {
    // A local hides an upvalue.
    if (is_name(name) && find(name) == nullptr) {
      names_.push_back({name, FrameNameKind::kUpvalue, n});
    }
    lua_pop(thread, 1);
  }
}

// These are copies from a recipe that has ended or failed: there is no frame to write to.
FrameNames FrameNames::saved(lua_State* L) {
  FrameNames names;
  const StackGuard guard(L);
  push_saved(L);
  if (!lua_istable(L, -1)) return names;
  names.thread_ = L;
  for (lua_pushnil(L); lua_next(L, -2) != 0; lua_pop(L, 1)) {
    names.names_.push_back({lua_tostring(L, -2), FrameNameKind::kSaved, 0});
  }
  std::sort(names.names_.begin(), names.names_.end(),
            [](const FrameName& a, const FrameName& b) { return a.name < b.name; });
  return names;
}

const FrameName* FrameNames::find(const std::string& name) const {
  const auto found = std::find_if(names_.begin(), names_.end(),
                                  [&](const FrameName& known) { return known.name == name; });
  return found == names_.end() ? nullptr : &*found;
}

bool FrameNames::push(lua_State* L, const std::string& name) const {
  const FrameName* found = find(name);
  if (found == nullptr) return false;
  lua_Debug frame{};
  switch (found->kind) {
    // A level is valid only while the recipe is suspended.
    case FrameNameKind::kLocal:
      lua_getstack(thread_, level_, &frame);
      lua_getlocal(thread_, &frame, found->index);
      break;
    case FrameNameKind::kUpvalue:
      lua_getstack(thread_, level_, &frame);
      lua_getinfo(thread_, "f", &frame);
      lua_getupvalue(thread_, -1, found->index);
      lua_remove(thread_, -2);
      break;
    case FrameNameKind::kSaved:
      push_saved(thread_);
      lua_getfield(thread_, -1, name.c_str());
      lua_remove(thread_, -2);
      break;
  }
  // The recipe runs in a coroutine, the prompt in the main state.
  if (thread_ != L) lua_xmove(thread_, L, 1);
  return true;
}

bool FrameNames::set(lua_State* L, const std::string& name) const {
  const FrameName* found = find(name);
  if (found == nullptr) return false;
  if (thread_ != L) lua_xmove(L, thread_, 1);
  lua_Debug frame{};
  switch (found->kind) {
    case FrameNameKind::kLocal:
      lua_getstack(thread_, level_, &frame);
      lua_setlocal(thread_, &frame, found->index);
      break;
    case FrameNameKind::kUpvalue:
      lua_getstack(thread_, level_, &frame);
      lua_getinfo(thread_, "f", &frame);
      lua_insert(thread_, -2);
      lua_setupvalue(thread_, -2, found->index);
      lua_pop(thread_, 1);
      break;
    case FrameNameKind::kSaved:
      push_saved(thread_);
      lua_insert(thread_, -2);
      lua_setfield(thread_, -2, name.c_str());
      lua_pop(thread_, 1);
      break;
  }
  return true;
}

// An error in another coroutine of the recipe has no such frame.
void save_frame_names(lua_State* L) {
  const std::string source = "@" + recipe_context(L).options.recipe;
  luaL_checkstack(L, LUA_MINSTACK, "no room to save names");
  const StackGuard guard(L);
  lua_Debug frame{};
  for (int level = 0; lua_getstack(L, level, &frame) != 0; ++level) {
    lua_getinfo(L, "S", &frame);
    if (source != frame.source || std::string_view(frame.what) != "main") continue;
    lua_pushlightuserdata(L, const_cast<char*>(&kSavedKey));
    lua_newtable(L);
    for (int n = 1; const char* name = lua_getlocal(L, &frame, n); ++n) {
      if (is_name(name) && !lua_isnil(L, -1)) {
        lua_setfield(L, -2, name);  // the inner one of two equal names comes later
      } else {
        lua_pop(L, 1);
      }
    }
    lua_rawset(L, LUA_REGISTRYINDEX);
    return;
  }
}

}  // namespace xrun
