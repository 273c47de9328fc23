// Published templates, recognised by fingerprint. A fingerprint is listed once its marked
// counterpart renders every conversation of tests/golden/make/template_conversations.py alike;
// template_goldens.py prints the lines.

#include "core/text/chat/template_families.h"

#include <algorithm>
#include <iterator>

#include "core/base/hash.h"

namespace xrun {

namespace {

struct Stock {
  std::string_view fingerprint;
  std::string_view family;
};

// A template that its publisher has edited since is not found here; probes compare it instead.
constexpr Stock kStock[] = {
    {"7a128e0473e4be90846f9032c2079ea2", "chatml"},
    {"a344e8c84fb0282dda206a9e46a4ac01", "chatml"},
    {"f0a6a8278439fdb056191e205a440263", "chatml"},
    {"55c706fbac48dcf2e90e2d74ecc3919b", "command-r"},
    {"6557fc82f3059a7bcbe1fb1355c00728", "command-r"},
    {"b4c4d412caedff3162507bcd2e3bf746", "command-r"},
    {"f1e933cf283c34a4154ccac568de8a3b", "command-r"},
    {"e7ee2b9216f53b6370030d47d420498e", "command-r7b"},
    {"b59c4fde1d06da0055b25ceb4910aa64", "deepseek-r1-distill"},
    {"fc60798d3b3a231256a138c31521e7c8", "deepseek-v3"},
    {"8b30bb763d138e692c2e86beabccd2a4", "gemma"},
    {"6c84c2da794fd4c1d9c620dcaf86f38d", "gemma-3"},
    {"6081ccd879ad263bb67097de3f402358", "gemma-4"},
    {"7e7900772b51ad3d55ccad5c870013a6", "gemma-4"},
    {"83df29fd8fbbc283357398fa3aa9e46e", "gemma-4"},
    {"d3d35d95e949ef659bd65744505d2db5", "gemma-4"},
    {"f5c55ae4f37edb326b025fb2ff9052d9", "gemma-4"},
    {"f7467a36bd17239d6ebfc3d340d692c5", "gemma-4"},
    {"a04e49485f21e385c02b9dae12437509", "glm-4"},
    {"158e3477a24f6e26a59a37db2b6d44d1", "glm-4-moe"},
    {"263b899cbc2e65c8b619f5c43a935065", "gpt-oss"},
    {"0b12bcbbf1d07413a473220e0ba2083b", "granite-3"},
    {"b13392e8055e03294b313ff2b8746170", "granite-3"},
    {"cb1c9b71550d107db20bed472a0b8eee", "granite-3"},
    {"fef56ce965aab0c8cfd8ed9072b4cd0f", "granite-3"},
    {"e4dffab064fe05ee9a759f31d2cc23b5", "lfm2"},
    {"6ab6c45377773e40a87b606351ee7919", "lfm2.5"},
    {"4adb1f81f5c508ea24f6d97f87d647f5", "llama-2"},
    {"09facc0e4aa943189799ad6e2dea0594", "llama-3"},
    {"9ddcd6cd71f96dd76ca7779b7730196a", "llama-3.1"},
    {"573e1bcc8c56f178c3d57e38f5ff0756", "llama-3.2"},
    {"f395fc5daa794129a5d004210ebce758", "mistral-v0"},
    {"70bf874ad98f31f4b7f52373b11c60d7", "mistral-v0-spaced"},
    {"876a2693f5ece6d898326487e3b467bd", "mistral-v1"},
    {"a9353cb590f781b7b091cda72d40416a", "mistral-v3"},
    {"af2b89a9b22b3c859d869133a4d56603", "mistral-v3-tekken"},
    {"5b658f89dcb1716f11381d1c62000f60", "mistral-v7"},
    {"3210f443f276f16a02cdc546cb24cabe", "mistral-v7-tekken"},
    {"2cf1f51d3608fe0e92bba475d04d37f6", "muse"},
    {"5f00c2af4544f856f44bce180f7f274d", "nemotron-3"},
    {"86848719b76b995add23cf4bd0fdd75a", "nemotron-3"},
    {"a040e90b21a58800c87f8761e06a21d0", "nemotron-3"},
    {"b9d5e3d56b9bcec0450ca704f00e546f", "nemotron-3"},
    {"2ef1dbbe37b5241f2cf6c80e0c47b498", "olmo-2"},
    {"0850c77e9e7c37ed82fc89c04c54ba66", "phi-3"},
    {"ceaa31b1554ec3f5cd8aff863abd4554", "phi-3.5"},
    {"a50143285cdef922bc5711ad3f99d670", "phi-4"},
    {"f4ba63d66919b6d41c0680782a7c9316", "phi-4-mini"},
    {"e580c2da83415028d5d943bd0bd9082f", "qwen2"},
    {"e392aa06018503fd2469c9508f79506e", "qwen2.5"},
    {"e83000dd638f8c39d63c0ab8ac046a45", "qwen2.5-vl"},
    {"0fab82ce8f4d5175c9e0155c80737cf2", "qwen3"},
    {"cc9ddd5a40bc1c0c8fb5d937b1e8f5d0", "qwen3-2507"},
    {"02106194b02d7f3ba6c9c2c4e7ca9522", "qwen3-vl"},
    {"427b80bb3dda26b10ed0a1d8b9d7e0be", "qwen3.5"},
    {"572380022568fa7b579b2c2e5ecdae85", "qwen3.5"},
    {"b20ce3c106c0a721ea7113e61d9a8bcf", "qwen3.5"},
    {"cb9dfc65c3b50c42b488fed7dae5f0ed", "qwen3.5"},
    {"98f63cc3d421d28f99ab995e9629dacd", "smollm2"},
    {"b817851b777472b27b4a2d69f1d91b7c", "tulu-3"},
    {"5ae4edc1a6c08aa61db34e9fc60441d8", "zephyr"},
};

}  // namespace

const BuiltinTemplate* find_builtin(std::string_view name) {
  const auto all = builtin_templates();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const BuiltinTemplate& one) { return one.name == name; });
  return found == all.end() ? nullptr : &*found;
}

// Line ends and a last line feed do not count: checkouts and editors change them.
std::string template_fingerprint(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      text += source[i];
    } else if (i + 1 == source.size() || source[i + 1] != '\n') {
      text += '\n';
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return hash_hex(text);
}

std::string_view stock_family(std::string_view source) {
  const std::string print = template_fingerprint(source);
  const auto known = std::find_if(std::begin(kStock), std::end(kStock),
                                  [&](const Stock& stock) { return stock.fingerprint == print; });
  return known == std::end(kStock) ? std::string_view() : known->family;
}

}  // namespace xrun
