// Philox against its authors' known answers, and the values that Weft derives from it.
#include "base/philox.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(Philox, KnownAnswers) {
  // Random123 1.14, kat_vectors: philox4x32, 10 rounds.
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, 0, 0), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, 0xffffffff, 0xffffffff),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0xa4093822, 0x299f31d0),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, EveryPartOfTheKeyMatters) {
  const PhiloxBlock base = philox_quad(1, 2, 3, 4);
  EXPECT_EQ(base, philox_quad(1, 2, 3, 4));
  EXPECT_NE(base, philox_quad(2, 2, 3, 4));
  EXPECT_NE(base, philox_quad(1ULL << 32 | 1, 2, 3, 4));
  EXPECT_NE(base, philox_quad(1, 3, 3, 4));
  EXPECT_NE(base, philox_quad(1, 2, 4, 4));
  EXPECT_NE(base, philox_quad(1, 2, 3, 5));
  EXPECT_NE(base, philox_quad(1, 2, 3, 1ULL << 32 | 4));
}

}  // namespace
}  // namespace weft
