#pragma once
// digests.json of a run that has ended: the SHA-256 of its files, by which `xrun verify` proves it
// unchanged.

#include <filesystem>
#include <string>
#include <vector>

namespace xrun {

constexpr const char* kRunDigests = "digests.json";

// Writes digests.json. It covers recipe, settings, record, ledger, metrics, exports, samples,
// rollouts and the checkpoints' manifests, which have the checksums of the checkpoints. Files that
// a later command may add to (log.txt, profile.json, tb/) are left out. Throws Error, Interrupted.
void write_run_digests(const std::filesystem::path& run);

// Returns a line for each file that is changed, missing or new since digests.json was written.
// Throws Error if digests.json is damaged, UsageError if there is none: the run has not ended, or
// an older xrun made it.
std::vector<std::string> changed_run_files(const std::filesystem::path& run);

}  // namespace xrun
