// Bundles as others might make them: each is refused with one clear message.

#include "core/bundle/bundle_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/file_fault.h"
#include "core/base/sha256.h"
#include "core/base/zip_archive.h"
#include "tests/scratch_folder.h"
#include "tools/fuzz/archive_of.h"

namespace xrun::bundle_file_test {
namespace {

BundleLock small_lock() {
  BundleLock lock;
  lock.recipe = "recipe/a.lua";
  lock.sets = {"beta=0.2"};
  lock.config = Json(Json::Object{{"beta", 0.2}});
  lock.origins = Json(Json::Object{{"beta", "--set"}});
  lock.seeds = Json(Json::Object{{"seed", 0}});
  lock.binary = Json(Json::Object{{"torch", "2.11.0"}});
  lock.operators = Json::object();
  const std::string rows = "{}\n";
  lock.inputs.push_back({InputKind::kData,
                         "pairs/rows.jsonl",
                         {{.name = "rows.jsonl",
                           .bytes = rows.size(),
                           .sha256 = sha256_hex(rows),
                           .member = "data/1/rows.jsonl"}}});
  return lock;
}

std::vector<BundleMember> small_members() {
  return {{.name = "recipe/a.lua", .file = {}, .text = "return 1"},
          {.name = "data/1/rows.jsonl", .file = {}, .text = "{}\n"}};
}

std::string small_bundle() { return bundle_bytes(small_lock(), small_members()); }

using Members = std::vector<std::pair<std::string, std::string>>;

Members members_of(const std::string& bytes) {
  Members out;
  for (const ZipMember& member : read_stored_zip(bytes, {.where = "a.xrb"})) {
    out.emplace_back(member.name, member.data);
  }
  return out;
}

std::string error_with(const std::string& bytes) {
  return error_of([&] { Bundle::of_bytes(bytes, "a.xrb").verify(); });
}

// The error of the small bundle with some bytes of its lock replaced.
std::string lock_error(const std::string& from, const std::string& to) {
  Members members = members_of(small_bundle());
  std::string& lock = members[0].second;
  const size_t at = lock.find(from);
  if (at == std::string::npos) return "the lock has no " + from;
  lock.replace(at, from.size(), to);
  return error_with(archive_of(members));
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST(BundleFile, ReturnsTheMembersThatItWasMadeOf) {
  const std::string bytes = small_bundle();
  const Bundle bundle = Bundle::of_bytes(bytes, "a.xrb");
  EXPECT_NO_THROW(bundle.verify());
  EXPECT_EQ(bundle.text("recipe/a.lua"), "return 1");
  EXPECT_EQ(bundle.lock().sets, std::vector<std::string>{"beta=0.2"});
  EXPECT_EQ(bundle.lock().inputs, small_lock().inputs);
  EXPECT_EQ(lock_text(bundle.lock()), members_of(bytes)[0].second);
}

TEST(BundleFile, EqualMembersInAnyOrderGiveEqualBytes) {
  std::vector<BundleMember> members = small_members();
  std::swap(members[0], members[1]);
  EXPECT_EQ(bundle_bytes(small_lock(), members), small_bundle());
}

TEST(BundleFile, EveryCutAndEveryFlippedByteIsRefused) {
  const std::string bytes = small_bundle();
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_NE(error_with(bytes.substr(0, size)), "") << size;
  }
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x20);
    EXPECT_TRUE(error_with(flipped).starts_with("a.xrb: ")) << at << error_with(flipped);
  }
}

TEST(BundleFile, NamesThatLeaveTheBundleAreRefused) {
  for (const std::string name : {"../a", "/etc/passwd", "recipe/../../a", "recipe//a", "recipe/./a",
                                 "recipe\\a", "recipe/a\n", "recipe/\xff", ""}) {
    Members members = members_of(small_bundle());
    members.back().first = name;
    std::sort(members.begin() + 1, members.end());
    EXPECT_TRUE(contains(error_with(archive_of(members)), "the name of its member")) << name;
  }
}

TEST(BundleFile, DuplicateSwappedAndForeignMembersAreRefused) {
  Members twice = members_of(small_bundle());
  twice.push_back(twice.back());
  EXPECT_EQ(error_with(archive_of(twice)), "a.xrb: its member recipe/a.lua occurs twice");
  Members swapped = members_of(small_bundle());
  std::swap(swapped[1].second, swapped[2].second);
  EXPECT_EQ(error_with(archive_of(swapped)),
            "a.xrb: its member data/1/rows.jsonl has 8 bytes, the lock says 3");
  Members more = members_of(small_bundle());
  more.emplace_back("recipe/b.lua", "os.exit()");
  EXPECT_EQ(error_with(archive_of(more)), "a.xrb: its member recipe/b.lua is not in the lock");
  Members fewer = members_of(small_bundle());
  fewer.pop_back();
  EXPECT_EQ(error_with(archive_of(fewer)),
            "a.xrb: its member recipe/a.lua is missing: the lock names it");
  Members folder = members_of(small_bundle());
  folder.insert(folder.end() - 1, {"recipe", "x"});
  EXPECT_EQ(error_with(archive_of(folder)), "a.xrb: its member recipe is a file and a folder");
}

TEST(BundleFile, AChangedMemberIsNamedWithBothDigests) {
  Members members = members_of(small_bundle());
  members.back().second = "return 2";
  const std::string text = error_with(archive_of(members));
  EXPECT_TRUE(contains(text, "a.xrb: its member recipe/a.lua has the SHA-256 ")) << text;
  EXPECT_TRUE(contains(text, "the bundle is damaged or was changed")) << text;
}

TEST(BundleFile, OtherArchivesAreRefused) {
  EXPECT_EQ(error_with("hello"),
            "a.xrb: is not a zip archive, so it is not a bundle or it was cut off; fetch it again");
  EXPECT_EQ(error_with(archive_of({{"a", "b"}})),
            "a.xrb: is a ZIP archive but not a bundle: its first member is not bundle.json");
  std::string commented = small_bundle() + "x";
  commented[commented.size() - 3] = 1;
  EXPECT_TRUE(contains(error_with(commented), "is not laid out as xrun bundle writes it"));
}

TEST(BundleFile, WrongLocksAreRefusedWithTheField) {
  EXPECT_EQ(
      lock_error("\"format\":1", "\"format\":9"),
      "a.xrb: is a bundle of format 9, this xrun reads formats up to 1; a newer xrun runs it");
  EXPECT_TRUE(
      contains(lock_error("\"seeds\"", "\"sedes\""), "sedes is a field that this xrun does"));
  EXPECT_TRUE(contains(lock_error("\"torch\":", "\"made\":"), "binary.made is a field that"));
  EXPECT_TRUE(contains(lock_error("\"data/1/rows.jsonl\"", "\".git/rows.jsonl\""),
                       "members has .git/rows.jsonl, wanted names in recipe/, data/"));
  EXPECT_TRUE(contains(lock_error("\"recipe/a.lua\"", "\"recipe/b.lua\""),
                       "recipe is not a member of the bundle"));
  EXPECT_TRUE(contains(lock_error("\"kind\":\"data\"", "\"kind\":\"code\""),
                       "inputs.1.kind is not a known kind of input"));
  EXPECT_TRUE(
      contains(lock_error("\"bytes\":3", "\"bytes\":4"), "is not the member that it names"));
  EXPECT_TRUE(
      contains(lock_error("\"beta=0.2\"", "7"), "sets has an element that is not a string"));
  EXPECT_TRUE(contains(lock_error("\"rows.jsonl\"", "\"../rows.jsonl\""), "inputs.1.files.1.name"));
  EXPECT_TRUE(contains(lock_error("{", "["), "bundle.json:"));
}

TEST(BundleFile, ExtractsOnceAndRepairsAChangedFolder) {
  const ScratchFolder folder;
  const std::string bytes = small_bundle();
  const Bundle bundle = Bundle::open(folder.write("a.xrb", bytes));
  const std::filesystem::path out = bundle.extract(folder / "bundles");
  EXPECT_EQ(text_of(out / "recipe/a.lua"), "return 1");
  EXPECT_EQ(bundle.extract(folder / "bundles"), out);
  put_text(out / "recipe/a.lua", "return 3");
  EXPECT_EQ(bundle.extract(folder / "bundles"), out);
  EXPECT_EQ(text_of(out / "recipe/a.lua"), "return 1");
}

TEST(BundleFile, AChangedFolderThatCannotBeRemovedIsAnError) {
  namespace fs = std::filesystem;
  const ScratchFolder folder;
  const Bundle bundle = Bundle::open(folder.write("a.xrb", small_bundle()));
  const fs::path out = bundle.extract(folder / "bundles");
  put_text(out / "recipe/a.lua", "return 3");
  fs::permissions(folder.path(), fs::perms::all);
  fs::permissions(folder / "bundles", fs::perms::all);
  fs::permissions(out, fs::perms::owner_write, fs::perm_options::remove);
  const bool root = ::geteuid() == 0;  // whom nothing is denied
  if (root && ::seteuid(65534) != 0) GTEST_SKIP();
  const std::string text = error_of([&] { bundle.extract(folder / "bundles"); });
  if (root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  fs::permissions(out, fs::perms::owner_all);
  EXPECT_TRUE(contains(text, out.string() + ": cannot be made: ")) << text;
}

TEST(BundleFile, AFullDiskLeavesNoBundle) {
  const ScratchFolder folder;
  for (int64_t nth = 1; nth < 100; ++nth) {
    set_file_fault("write", nth);
    const std::string error =
        error_of([&] { write_bundle(small_lock(), small_members(), folder / "a.xrb"); });
    set_file_fault("", 0);
    if (error.empty()) break;
    EXPECT_TRUE(error.starts_with((folder / "a.xrb").string() + ": cannot be written")) << error;
    EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << nth;
  }
  EXPECT_EQ(text_of(folder / "a.xrb"), small_bundle());
}

}  // namespace xrun::bundle_file_test
