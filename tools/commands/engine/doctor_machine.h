#pragma once
// What `xrun doctor` finds out about the machine and what is installed on it. Nothing is changed.

#include <filesystem>
#include <string>
#include <vector>

#include "core/console/terminal/finding.h"

namespace xrun {

// Processor, memory and LibTorch with a product whose result is known.
std::vector<Finding> machine_findings();

// GPU with its driver, our plug-in for it, and NCCL. `needed`: the user means to train on one.
std::vector<Finding> gpu_findings(bool needed);

// What is beside the program: the sentencepiece plug-in, Python with pip for `xrun models get`, the
// model that the demonstration trains.
std::vector<Finding> program_findings();

// Whether files can be written in a folder, how fast, and what is free there. `what` is what lies
// there ("cache"), `way_out` how another folder is chosen. The file that is written has no name and
// goes with the process.
Finding disk_finding(const std::string& what, const std::filesystem::path& folder,
                     const std::string& way_out);

}  // namespace xrun
