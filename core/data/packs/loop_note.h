#pragma once
// What a recipe's first loop draws from, remembered: whoever wants to see its packs again needs
// neither the recipe's run nor the libraries that compute.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/data/packs/set_note.h"

namespace xrun {

// Good as long as the files that it names hold the same bytes and the sets have the same content.
struct LoopNote {
  struct Source {
    std::string name;  // of the data, for people
    SetNote set;
    StepPlan plan;
    std::string fingerprint;  // of the whole set
  };
  std::vector<std::pair<std::string, std::string>> files;  // path, hash: recipe, modules, model
  std::vector<std::string> absent;  // paths that are not there: a model's name is no folder
  std::string model;                // the folder of the tokenizer
  std::string tokenizer;            // its digest
  int64_t steps = 0, max_tokens = 0;
  std::vector<Source> sources;
  std::vector<std::string> notices;  // what the recipe was told on its way to the loop
};

constexpr const char* kLoopNotesFolder = "loop_notes";  // of the store
constexpr size_t kMostLoopNotes = 256;                  // older ones go

// Keeps a note under a key of letters and digits. What cannot be written is left: a note only saves
// time.
void keep_loop_note(const std::filesystem::path& root, const std::string& key,
                    const LoopNote& note) noexcept;

// The note of a key, if there is one and each of its files holds the same bytes; one that was
// damaged or changed, or whose numbers no loop can have, is none. Never throws.
std::optional<LoopNote> find_loop_note(const std::filesystem::path& root,
                                       const std::string& key) noexcept;

// Whether what a note says of a set fits the set as it was opened: it has the same content, and a
// step draws no more units than it has, or few.
bool fits(const LoopNote::Source& source, const DataSet& set);

// Removes all notes; whether there was any.
bool forget_loop_notes(const std::filesystem::path& root);

// Whether a chunk of Lua can only depend on itself, its modules and what its data hold: it neither
// names what reads files, the clock or the environment, nor loads code.
bool depends_on_itself(const std::string& lua);

}  // namespace xrun
