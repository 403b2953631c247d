// Profiles as files: read back as they were written, and refused when anything about them is wrong.
#include "runtime/cost/profile_file.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"

namespace weft::cost {
namespace {

using nlohmann::json;

Profile profile() {
  Profile profile;
  profile.machine = "a \"loom\" of λ";
  profile.grid = {2, 1, 4, 3};
  profile.threads = 5;
  profile.entries = {{"add count=8 f32", 12.5, 0.1, 40},
                     {"all_reduce channel=data ranks=2 count=8 f32", 1e9, 2000, 7, 500.5, 3e9}};
  profile.slowdowns = {{"add", "all_reduce", 1.25}, {"add", "all_gather", 1}};
  return profile;
}

std::string profile_refusal(const std::string& text) {
  return testing::message_of<UserError>([&] { parse_profile(text, "p.json"); });
}

template <class Change>
std::string changed(Change change) {
  json document = json::parse(profile_json(profile()));
  change(document);
  return document.dump();
}

bool says(const std::string& message, const std::string& part) {
  return message.find(part) != std::string::npos;
}

TEST(ProfileFile, OfAPipelineIsReadBack) {
  Profile written = profile();
  EXPECT_FALSE(json::parse(profile_json(written)).contains("pipe"));
  written.grid.pipe = 2;
  written.core_pools = {{{0, 2, 47}, 1}, {{1, 3}, 8}};
  const Profile read = parse_profile(profile_json(written), "p.json");
  EXPECT_EQ(read.grid, written.grid);
  EXPECT_EQ(read.core_pools, written.core_pools);
  const auto refused = [&](const json& pools) {
    json document = json::parse(profile_json(written));
    document["core_pools"] = pools;
    return profile_refusal(document.dump());
  };
  EXPECT_TRUE(says(refused({{{"ranks", {0, 48}}, {"cores", 1}}}), "48"));
  EXPECT_TRUE(says(refused({{{"ranks", {0, 1}}, {"cores", 0}}}), "cores is 0"));
  EXPECT_TRUE(says(refused({{{"ranks", {0, 1}}, {"cores", 1}}, {{"ranks", {1, 2}}, {"cores", 1}}}), "repeats 1"));
}

TEST(ProfileFile, IsReadBack) {
  const Profile written = profile();
  const Profile read = parse_profile(profile_json(written), "p.json");
  EXPECT_EQ(read.machine, written.machine);
  EXPECT_EQ(read.grid, written.grid);
  EXPECT_EQ(read.threads, 5);
  ASSERT_EQ(read.entries.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(read.entries[i].signature, written.entries[i].signature);
    EXPECT_EQ(read.entries[i].ns, written.entries[i].ns);
    EXPECT_EQ(read.entries[i].deviation_ns, written.entries[i].deviation_ns);
    EXPECT_EQ(read.entries[i].samples, written.entries[i].samples);
    EXPECT_EQ(read.entries[i].cpu_ns, written.entries[i].cpu_ns);
    EXPECT_EQ(read.entries[i].beside_ns, written.entries[i].beside_ns);
  }
  ASSERT_EQ(read.slowdowns.size(), 2U);
  EXPECT_EQ(read.slowdowns[0].compute, "add");
  EXPECT_EQ(read.slowdowns[0].collective, "all_reduce");
  EXPECT_EQ(read.slowdowns[0].factor, 1.25);
  EXPECT_EQ(profile_json(read), profile_json(written));
  EXPECT_TRUE(parse_profile(profile_json(Profile()), "p.json").entries.empty());
  EXPECT_EQ(profile_refusal(changed([](json&) {})), "");  // accepted without the other tests' changes
}

TEST(ProfileFile, TimesAreRoundedToATenthOfANanosecond) {
  Profile exact = profile();
  exact.entries[0].ns = 1.0 / 3;
  EXPECT_EQ(parse_profile(profile_json(exact), "p.json").entries[0].ns, 0.3);
}

TEST(ProfileFile, OtherFilesAreRefused) {
  for (const std::string text : {"", "{", "weft", "\xff\xfe"}) EXPECT_NE(profile_refusal(text), "") << text;
  for (const std::string text : {"[]", "1", "{}", R"({"format": "weft-plan"})"}) {
    EXPECT_TRUE(says(profile_refusal(text), "p.json isn't a profile")) << profile_refusal(text);
    EXPECT_TRUE(says(profile_refusal(text), "`weft profile` makes one")) << profile_refusal(text);
  }
  EXPECT_TRUE(says(profile_refusal(changed([](json& d) { d["version"] = 1; })), "p.json has version 1"));
  EXPECT_TRUE(says(profile_refusal(changed([](json& d) { d.erase("version"); })), "p.json has no version"));
}

TEST(ProfileFile, EveryPartMustBeThere) {
  for (const char* key : {"machine", "grid", "threads", "entries", "slowdowns"}) {
    const std::string message = profile_refusal(changed([&](json& d) { d.erase(key); }));
    EXPECT_TRUE(says(message, std::string("p.json has no ") + key + ";")) << message;
  }
  for (const char* key : {"signature", "ns", "deviation_ns", "samples", "cpu_ns", "beside_ns"}) {
    const std::string message = profile_refusal(changed([&](json& d) { d["entries"][1].erase(key); }));
    EXPECT_TRUE(says(message, std::string("entries[1] has no ") + key + ";")) << message;
  }
}

TEST(ProfileFile, EveryPartMustBeBelievable) {
  struct Case {
    json::json_pointer key;
    json value;
    std::string part;
  };
  const std::vector<Case> cases = {{"/machine"_json_pointer, 3, "a text"},
                                   {"/grid"_json_pointer, json::array({1, 2, 3}), "the sizes of x, y, z and data"},
                                   {"/grid"_json_pointer, 4, "the sizes of x, y, z and data"},
                                   {"/grid/2"_json_pointer, 0, "an integer from 1"},
                                   {"/grid/3"_json_pointer, 1.5, "an integer from 1"},
                                   {"/threads"_json_pointer, 0, "an integer from 1"},
                                   {"/threads"_json_pointer, 1e300, "an integer from 1"},
                                   {"/threads"_json_pointer, UINT64_MAX, "an integer from 1"},
                                   {"/entries"_json_pointer, json::object(), "a list"},
                                   {"/entries/0"_json_pointer, 7, "an object"},
                                   {"/entries/0/signature"_json_pointer, nullptr, "a text"},
                                   {"/entries/0/ns"_json_pointer, -1, "a time from 0"},
                                   {"/entries/0/ns"_json_pointer, "12", "a time from 0"},
                                   {"/entries/0/deviation_ns"_json_pointer, 1e16, "a time from 0"},
                                   {"/entries/1/cpu_ns"_json_pointer, true, "a time from 0"},
                                   {"/entries/1/beside_ns"_json_pointer, -0.1, "a time from 0"},
                                   {"/entries/1/samples"_json_pointer, -1, "an integer from 0"},
                                   {"/entries/1/samples"_json_pointer, 2.5, "an integer from 0"},
                                   {"/entries/1/signature"_json_pointer, "add count=8 f32", "each signature once"},
                                   {"/slowdowns"_json_pointer, 1, "a list"},
                                   {"/slowdowns/0"_json_pointer, "adamw", "an object"},
                                   {"/slowdowns/0/compute"_json_pointer, 1, "a text"},
                                   {"/slowdowns/1/collective"_json_pointer, nullptr, "a text"},
                                   {"/slowdowns/0/factor"_json_pointer, 0.9, "a factor from 1"},
                                   {"/slowdowns/0/factor"_json_pointer, 101, "a factor from 1"},
                                   {"/slowdowns/0/factor"_json_pointer, "2", "a factor from 1"},
                                   {"/slowdowns/1/collective"_json_pointer, "all_reduce", "each pair once"}};
  for (const auto& [key, value, part] : cases) {
    const std::string message = profile_refusal(changed([&, &key = key, &value = value](json& d) { d[key] = value; }));
    EXPECT_TRUE(says(message, part)) << key << ": " << message;
    EXPECT_TRUE(says(message, "p.json")) << message;
  }
}

// Ranks of a grid are counted in 64 bits.
TEST(ProfileFile, AGridTooLargeToCountIsRefused) {
  const std::string message = profile_refusal(changed([](json& d) {
    d["grid"] = {std::int64_t{1} << 40, std::int64_t{1} << 40, 1, 1};
  }));
  EXPECT_TRUE(says(message, "grid")) << message;
}

TEST(ProfileFile, FilesThatCannotBeReadAreRefusedByName) {
  const testing::TemporaryFolder folder;
  const std::string missing = folder.path("missing.json").string();
  EXPECT_TRUE(says(testing::message_of<UserError>([&] { load_profile(missing); }), missing));
  folder.write("p.json", profile_json(profile()));
  EXPECT_EQ(load_profile(folder.path("p.json").string()).entries.size(), 2U);
  folder.write("empty.json", "");
  EXPECT_TRUE(
      says(testing::message_of<UserError>([&] { load_profile(folder.path("empty.json").string()); }), "empty.json"));
}

TEST(ProfileFile, TheMachineHasAName) {
  EXPECT_NE(cpu_name(), "");
  EXPECT_EQ(cpu_name().find('\n'), std::string::npos);
}

}  // namespace
}  // namespace weft::cost
