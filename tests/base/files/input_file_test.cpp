// Reading at offsets: contents, refusals, and files that change under the reader.
#include "base/files/input_file.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "base/error.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"

namespace weft {
namespace {

std::string read(const InputFile& file, std::uint64_t offset, std::size_t count) {
  std::string text(count, '?');
  file.read(offset, std::as_writable_bytes(std::span(text.data(), text.size())));
  return text;
}

TEST(InputFile, ReadsAtAnyOffset) {
  const testing::TemporaryFolder folder;
  const InputFile file(folder.write("a", "warp and weft"));
  EXPECT_EQ(file.size(), 13U);
  EXPECT_EQ(read(file, 9, 4), "weft");
  EXPECT_EQ(read(file, 13, 0), "");
}

TEST(InputFile, AFileThatWasRemovedStaysReadable) {
  const testing::TemporaryFolder folder;
  const InputFile file(folder.write("a", "warp"));
  std::filesystem::remove(folder.path("a"));
  EXPECT_EQ(read(file, 0, 4), "warp");
}

TEST(InputFile, AFileThatWasTruncatedIsAFaultThatNamesIt) {
  const testing::TemporaryFolder folder;
  const InputFile file(folder.write("a", "warp and weft"));
  std::filesystem::resize_file(folder.path("a"), 6);
  EXPECT_EQ(read(file, 0, 6), "warp a");
  EXPECT_TRUE(refuses<RuntimeFault>([&] { read(file, 3, 4); }, {folder.path("a").string(), "6 bytes", "13"}));
}

TEST(InputFile, RefusesWhatIsNoFile) {
  const testing::TemporaryFolder folder;
  const auto open = [](const std::filesystem::path& path) {
    return testing::message_of<UserError>([&] { InputFile file(path); });
  };
  EXPECT_TRUE(has_parts(open(folder.path("none")), {"none' doesn't exist"}));
  EXPECT_TRUE(has_parts(open(folder.path()), {"is a folder"}));
  EXPECT_TRUE(has_parts(open("/dev/null"), {"'/dev/null' isn't a regular file"}));
}

TEST(ReadInPieces, ShowsEveryByteOnceUntilToldToStop) {
  const testing::TemporaryFolder folder;
  std::string content;
  for (std::size_t i = 0; i < (5U << 19); ++i) content += static_cast<char>(i * i % 251);
  const InputFile file(folder.write("a", content));
  std::string seen;
  std::size_t pieces = 0;
  read_in_pieces(file, 3, file.size() - 4, [&](std::span<const std::byte> bytes) {
    seen.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    ++pieces;
    return true;
  });
  EXPECT_EQ(seen, content.substr(3, content.size() - 7));
  EXPECT_EQ(pieces, 3U);
  read_in_pieces(file, 0, file.size(), [&](std::span<const std::byte>) { return ++pieces < 5; });
  EXPECT_EQ(pieces, 5U);
}

TEST(WholeFile, IsReadUpToItsMostBytes) {
  const testing::TemporaryFolder folder;
  EXPECT_EQ(whole_file(folder.write("a", "words"), 5), "words");
  EXPECT_EQ(whole_file(folder.write("empty", "")), "");
  const auto refusal = [](const std::filesystem::path& path) {
    return testing::message_of<UserError>([&] { (void)whole_file(path, 4); });
  };
  EXPECT_TRUE(testing::has_parts(refusal(folder.path("a")), {"larger than 4 bytes"}));
  EXPECT_TRUE(testing::has_parts(refusal(folder.path("none")), {"doesn't exist"}));
  EXPECT_TRUE(testing::has_parts(refusal(folder.path()), {"is a folder"}));
  EXPECT_TRUE(testing::has_parts(refusal("/dev/zero"), {"isn't a regular file"}));
}

std::string read_list(const std::filesystem::path& path) {
  return read_text_file(path, "the list", 100'000, "a list", "mend it");
}

TEST(TextFile, IsReadWhole) {
  const testing::TemporaryFolder folder;
  const std::string text(100'000, 'x');
  EXPECT_EQ(read_list(folder.write("full", text)), text);
  EXPECT_EQ(read_list(folder.write("empty", "")), "");
}

TEST(TextFile, RefusesWhatCannotBeReadOrIsTooLarge) {
  const testing::TemporaryFolder folder;
  const auto refusal = [](const std::filesystem::path& path) {
    return testing::message_of<UserError>([&] { read_list(path); });
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
