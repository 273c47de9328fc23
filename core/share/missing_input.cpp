// The message lists the locations in the order of the search. Files that were found but may not be
// read become the paths for --read.

#include "core/share/missing_input.h"

#include "core/base/error.h"
#include "core/base/strings.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;

constexpr size_t kMostNamed = 8;  // files of one input in a command

// The paths that --read must name for an input. A stranger's lock chooses the names, so only single
// files are granted, links resolved; a folder is granted only if it holds a model's weights.
std::vector<std::string> paths_to_read(const LockedInput& input,
                                       const std::vector<fs::path>& files) {
  std::vector<std::string> paths;
  std::error_code none;
  for (const fs::path& file : files) {
    const fs::path path = fs::weakly_canonical(file, none);
    if (input.kind == InputKind::kModel && path.extension() == ".safetensors") {
      return {path.parent_path().string()};
    }
    paths.push_back(path.string());
  }
  return paths;
}

}  // namespace

const char* match_text(InputMatch match) {
  switch (match) {
    case InputMatch::kAbsent: return "no such file";
    case InputMatch::kOther: return "has other bytes";
    case InputMatch::kRefused: return "is there, but a recipe that is not trusted may not read it";
    case InputMatch::kLocked: return "found";
  }
  return "";
}

std::vector<const LockedFile*> wanted_files(const LockedInput& input) {
  std::vector<const LockedFile*> wanted;
  for (const LockedFile& file : input.files) {
    if (file.member.empty()) wanted.push_back(&file);
  }
  return wanted;
}

void MissingInput::add(const std::string& location, const NearFiles& near) {
  const size_t others = near.others.size(), all = wanted_files(input_).size();
  // Naming the odd files helps only where some of the others were found.
  if (others == 0 || others == all || near.match == InputMatch::kRefused) {
    return add(location, near.match, near.files);
  }
  if (lacking_.empty()) lacking_ = near.others.front();
  add_line(location,
           fmt::format("{}: {}; it has the other {} of {} files", listed(near.others, kMostNamed),
                       match_text(near.match), all - others, all));
}

void MissingInput::add(const std::string& location, InputMatch match,
                       const std::vector<fs::path>& files) {
  if (match == InputMatch::kAbsent) return add_line(location, match_text(match));
  const std::vector<std::string> paths = paths_to_read(input_, files);
  add_line(listed(paths, kMostNamed), match_text(match));
  if (match == InputMatch::kRefused && allow_.empty() && paths.size() <= kMostNamed) allow_ = paths;
}

void MissingInput::add_line(const std::string& location, const std::string& what) {
  looked_ += fmt::format("\n  {}: {}", location, what);
}

void MissingInput::write(FoundInput& out) const {
  const std::vector<const LockedFile*> wanted = wanted_files(input_);
  const LockedFile& file = *wanted.front();
  const std::string digest = input_.kind == InputKind::kModel ? ""
                             : wanted.size() > 1 ? fmt::format(", {} files", wanted.size())
                                                 : ", SHA-256 " + file.sha256;
  out.missing = fmt::format("{} \"{}\" ({}{}) is not in the bundle and was not found:{}",
                            input_kind_name(input_.kind), input_.name,
                            format_bytes(static_cast<double>(input_.bytes())), digest, looked_);
  out.allow = allow_;
  out.file = lacking_.empty() ? file.name : lacking_;
}

}  // namespace xrun
