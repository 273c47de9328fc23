#pragma once
// The names of a suspended recipe: locals and upvalues of the function whose loop is paused. Values
// assigned to them are those that the loop continues with.

#include <lua.hpp>
#include <string>
#include <vector>

namespace xrun {

struct StepLoop;

enum class FrameNameKind { kLocal, kUpvalue, kSaved };  // saved: of a frame that an error has ended

// One name; an inner local hides an outer one.
struct FrameName {
  std::string name;
  FrameNameKind kind;
  int index;  // as lua_getlocal and lua_getupvalue count; 0 for kSaved
};

// The names of one frame of a coroutine that is suspended (or that runs the caller). Valid until
// the coroutine is resumed.
class FrameNames {
 public:
  // No frame, and so no names.
  FrameNames() = default;
  // Reads the frame whose `for` iterates over `loop`. If there is none, or `loop` is null, reads
  // the main chunk, else the innermost frame of a file.
  FrameNames(lua_State* thread, const StepLoop* loop);
  // Returns the names that save_frame_names saved; none if there was no error.
  static FrameNames saved(lua_State* L);

  bool empty() const { return names_.empty(); }
  // In the order of their declaration, locals first.
  const std::vector<FrameName>& names() const { return names_; }
  int line() const { return line_; }  // the current line of the frame; 0 without a frame

  // Pushes the value of a name onto L, a coroutine of the same state. Returns false and pushes
  // nothing if there is no such name.
  bool push(lua_State* L, const std::string& name) const;
  // Pops the value on top of L and assigns it to the name. Returns false, with nothing popped, if
  // there is no such name.
  bool set(lua_State* L, const std::string& name) const;

 private:
  const FrameName* find(const std::string& name) const;

  lua_State* thread_ = nullptr;
  int level_ = 0;
  int line_ = 0;
  std::vector<FrameName> names_;
};

// Saves the names and values of the recipe's main chunk before an error ends it, for
// FrameNames::saved.
void save_frame_names(lua_State* L);

}  // namespace xrun
