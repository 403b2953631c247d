// The first place that works is used; the reasons of all other places are reported.
#include "base/shared_library.h"

#include <gtest/gtest.h>

#include <array>

namespace weft {
namespace {

using Places = std::array<std::string, 2>;

TEST(SharedLibrary, OpensTheFirstThatItCan) {
  const SharedLibrary library(Places{"libnowhere.so.7", "libm.so.6"});
  ASSERT_TRUE(library) << library.failure();
  EXPECT_EQ(library.place(), "libm.so.6");
  EXPECT_TRUE(library.failure().starts_with("libnowhere.so.7: cannot open shared object file"));
  auto* const cosine = library.find<double(double)>("cos");
  ASSERT_NE(cosine, nullptr);
  EXPECT_EQ(cosine(0), 1);
  EXPECT_EQ(library.find<double(double)>("no_such_function"), nullptr);
}

TEST(SharedLibrary, TellsWhereItLooked) {
  const SharedLibrary library(Places{"libnowhere.so.7", "/no/such/folder/libnowhere.so.7"});
  EXPECT_FALSE(library);
  EXPECT_EQ(library.place(), "");
  EXPECT_EQ(library.failure(),
            "libnowhere.so.7: cannot open shared object file: No such file or directory; "
            "/no/such/folder/libnowhere.so.7: cannot open shared object file: No such file or directory");
}

}  // namespace
}  // namespace weft
