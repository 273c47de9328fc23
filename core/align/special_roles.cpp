// A longest common subsequence over roles. length[i][j] is its length in the runs from i and j on.
// The walk from the front takes every match, which is always optimal, else the longer rest.

#include "core/align/special_roles.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

namespace xrun {

namespace {

// Roles are numbered as they appear, for the whole process.
struct RoleNames {
  std::mutex mutex;
  std::unordered_map<std::string, int32_t> numbers;
  std::vector<std::string> names;
};

RoleNames& role_names() {
  static RoleNames names;
  return names;
}

constexpr size_t kMostCells = size_t{4} << 20;  // of the table; runs have a few tokens

// The lengths of the longest common subsequences of all suffixes.
class SuffixLengths {
 public:
  SuffixLengths(const SpecialRun& s, const SpecialRun& t)
      : width_(t.roles.size() + 1), length_((s.roles.size() + 1) * width_, 0) {
    for (size_t i = s.roles.size(); i-- > 0;) {
      for (size_t j = t.roles.size(); j-- > 0;) {
        const SpecialRoles *a = s.roles[i], *b = t.roles[j];
        const bool match = a != nullptr && b != nullptr && share_role(*a, *b);
        length_[i * width_ + j] =
            match ? at(i + 1, j + 1) + 1 : std::max(at(i + 1, j), at(i, j + 1));
      }
    }
  }
  int32_t at(size_t i, size_t j) const { return length_[i * width_ + j]; }

 private:
  size_t width_;
  std::vector<int32_t> length_;
};

// Returns true if a tie drops the student's token, because its role has the later name. The numbers
// of roles do not serve, since they depend on which tokenizer was opened first.
bool drops_student(const SpecialRoles* a, const SpecialRoles* b) {
  return a == nullptr ||
         (b != nullptr && special_role_name(a->front()) > special_role_name(b->front()));
}

}  // namespace

int32_t special_role(std::string_view name) {
  RoleNames& known = role_names();
  const std::lock_guard lock(known.mutex);
  const auto [entry, is_new] = known.numbers.emplace(name, int32_t(known.names.size()));
  if (is_new) known.names.emplace_back(name);
  return entry->second;
}

std::string special_role_name(int32_t role) {
  RoleNames& known = role_names();
  const std::lock_guard lock(known.mutex);
  return known.names.at(size_t(role));
}

bool share_role(const SpecialRoles& a, const SpecialRoles& b) {
  return std::find_first_of(a.begin(), a.end(), b.begin(), b.end()) != a.end();
}

void pair_specials(const SpecialRun& s, const SpecialRun& t, Alignment& out) {
  const size_t ns = s.roles.size(), nt = t.roles.size();
  const auto s_orphan = [&](size_t i) {
    const auto at = int32_t(s.begin + int64_t(i));
    out.push_back({at, at + 1, -1, -1, false});
  };
  const auto t_orphan = [&](size_t j) {
    const auto at = int32_t(t.begin + int64_t(j));
    out.push_back({-1, -1, at, at + 1, false});
  };
  size_t i = 0, j = 0;
  size_t held = j;  // the teacher's orphans [held, j) wait until the student's are written
  const auto release = [&] {
    for (; held < j; ++held) t_orphan(held);
  };
  // Runs of this size do not occur in text; all of them become orphans.
  if ((ns + 1) * (nt + 1) <= kMostCells) {
    const SuffixLengths length(s, t);
    while (length.at(i, j) > 0) {
      const SpecialRoles *a = s.roles[i], *b = t.roles[j];
      const int32_t drop_s = length.at(i + 1, j), drop_t = length.at(i, j + 1);
      if (a != nullptr && b != nullptr && share_role(*a, *b)) {
        release();
        const auto is = int32_t(s.begin + int64_t(i)), it = int32_t(t.begin + int64_t(j));
        out.push_back({is, is + 1, it, it + 1, true});
        ++i, ++j, held = j;
      } else if (drop_s > drop_t || (drop_s == drop_t && drops_student(a, b))) {
        s_orphan(i++);
      } else {
        ++j;
      }
    }
  }
  for (; i < ns; ++i) s_orphan(i);
  j = nt;
  release();
}

}  // namespace xrun
