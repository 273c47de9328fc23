// Each text stands here after its marked counterpart rendered every conversation of
// tests/golden/make/template_conversations.py as it does; template_goldens.py prints the lines.

#include "core/text/stock_templates.h"

#include <algorithm>
#include <iterator>

#include "core/base/hash.h"

namespace xrun {

namespace {

struct Stock {
  std::string_view fingerprint;
  std::string_view family;
};

constexpr Stock kStock[] = {
    {"7a128e0473e4be90846f9032c2079ea2", "chatml"},
    {"ac1ba7ff30a85241598a95e3aad3f23f", "chatml"},
    {"e79efd59933163c680a249ebcbf915a8", "chatml"},
    {"2794d2e0f090a47f1a9a0dce0b370322", "command-r"},
    {"2ac29c8c7c0a0fdf005650410adf39c5", "command-r"},
    {"370410da5169d974515fed8e1ca5abea", "command-r"},
    {"f4ed663f0f39afce5a17e5b14654e706", "command-r"},
    {"a67dc0ef5788fc2d50a31ef17c7e3441", "command-r7b"},
    {"b59c4fde1d06da0055b25ceb4910aa64", "deepseek-r1-distill"},
    {"fc60798d3b3a231256a138c31521e7c8", "deepseek-v3"},
    {"87daba121b200749e69938d4bb4363f7", "gemma"},
    {"e537acc4af603ac842d704cf86311be7", "gemma-3"},
    {"563b00ed10147a1ee4896b7cffb8af5e", "glm-4"},
    {"65ee78f3e5dff227d17e1c59523b2f05", "glm-4-moe"},
    {"7ae091f536e79eccd6f706d59cc00ab6", "gpt-oss"},
    {"4ce2abc1e4a0c8b5daa5e74a37ae0bcc", "granite-3"},
    {"85f74a59822840d56fbc6d73d8615a67", "granite-3"},
    {"a6dc9fd516d3d42dfb345fabc5d4d13e", "granite-3"},
    {"da550c1cf4522a60fd507f66a4dd6cc5", "granite-3"},
    {"355e77debc5ac41cdf84b19c5c6ade88", "lfm2"},
    {"196d0684d8fed88bc341152fe35cb371", "lfm2.5"},
    {"5cc730147bc3d550018fc13eb46e7703", "llama-2"},
    {"9742b62dde79126564ffe80b2cb8b63b", "llama-3"},
    {"d8195f5c3269144a67cf150b21611898", "llama-3.1"},
    {"0022ce603296a2e339706e25f86f6d8c", "llama-3.2"},
    {"f395fc5daa794129a5d004210ebce758", "mistral-v0"},
    {"70bf874ad98f31f4b7f52373b11c60d7", "mistral-v0-spaced"},
    {"6995ae09844903a4c0e362e1e182cb4a", "mistral-v1"},
    {"18a19f9f09c60c27968e0a4b721d56bf", "mistral-v3"},
    {"3f8ea703fe92f318143d65fd6759f950", "mistral-v3-tekken"},
    {"5b658f89dcb1716f11381d1c62000f60", "mistral-v7"},
    {"3210f443f276f16a02cdc546cb24cabe", "mistral-v7-tekken"},
    {"891473a6fe6539e2cddded9962a91580", "nemotron-3"},
    {"bf60f3954eeb1a2416c9f60bca92dada", "nemotron-3"},
    {"df5fd7c8d8fb0af437f9a6b6f9366a69", "nemotron-3"},
    {"e1fddc9aaeeecf7acfa667cb13e0ad73", "nemotron-3"},
    {"945743d8e1930166b8e7a8e758dc68a1", "olmo-2"},
    {"1929047c212556a04c21b7032af75488", "phi-3"},
    {"b19368d02e2e55ba6e4dd1d1503d042f", "phi-3.5"},
    {"a50143285cdef922bc5711ad3f99d670", "phi-4"},
    {"f4ba63d66919b6d41c0680782a7c9316", "phi-4-mini"},
    {"ffc0f0e586eab38f88f6e00386459715", "qwen2"},
    {"ffcbdd97212192ce6ccc27d79cf50115", "qwen2.5"},
    {"0b1d9fb5accc95c6365cf5ae0cde932c", "qwen3"},
    {"c937ed750c03adc30dc41f35d72d8caf", "qwen3-2507"},
    {"c3cd52870c77824ad748dc171e5ead1b", "qwen3-vl"},
    {"6d72d6de3820bf2cdad8c09bf9a11211", "qwen3.5"},
    {"9380eefc9624603e79f0700f0e59fc40", "qwen3.5"},
    {"ba731b77665fb35680ecf938d352002a", "qwen3.5"},
    {"d2ac51869566ea19a648e41e5ddfb04b", "qwen3.5"},
    {"d6d9c64af90b83f04eb16961cf1a8f56", "smollm2"},
    {"2a790ab373f2a1c55f0ad8992fd6ec20", "tulu-3"},
    {"03d06d443d25521ea66626a06cdaafd9", "zephyr"},
};

}  // namespace

std::string template_fingerprint(std::string_view source) {
  std::string text;
  for (char c : source) {
    const bool blank = c == ' ' || (c >= '\t' && c <= '\r');
    if (!blank)
      text += c;
    else if (!text.empty() && text.back() != ' ')
      text += ' ';
  }
  if (text.ends_with(' ')) text.pop_back();
  return hash_hex(text);
}

std::string_view stock_family(std::string_view source) {
  const std::string print = template_fingerprint(source);
  const auto known = std::find_if(std::begin(kStock), std::end(kStock),
                                  [&](const Stock& stock) { return stock.fingerprint == print; });
  return known == std::end(kStock) ? std::string_view() : known->family;
}

}  // namespace xrun
