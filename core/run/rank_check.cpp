// Every rank gathers the objects of all and compares them with that of rank 0, so that all come to
// the same verdict without another call.

#include "core/run/rank_check.h"

#include <fmt/core.h>

#include <chrono>
#include <functional>
#include <random>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/folder.h"
#include "core/base/strings.h"
#include "core/dist/agreement.h"
#include "core/dist/ranks.h"

namespace xrun {

namespace {

using FindDifferences =
    std::function<std::vector<Difference>(const Json& first, const Json& other)>;

void compare(Ranks* ranks, std::string_view what, const Json& own, const FindDifferences& find) {
  if (ranks == nullptr) return;
  const std::vector<std::string> all = ranks->gather(what, dump_json(own));
  const Json first = parse_json(all.front(), "rank 0");
  std::string others;
  size_t first_other = 0;
  std::vector<Difference> found;
  for (size_t rank = 1; rank < all.size(); ++rank) {
    const auto differences = find(first, parse_json(all[rank], fmt::format("rank {}", rank)));
    if (differences.empty()) continue;
    if (found.empty()) {
      found = differences;
      first_other = rank;
    }
    add_item(others, std::to_string(rank));
  }
  if (found.empty()) return;
  throw UsageError(fmt::format(
      "the ranks of a run must have the same {}, but they differ on rank {}: {} is {} on rank 0 "
      "and {} on rank {}{}; start every rank with the same files and the same command",
      what, others, found.front().path, found.front().before, found.front().now, first_other,
      found.size() > 1 ? fmt::format(" ({} fields differ)", found.size()) : ""));
}

Json json_of(const RunIdentity& identity) {
  return Json(Json::Object{{"name", identity.recipe_name},
                           {"text", identity.recipe_text},
                           {"config", identity.config},
                           {"binary", identity.binary},
                           {"machine", identity.machine}});
}

RunIdentity identity_from(const Json& json) {
  RunIdentity identity;
  identity.recipe_name = json.at("name").as_string();
  identity.recipe_text = json.at("text").as_string();
  identity.config = json.at("config");
  identity.binary = json.at("binary");
  identity.machine = json.at("machine");
  return identity;
}

constexpr std::chrono::seconds kSeen{3};  // other machines see a new file after a moment
constexpr std::chrono::milliseconds kSeenPoll{50};
constexpr const char* kShareIt =
    "the folder of a run must be on a file system that all ranks share and may write to";

bool appears(const std::filesystem::path& file) {
  std::error_code ignored;
  for (std::chrono::milliseconds waited{0}; !std::filesystem::exists(file, ignored);
       waited += kSeenPoll) {
    if (waited >= kSeen) return false;
    std::this_thread::sleep_for(kSeenPoll);
  }
  return true;
}

void write_empty_file(const std::filesystem::path& file) {
  try {
    FileWriter(file).close();
  } catch (const Error& error) {
    throw Error(fmt::format("{}; {}", error.what(), kShareIt));
  }
}

}  // namespace

void compare_identities(Ranks* ranks, const RunIdentity& own) {
  compare(ranks, "recipe, settings and program", json_of(own),
          [](const Json& first, const Json& other) {
            const RunIdentity a = identity_from(first), b = identity_from(other);
            auto found = identity_differences(a, b);
            // The lengths and free settings, which a resume may change.
            for (auto& one : find_differences(a.config, b.config, "config")) {
              if (found.empty()) found.push_back(std::move(one));
            }
            for (auto& one : find_differences(a.machine, b.machine, "machine")) {
              found.push_back(std::move(one));
            }
            return found;
          });
}

void compare_plans(Ranks* ranks, std::string_view what, const Json& own) {
  compare(ranks, what, own, [](const Json& first, const Json& other) {
    return find_differences(first, other, "plan");
  });
}

void check_shared_folder(Ranks* ranks, const std::filesystem::path& dir) {
  if (ranks == nullptr) return;
  std::filesystem::path own;
  // Random: a folder of this path on another disk must not have it from an earlier run.
  const std::string token = from_first_rank(ranks, "a file in the run's folder", [&] {
    const std::string name = fmt::format("lock.tmp{}", std::random_device()());
    write_empty_file(own = dir / name);
    return name;
  });
  std::error_code ignored;
  try {
    agree(ranks, "the run's folder on all ranks", [&] {
      if (is_first_rank(ranks)) return;
      XRUN_CHECK(appears(dir / token),
                 "{}: this process does not see what rank 0 has written there; {}",
                 absolute_path(dir).string(), kShareIt);
      write_empty_file(own = dir / fmt::format("{}{:05}", token, ranks->rank()));
      std::filesystem::remove(own, ignored);
    });
  } catch (...) {
    std::filesystem::remove(own, ignored);
    throw;
  }
  std::filesystem::remove(own, ignored);
}

}  // namespace xrun
