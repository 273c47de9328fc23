// Colon commands: time, prof, mem, set, save, quit, and those that need a paused recipe.

#include <algorithm>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/process_usage.h"
#include "core/base/strings.h"
#include "core/config/config_field.h"
#include "core/config/config_scan.h"
#include "core/console/terminal/table.h"
#include "core/model/ops/allocator.h"
#include "core/model/ops/device_memory.h"
#include "lua/bind/recipe.h"
#include "lua/prompt/prompt.h"
#include "lua/state/args.h"
#include "lua/state/line_profile.h"
#include "lua/tensor/tensor.h"
#include "lua/tensor/value_text.h"

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
  return fmt::format("{:.6g} s; tensors on the CPU: {} allocated, {} still held", taken,
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
  table.add({count_text(ledger.live_tensors()) + " tensors with a Lua handle",
             bytes(ledger.live_bytes())});
  table.add({"all tensors on the CPU", bytes(count.held)});
  table.add({"peak on the CPU", bytes(count.peak)});
  table.add({"free in the process's heap", bytes(free_heap_bytes())});
  table.add({"the process (resident)", bytes(resident_bytes())});
  const c10::Device device = recipe_device(recipe_context(L).options);
  const DeviceMemory of_device = device_memory(device);
  if (device.type() != c10::kCPU) {
    table.add({"tensors on " + device.str(), bytes(of_device.held)});
    table.add({"peak on " + device.str(), bytes(of_device.peak)});
  }
  table.add({"available on " + device.str(), bytes(of_device.available)});
  std::string text = table.text(prompt.console().traits().width);
  text.pop_back();
  return text;
}

void add_measure_commands(Prompt& prompt) {
  prompt.add({"time", "CHUNK", "Time and allocations of a chunk.", time_chunk, true});
  prompt.add(
      {"prof", "CHUNK",
       "Time and bytes by line of the recipe (or of inputs) while a chunk runs: :prof step(). "
       "GPU work counts at the line that waits for it.",
       profile_chunk, true});
  prompt.add({"mem", "", "Memory held by Lua, tensors and the process, and what is free.", memory});
}

// True for a key that is an index of a list: digits alone.
bool is_list_index(const std::string& key) {
  return !key.empty() && key.size() < 10 && key.find_first_not_of("0123456789") == key.npos;
}

// Pushes a key of a table of the config.
void push_config_key(lua_State* L, const std::string& key) {
  if (is_list_index(key)) return push(L, std::stod(key));
  push(L, key);
}

// Pushes the table of the recipe's config that holds the last key of a path; returns that key.
// The tables on the way stay below it; the caller's guard removes them.
std::string push_config_home(Prompt& prompt, const std::string& config, const std::string& path) {
  lua_State* L = prompt.lua();
  XRUN_CHECK(prompt.push_name(config) && lua_istable(L, -1),
             "`{}` is not defined yet: the recipe stopped before its line", config);
  size_t at = 0;
  for (size_t dot; (dot = path.find('.', at)) != std::string::npos; at = dot + 1) {
    push_config_key(L, path.substr(at, dot - at));
    lua_rawget(L, -2);
    XRUN_CHECK(lua_istable(L, -1), "the config has no table `{}`", path.substr(0, dot));
  }
  return path.substr(at);
}

// "; did you mean `beta`?" if the table on top of the stack has a key of similar spelling.
std::string near_key(lua_State* L, const std::string& path) {
  const StackGuard guard(L);
  std::vector<std::string> keys;
  lua_pop(L, 1);  // the value of the key, nil
  for (lua_pushnil(L); lua_next(L, -2) != 0; lua_pop(L, 1)) {
    if (lua_type(L, -2) == LUA_TSTRING) keys.emplace_back(lua_tostring(L, -2));
  }
  const std::string near = nearest_name(path.substr(path.rfind('.') + 1), keys);
  return near.empty() ? "" : "; did you mean `" + near + "`?";
}

// Returns true if the engine reads a key: a field of its own, or an element of one that is a list.
bool is_engine_key(const std::string& path) {
  if (find_config_field(path) != nullptr) return true;
  const size_t dot = path.rfind('.');
  return dot != path.npos && is_list_index(path.substr(dot + 1)) &&
         find_config_field(path.substr(0, dot)) != nullptr;
}

std::string set_key(Prompt& prompt, std::string_view rest) {
  lua_State* L = prompt.lua();
  const StackGuard guard(L);
  const std::string config = recipe_context(L).text.config_name;
  XRUN_CHECK(!config.empty(),
             "there is no config: open a recipe that has one, xrun repl RECIPE.lua");
  // Also accepts `:set beta=0.2`.
  const size_t end = std::min(rest.find_first_of(" ="), rest.size());
  const std::string path(rest.substr(0, end));
  const size_t begin = rest.find_first_not_of(" =", end);
  XRUN_CHECK(!path.empty() && begin != rest.npos, "wanted :set KEY VALUE, as in :set beta 0.2");
  const std::string text(rest.substr(begin));
  const std::string key = push_config_home(prompt, config, path);
  push_config_key(L, key);
  lua_rawget(L, -2);
  const int before = lua_type(L, -1);
  // An engine's key may be absent because it has no default.
  XRUN_CHECK(before != LUA_TNIL || find_config_field(path) != nullptr,
             "the config has no `{}`; :set changes existing keys{}", path, near_key(L, path));
  const std::string old = value_text(L, -1, {.width = 60});
  lua_pop(L, 1);
  // A text that is not a literal needs no quotes: `:set data.1.path pairs.jsonl`.
  const auto literal = parse_literal(text);
  push(L, literal ? literal_json(*literal) : Json(text));
  // A value of another type would fail later, far from this input.
  XRUN_CHECK(before == LUA_TNIL || lua_type(L, -1) == before, "{} is {}; got {}, wanted a {}", path,
             old, value_text(L, -1, {.width = 60}), lua_typename(L, before));
  const std::string now = value_text(L, -1, {.width = 60});
  push_config_key(L, key);
  lua_insert(L, -2);
  lua_rawset(L, -3);
  prompt.note_config_changes();
  std::string reply = fmt::format("{}.{} = {}  (was {})", config, path, now, old);
  if (is_engine_key(path)) {
    reply += fmt::format(
        "\nthe engine has already read its own keys; only lines that read {}.{} from now on see "
        "the new value (--set {} applies it from the beginning)",
        config, path, shell_word(path + "=" + text));
  }
  return reply;
}

// Returns the command that reads a file of inputs into the same recipe.
std::string command_of(const RecipeOptions& options, const std::string& file) {
  std::string out = "xrun repl ";
  if (!options.recipe.empty() && options.recipe != kNoRecipe) {
    out += shell_word(options.recipe) + " ";
  }
  for (const std::string& set : options.sets) out += "--set " + shell_word(set) + " ";
  return out + "< " + shell_word(file);
}

std::string save(Prompt& prompt, std::string_view rest) {
  XRUN_CHECK(!rest.empty(), "wanted :save FILE");
  const std::filesystem::path file(rest);
  // A typing error must not overwrite a recipe.
  XRUN_CHECK(!path_exists(file), "{} exists; choose another name", file.string());
  const RecipeOptions& options = recipe_context(prompt.state()).options;
  std::string command = command_of(options, file.string());
  // The comment is one line; in a table of --set a space is as good as the end of a line.
  std::replace(command.begin(), command.end(), '\n', ' ');
  std::string text = "-- Inputs of a prompt; " + command + "\n";
  for (const std::string& input : prompt.script_inputs()) text += input + "\n";
  write_file_atomic(file, text);
  return fmt::format("{} in {}", counted(std::ssize(prompt.script_inputs()), "input"),
                     file.string());
}

std::string quit(Prompt& prompt, std::string_view) {
  prompt.leave();
  return "";
}

std::string needs_paused_recipe(Prompt&, std::string_view) { throw Error(kNeedsPausedRecipe); }

}  // namespace

void add_prompt_commands(Prompt& prompt) {
  add_word_commands(prompt);
  add_measure_commands(prompt);
  prompt.add({.name = "set",
              .arguments = "KEY VALUE",
              .doc = "Changes a value of the recipe's config for lines that read it later.",
              .run = set_key,
              .in_script = true,
              .of_recipe = true});
  prompt.add({.name = "batch",
              .arguments = "",
              .doc = "Shows the current batch as packs and segments.",
              .run = needs_paused_recipe,
              .of_recipe = true});
  prompt.add({.name = "reload",
              .arguments = "",
              .doc = "Reads the recipe's file again and goes back to its loop.",
              .run = needs_paused_recipe,
              .of_recipe = true});
  prompt.add({"save", "FILE",
              "Writes the inputs so far, :set commands too but not failed ones, as a script for "
              "`xrun repl`.",
              save});
  prompt.add(
      {"quit", "",
       "Leaves the prompt, as Ctrl-D, exit and quit do; a run that was paused continues, and ends "
       "there if run:stop() was called.",
       quit});
}

}  // namespace xrun
