// Mapping: contents and moves.
#include "base/files/mapped_file.h"

#include <gtest/gtest.h>

#include <utility>

#include "tests/base/temporary_folder.h"

namespace weft {
namespace {

std::string text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST(MappedFile, ShowsTheBytesOfTheFileAndKeepsTheirPlaceWhenMoved) {
  const testing::TemporaryFolder folder;
  MappedFile file(folder.write("a", "words"));
  EXPECT_EQ(text_of(file), "words");
  const std::byte* place = file.bytes().data();
  MappedFile moved = std::move(file);
  EXPECT_EQ(moved.bytes().data(), place);
  MappedFile assigned(folder.write("b", "others"));
  assigned = std::move(moved);
  EXPECT_EQ(text_of(assigned), "words");
}

TEST(MappedFile, AnEmptyFileHasNoBytes) {
  const testing::TemporaryFolder folder;
  EXPECT_TRUE(MappedFile(folder.write("empty", "")).bytes().empty());
}

}  // namespace
}  // namespace weft
