#include "base/text/csv.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

using Rows = std::vector<CsvRow>;

TEST(Csv, QuotesWhatHasSigns) {
  EXPECT_EQ(csv_line({"a", "", "b c"}), "a,,b c\n");
  EXPECT_EQ(csv_line({"x=1,y=2", "say \"so\"", "two\nlines"}), "\"x=1,y=2\",\"say \"\"so\"\"\",\"two\nlines\"\n");
}

TEST(Csv, ReadsWhatItWrites) {
  const Rows rows = {{"a", "b"}, {"x,\"y\"\n", ""}, {"", "\"\""}, {"é", " "}};
  std::string text;
  for (const CsvRow& row : rows) text += csv_line(row);
  EXPECT_EQ(read_csv(text), rows);
  EXPECT_EQ(read_csv("a,b\r\nc,\"d\"\r\n"), (Rows{{"a", "b"}, {"c", "d"}}));
  EXPECT_EQ(read_csv(""), Rows());
}

TEST(Csv, LeavesOutARowThatWasCutOff) {
  for (const char* cut : {"a,b\nc", "a,b\nc,", "a,b\nc,\"d", "a,b\nc,\"d\n", "a,b\nc,\"d\""}) {
    EXPECT_EQ(read_csv(cut), (Rows{{"a", "b"}})) << cut;
  }
}

TEST(Csv, RefusesQuotesWithinACell) {
  for (const char* wrong : {"a\"b\"\n", "\"a\"b\n", "\"a\"\"b\"\"\" \n", "\"a\" \"b\"\n"}) {
    EXPECT_FALSE(read_csv(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace weft
