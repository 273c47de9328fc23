#pragma once
// Fuzz targets: functions over bytes that others may have written. Each returns normally whatever
// it is given; an exception other than xrun::Error, a crash, a leak or a hang is a defect.
// tools/fuzz/run runs one under libFuzzer; the corpora are replayed by the ordinary tests.

#include <stdexcept>
#include <string>
#include <string_view>

namespace xrun {

struct FuzzTarget {
  const char* name;
  void (*run)(std::string_view input);
};

// One file per target, tools/fuzz/NAME.cpp. Corpora are in tests/data/fuzz/NAME.
void fuzz_alignment(std::string_view input);         // letters that name two tokenizers, and text
void fuzz_attention_layout(std::string_view input);  // a shape, and nodes of a tree
void fuzz_bundle(std::string_view input);            // a bundle, or the lock of one
void fuzz_cache_open(std::string_view input);        // edits of a cache's files
void fuzz_data_rows(std::string_view input);         // a letter that names a format, and a file
void fuzz_jinja(std::string_view input);             // a template's source, 0, messages as JSON
void fuzz_json(std::string_view input);              // JSON
void fuzz_lua_source(std::string_view input);        // a recipe's text
void fuzz_model_files(std::string_view input);       // a letter that names a format, and a file
void fuzz_prefix_tree(std::string_view input);       // a letter that names a function, and lists
void fuzz_tokenizer_bytes(std::string_view input);   // a letter that names a tokenizer, and text
void fuzz_tokenizer_json(std::string_view input);    // a tokenizer.json
void fuzz_torch_file(std::string_view input);        // a file of torch.save, or its pickle

inline constexpr FuzzTarget kFuzzTargets[] = {
    {"alignment", fuzz_alignment},
    {"attention_layout", fuzz_attention_layout},
    {"bundle", fuzz_bundle},
    {"cache_open", fuzz_cache_open},
    {"data_rows", fuzz_data_rows},
    {"jinja", fuzz_jinja},
    {"json", fuzz_json},
    {"lua_source", fuzz_lua_source},
    {"model_files", fuzz_model_files},
    {"prefix_tree", fuzz_prefix_tree},
    {"tokenizer_bytes", fuzz_tokenizer_bytes},
    {"tokenizer_json", fuzz_tokenizer_json},
    {"torch_file", fuzz_torch_file},
};

// Throws std::logic_error(what) unless the property `holds`.
inline void fuzz_check(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

// Writes a file of this name ("a/b": in its subfolder) into the folder of the process, in
// memory where that is possible, and returns that folder. It is gone when the process ends.
std::string fuzz_file(const std::string& name, std::string_view bytes);

}  // namespace xrun
