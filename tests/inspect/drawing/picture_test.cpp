// Shapes as SVG and as Graphviz's drawing operations; a picture's page loads nothing.
#include "inspect/drawing/picture.h"

#include <gtest/gtest.h>

#include <regex>

#include "tests/base/messages.h"

namespace weft::inspect {
namespace {

Picture sample_picture() {
  Picture picture(100, 50);
  picture.begin_group("a <b>", "gemm");
  picture.rect(1, 2.5, 10, 20, {.fill = "#56B4E9", .stroke = "#222222", .width = 2.5, .round = 3});
  picture.end_group();
  picture.line({0, 0}, {100, 50}, {.stroke = "#CC0000", .dashed = true});
  picture.text(5, 10, "x & y", {.size = 10, .anchor = TextPaint::Anchor::middle, .bold = true});
  return picture;
}

TEST(Picture, GoldenSvg) {
  EXPECT_EQ(
      sample_picture().svg(),
      R"GOLD(<svg xmlns="http://www.w3.org/2000/svg" width="100" height="50" viewBox="0 0 100 50" style="max-width:100%;height:auto" font-family="Helvetica, Arial, sans-serif" font-size="11">
<rect width="100%" height="100%" fill="#ffffff"/>
<g class="gemm"><title>a &lt;b&gt;</title><rect x="1" y="2.5" width="10" height="20" rx="3" fill="#56B4E9" stroke="#222222" stroke-width="2.5"/>
</g>
<polyline points="0,0 100,50" fill="none" stroke="#CC0000" stroke-dasharray="4 3"/>
<text x="5" y="10" font-size="10" text-anchor="middle" font-weight="bold">x &amp; y</text>
</svg>
)GOLD");
}

TEST(Picture, GoldenXdot) {
  EXPECT_EQ(sample_picture().xdot(),
            "c 7 -#222222 C 7 -#56B4E9 S 18 -setlinewidth(2.50) S 5 -solid P 4 1 47.5 11 47.5 11 27.5 1 27.5 "
            "c 7 -#CC0000 S 18 -setlinewidth(1.00) S 6 -dashed L 2 0 50 100 0 "
            "c 7 -#000000 t 1 F 10 9 -Helvetica T 5 40 0 25 5 -x & y ");
}

TEST(Picture, NumbersAreShort) {
  Picture picture(10, 10);
  picture.rect(-0.001, -1.5, 3.14159, 1234.5, {.fill = "#000000"});
  EXPECT_TRUE(has_parts(picture.svg(), {"x=\"0\" y=\"-1.5\" width=\"3.14\" height=\"1234.5\""}));
}

const std::string kSvg =
    "<?xml version=\"1.0\"?>\n<!DOCTYPE svg PUBLIC \"-//W3C//DTD SVG 1.1//EN\" \"http://www.w3.org/x.dtd\">\n"
    "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 9 9\"><text>hello</text></svg>\n";

TEST(PicturePage, HoldsThePictureWithoutItsPreamble) {
  const std::string page = picture_page("a <b>", kSvg);
  EXPECT_TRUE(page.starts_with("<!DOCTYPE html>"));
  EXPECT_TRUE(has_parts(page, {"<title>a &lt;b&gt;</title>", "<svg xmlns="}));
  EXPECT_EQ(page.find("<?xml"), std::string::npos);
  EXPECT_EQ(page.find("DTD"), std::string::npos);
  EXPECT_NE(page.find("prefers-color-scheme: dark"), std::string::npos);
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
