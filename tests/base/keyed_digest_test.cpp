// The published examples of SHA-256 and of HMAC-SHA-256, and lengths about a block.
#include "base/keyed_digest.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace weft {
namespace {

std::span<const std::byte> bytes_in_text(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string hex(const Digest& digest) {
  std::string text;
  for (const std::byte byte : digest) text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return text;
}

// FIPS 180-4's examples, and hashlib's values for 55, 56, 64 and 119 letters a.
TEST(KeyedDigest, Sha256GivesThePublishedValues) {
  EXPECT_EQ(hex(sha256({})), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex(sha256(bytes_in_text("abc"))), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(sha256(bytes_in_text("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"))),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  const auto of_letters = [](std::size_t count) { return hex(sha256(bytes_in_text(std::string(count, 'a')))); };
  EXPECT_EQ(of_letters(55), "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
  EXPECT_EQ(of_letters(56), "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
  EXPECT_EQ(of_letters(64), "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
  EXPECT_EQ(of_letters(119), "31eba51c313a5c08226adf18d4a359cfdfd8d2e816b13f4af952f7ea6584dcfb");
}

// RFC 4231, cases 1, 2 and 6, whose key is longer than a block.
TEST(KeyedDigest, HmacGivesThePublishedValues) {
  EXPECT_EQ(hex(keyed_digest(bytes_in_text(std::string(20, '\x0b')), bytes_in_text("Hi There"))),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hex(keyed_digest(bytes_in_text("Jefe"), bytes_in_text("what do ya want for nothing?"))),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hex(keyed_digest(bytes_in_text(std::string(131, '\xaa')),
                             bytes_in_text("Test Using Larger Than Block-Size Key - Hash Key First"))),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(KeyedDigest, EveryByteCounts) {
  const Digest digest = random_bytes();
  EXPECT_TRUE(equal_digests(digest, digest));
  for (std::size_t i = 0; i < digest.size(); ++i) {
    Digest other = digest;
    other[i] ^= std::byte{1};
    EXPECT_FALSE(equal_digests(digest, other)) << i;
  }
  EXPECT_FALSE(equal_digests(random_bytes(), random_bytes()));
}

}  // namespace
}  // namespace weft
