#include "base/files/text_file.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"

namespace weft {
namespace {

std::string read(const std::filesystem::path& path) {
  return read_text_file(path, "the list", 100'000, "a list", "mend it");
}

TEST(TextFile, IsReadWhole) {
  const testing::TemporaryFolder folder;
  const std::string text(100'000, 'x');
  EXPECT_EQ(read(folder.write("full", text)), text);
  EXPECT_EQ(read(folder.write("empty", "")), "");
}

TEST(TextFile, RefusesWhatCannotBeReadOrIsTooLarge) {
  const testing::TemporaryFolder folder;
  const auto refusal = [](const std::filesystem::path& path) {
    return testing::message_of<UserError>([&] { read(path); });
  };
  EXPECT_TRUE(has_parts(refusal(folder.path("none")), {"the list ", "none can't be read; expected a list", "mend it"}));
  EXPECT_TRUE(has_parts(refusal(folder.path()), {"can't be read"}));
  EXPECT_TRUE(has_parts(refusal(folder.write("large", std::string(100'001, 'x'))), {"larger than 100000 bytes"}));
  EXPECT_TRUE(has_parts(refusal("/dev/zero"), {"larger than 100000 bytes"}));
}

TEST(TextFile, PlainNamesStayInTheirFolder) {
  for (const char* name : {"a", "a.b", "..a", "..."}) EXPECT_TRUE(is_plain_file_name(name)) << name;
  for (const std::string_view name : {std::string_view(""), std::string_view("."), std::string_view(".."),
                                      std::string_view("a/b"), std::string_view("/a"), std::string_view("a\0b", 3)}) {
    EXPECT_FALSE(is_plain_file_name(name)) << name;
  }
}

}  // namespace
}  // namespace weft
