#include "train/data/token_stream.h"

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <vector>

#include "tests/base/temporary_folder.h"

namespace weft::train {
namespace {

using Starts = std::vector<std::int32_t>;

class DocumentStarts : public ::testing::Test {
 protected:
  // A part of `count` bytes of a text, in which documents begin.
  TokenStream::Part part(std::uint64_t count, std::vector<std::uint64_t> begins, bool end_of_text = false) const {
    const auto path = folder_.path() / "text.txt";
    std::ofstream(path) << std::string(100, 'a');
    return {std::make_shared<const InputFile>(path), TokenEncoding::bytes, 0, count, end_of_text, std::move(begins)};
  }
  static Starts starts_of(const TokenStream& stream, std::uint64_t begin, std::size_t count) {
    Starts starts(count, -1);
    stream.document_starts(begin, starts);
    return starts;
  }

  testing::TemporaryFolder folder_;
};

TEST_F(DocumentStarts, AreCountedFromTheFirstToken) {
  TokenStream stream;
  stream.append(part(8, {0, 3, 4}));
  EXPECT_TRUE(stream.has_documents());
  EXPECT_EQ(starts_of(stream, 0, 8), (Starts{0, 0, 0, 3, 4, 4, 4, 4}));
  EXPECT_EQ(starts_of(stream, 2, 3), (Starts{0, 1, 2}));
  EXPECT_EQ(starts_of(stream, 3, 2), (Starts{0, 1}));
  EXPECT_EQ(starts_of(stream, 5, 3), (Starts{0, 0, 0}));
}

TEST_F(DocumentStarts, GoOnOverParts) {
  TokenStream stream;
  stream.append(part(2, {0}, true));  // end-of-text belongs to the document before it
  stream.append(part(0, {}));
  stream.append(part(4, {0, 2}));
  EXPECT_EQ(stream.size(), 7U);
  EXPECT_EQ(starts_of(stream, 0, 7), (Starts{0, 0, 0, 3, 3, 5, 5}));
}

TEST_F(DocumentStarts, AreUnknownWithoutBegins) {
  TokenStream stream;
  stream.append(part(4, {}));
  EXPECT_FALSE(stream.has_documents());
}

}  // namespace
}  // namespace weft::train
