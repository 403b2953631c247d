// Bytes to ids and back.
#include "text/byte_tokenizer.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/base/messages.h"

namespace weft::text {
namespace {

TEST(ByteTokenizer, OneIdAByte) {
  EXPECT_EQ(ByteTokenizer().encode("Hi \xC3\xA9"), (std::vector<std::int32_t>{72, 105, 32, 0xC3, 0xA9}));
  EXPECT_TRUE(ByteTokenizer().encode("").empty());
}

TEST(ByteTokenizer, DecodesWhatItEncoded) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  EXPECT_EQ(ByteTokenizer().decode(ByteTokenizer().encode(all)), all);
}

TEST(ByteTokenizer, RefusesIdsOutOfRange) {
  const auto decode = [](std::int32_t id) {
    return testing::message_of<UserError>([&] { ByteTokenizer().decode(std::vector<std::int32_t>{1, id}); });
  };
  EXPECT_TRUE(has_parts(decode(257), {"token 1 has id 257", "257 (bytes)"}));
  EXPECT_TRUE(has_parts(decode(-1), {"token 1 has id -1"}));
}

TEST(ByteTokenizer, NamesItsTokens) {
  const ByteTokenizer bytes;
  EXPECT_EQ(bytes.token_text(' '), "\xC4\xA0");  // "Ġ"
  EXPECT_EQ(bytes.token_text(256), "<|endoftext|>");
  EXPECT_EQ(bytes.token_text(257), std::nullopt);
  EXPECT_EQ(bytes.token_id("\xC4\xA0"), ' ');
  EXPECT_EQ(bytes.token_id("ab"), std::nullopt);
  EXPECT_EQ(bytes.facts().end, 256);
  const std::vector<std::int32_t> ended{72, ByteTokenizer::kEndOfText, 105};
  EXPECT_EQ(bytes.decode(ended), "H<|endoftext|>i");
  EXPECT_EQ(bytes.decode(ended, true), "Hi");
}

}  // namespace
}  // namespace weft::text
