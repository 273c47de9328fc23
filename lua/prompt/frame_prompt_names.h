#pragma once
// The names of a paused recipe's frame, as a prompt wants them.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lua/bind/frame_names.h"
#include "lua/prompt/prompt.h"

namespace xrun {

// Asks `now` for the frame at each use, since names are valid until the recipe goes on; what `now`
// reads outlives this.
class FramePromptNames : public PromptNames {
 public:
  explicit FramePromptNames(std::function<FrameNames()> now) : now_(std::move(now)) {}

  bool read(lua_State* L, const std::string& name) override { return now_().push(L, name); }
  bool write(lua_State* L, const std::string& name) override {
    const FrameNames frame = now_();
    if (!has(frame, name)) return false;  // set() would pop the value
    return frame.set(L, name);
  }
  std::vector<std::string> names() override {
    std::vector<std::string> all;
    const FrameNames frame = now_();
    for (const FrameName& name : frame.names()) all.push_back(name.name);
    return all;
  }

 private:
  static bool has(const FrameNames& frame, const std::string& name) {
    for (const FrameName& known : frame.names()) {
      if (known.name == name) return true;
    }
    return false;
  }
  std::function<FrameNames()> now_;
};

}  // namespace xrun
