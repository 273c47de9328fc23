// Loads the plug-in with dlopen, once.

#include "core/text/tokenizer/sentencepiece_library.h"

#include <dlfcn.h>

#include <filesystem>

#include "core/base/error.h"

namespace xrun {

namespace {

// RTLD_DEEPBIND: the library uses its own FLAGS_minloglevel; with libc10's it would overwrite
// memory (docs/log.md). AddressSanitizer refuses a library that resolves symbols in itself first.
#ifdef __SANITIZE_ADDRESS__
constexpr int kOwnScope = 0;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr int kOwnScope = 0;
#else
constexpr int kOwnScope = RTLD_DEEPBIND;
#endif
#else
constexpr int kOwnScope = RTLD_DEEPBIND;
#endif

// The plug-in is in the folder of the library that contains this code.
std::filesystem::path plugin_path() {
  Dl_info self{};
  dladdr(reinterpret_cast<void*>(&make_sentencepiece_encoder), &self);
  const std::filesystem::path library = self.dli_fname != nullptr ? self.dli_fname : "";
  return library.parent_path() / "libxrun_sentencepiece.so";
}

// Never unloads the plug-in: encoders live in it.
MakeSentencePieceEncoder load_entry() {
  const std::string path = plugin_path().string();
  void* plugin = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | kOwnScope);
  XRUN_CHECK(plugin != nullptr, "{}: cannot be loaded: {}", path, dlerror());
  void* entry = dlsym(plugin, kSentencePieceEntry);
  XRUN_CHECK(entry != nullptr, "{}: has no entry; build it again", path);
  return reinterpret_cast<MakeSentencePieceEncoder>(entry);
}

}  // namespace

std::unique_ptr<const SentencePieceEncoder> make_sentencepiece_encoder(const std::string& bytes,
                                                                       const std::string& where) {
  // The first model that needs it loads it.
  static const MakeSentencePieceEncoder make = load_entry();
  std::string message;
  std::unique_ptr<const SentencePieceEncoder> encoder(make(bytes, message));
  XRUN_CHECK(encoder != nullptr, "{}: {}", where, message);
  return encoder;
}

}  // namespace xrun
