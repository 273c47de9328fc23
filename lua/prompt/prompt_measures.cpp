// time, prof, mem: what an input costs and what is held.

#include <cstdio>

#include "core/base/count_text.h"
#include "core/base/error.h"
#include "core/base/process_memory.h"
#include "core/base/steady_clock.h"
#include "core/console/terminal/table.h"
#include "core/model/device_memory.h"
#include "core/model/ops/allocator.h"
#include "lua/state/line_profile.h"
#include "lua/prompt/prompt_commands.h"
#include "lua/bind/recipe.h"
#include "lua/tensor/tensor.h"

namespace xrun {
namespace {

std::string bytes(int64_t count) { return format_bytes(static_cast<double>(count)); }

std::string time_chunk(Prompt& prompt, std::string_view rest) {
  XRUN_CHECK(!rest.empty(), "wanted :time CHUNK, as in :time x:matmul(y)");
  const MemoryCount before = memory_count();
  const auto began = SteadyClock::now();
  prompt.call_chunk(rest);
  const double taken = seconds_since(began);
  const MemoryCount after = memory_count();
  return fmt::format("{:.6g} s; tensors on the CPU: {} allocated, {} kept", taken,
                     bytes(after.allocated - before.allocated), bytes(after.held - before.held));
}

std::string profile_chunk(Prompt& prompt, std::string_view rest) {
  XRUN_CHECK(!rest.empty(), "wanted :prof CHUNK, as in :prof step()");
  const LineProfile profile(prompt.state());
  prompt.call_chunk(rest);
  return profile.text(prompt.console().traits().width);
}

std::string memory(Prompt& prompt, std::string_view) {
  lua_State* L = prompt.lua();
  const auto& ledger = prompt.state().service<TensorLedger>();
  const MemoryCount count = memory_count();
  TextTable table({"memory", "bytes"}, {Align::kLeft, Align::kRight});
  table.add({"Lua's heap", bytes(int64_t{lua_gc(L, LUA_GCCOUNT, 0)} * 1024)});
  table.add(
      {count_text(ledger.live_tensors()) + " tensors that Lua names", bytes(ledger.live_bytes())});
  table.add({"all tensors on the CPU", bytes(count.held)});
  table.add({"most so far", bytes(count.peak)});
  table.add({"free in the process's heap", bytes(free_heap_bytes())});
  table.add({"the process, as the system counts", bytes(resident_bytes())});
  const c10::Device device = recipe_device(recipe_context(L).options);
  const DeviceMemory of_device = device_memory(device);
  if (device.type() != c10::kCPU) {
    table.add({"tensors on " + device.str(), bytes(of_device.held)});
    table.add({"most so far", bytes(of_device.peak)});
  }
  table.add({"still to be had on " + device.str(), bytes(of_device.available)});
  std::string text = table.text(prompt.console().traits().width);
  text.pop_back();
  return text;
}

}  // namespace

void add_measure_commands(Prompt& prompt) {
  prompt.add({"time", "CHUNK", "How long a chunk takes and what it allocates.", time_chunk, true});
  prompt.add(
      {"prof", "CHUNK",
       "Time and bytes by line of the recipe (or of inputs) while a chunk runs: :prof step(). "
       "Work of a GPU counts where the host waits for it.",
       profile_chunk, true});
  prompt.add({"mem", "", "What Lua, tensors and the process hold, and what is left.", memory});
}

}  // namespace xrun
