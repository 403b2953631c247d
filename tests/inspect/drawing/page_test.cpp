// A picture's page holds the picture and loads nothing.
#include "inspect/drawing/page.h"

#include <gtest/gtest.h>

#include <regex>

#include "tests/base/messages.h"

namespace weft::inspect {
namespace {

const std::string kSvg =
    "<?xml version=\"1.0\"?>\n<!DOCTYPE svg PUBLIC \"-//W3C//DTD SVG 1.1//EN\" \"http://www.w3.org/x.dtd\">\n"
    "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 9 9\"><text>hello</text></svg>\n";

TEST(PicturePage, HoldsThePictureWithoutItsPreamble) {
  const std::string page = picture_page("a <b>", kSvg);
  EXPECT_TRUE(page.starts_with("<!DOCTYPE html>"));
  EXPECT_TRUE(has_parts(page, {"<title>a &lt;b&gt;</title>", "<svg xmlns="}));
  EXPECT_EQ(page.find("<?xml"), std::string::npos);
  EXPECT_EQ(page.find("DTD"), std::string::npos);
}

TEST(PicturePage, LoadsNothing) {
  const std::string page = picture_page("a", kSvg);
  EXPECT_NE(page.find("Content-Security-Policy\" content=\"default-src 'none'"), std::string::npos);
  const std::regex address("https?://[^\"' ]*");
  for (std::sregex_iterator it(page.begin(), page.end(), address), end; it != end; ++it) {
    EXPECT_EQ(it->str(), "http://www.w3.org/2000/svg");
  }
  EXPECT_EQ(page.find(" src="), std::string::npos);
}

}  // namespace
}  // namespace weft::inspect
