#include "runtime/policy/trusted_libraries.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "runtime/policy/catalog/policies.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"

namespace weft::policy {
namespace {

TEST(TrustedLibraries, ALibraryIsWhatEndsInSo) {
  EXPECT_EQ(library_of("./mine.so"), "./mine.so");
  EXPECT_EQ(library_of("mine.so:lookahead=3"), "mine.so");
  EXPECT_EQ(library_of("/a/b.so:file:x.so"), "/a/b.so");
  for (const char* other : {"program", "axonn:oar=off", "file:plan.json", "file:./mine.so", "lhs:rules=mine.so", ""}) {
    EXPECT_EQ(library_of(other), "") << other;
  }
}

TEST(TrustedLibraries, OnlyWhatWasNamedIsIn) {
  TrustedLibraries libraries;
  EXPECT_FALSE(libraries.contains(""));
  libraries.trust("./mine.so:x=1");
  libraries.trust("program");
  EXPECT_TRUE(libraries.contains("./mine.so"));
  for (const char* other : {"mine.so", "./other.so", "program", ""}) EXPECT_FALSE(libraries.contains(other)) << other;
}

TEST(TrustedLibraries, AnotherLibraryIsRefusedUnopened) {
  const testing::TemporaryFolder folder;
  const std::string library = folder.path("mine.so").string(), trace = library + ".loaded";
  std::filesystem::copy_file(std::string(WEFT_POLICY_LIBRARIES) + "/leaves_trace.so", library);
  TrustedLibraries libraries;
  libraries.trust(folder.path("other.so").string());
  EXPECT_THROW(make_policy(library), UserError);
  EXPECT_THROW(make_policy(library + ":x=1", libraries), UserError);
  EXPECT_FALSE(std::filesystem::exists(trace));
  const std::string message = testing::message_of<UserError>([&] { make_policy(library + ":x=1"); });
  EXPECT_TRUE(testing::has_parts(message, {library + " is code", "--policy " + library + ":x=1"}));
  libraries.trust(library);
  EXPECT_EQ(make_policy(library, libraries)->name(), library);
  EXPECT_TRUE(std::filesystem::exists(trace));
}

}  // namespace
}  // namespace weft::policy
