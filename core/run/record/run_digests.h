#pragma once
// digests.json of a run that has ended: the SHA-256 of its files, by which `xrun verify` proves it
// unchanged.

#include <filesystem>
#include <string>
#include <vector>

namespace xrun {

constexpr const char* kRunDigests = "digests.json";

// Writes the file: recipe, settings, record, ledger, metrics, exports, samples, rollouts and the
// manifests of the checkpoints, which have the checksums of theirs. Not in it: what a later command
// may add to (log.txt, profile.json, tb/). Throws Error, Interrupted.
void write_run_digests(const std::filesystem::path& run);

// Returns what is different from digests.json, one line per file: changed, missing or new. Throws
// Error if the file is damaged, UsageError if there is none: the run has not ended, or an older
// xrun made it.
std::vector<std::string> changed_run_files(const std::filesystem::path& run);

}  // namespace xrun
