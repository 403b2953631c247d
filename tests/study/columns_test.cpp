// Columns of a toy's rows: the same values in a table, CSV and JSON, and CSV read back.
#include "study/columns.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "tests/base/messages.h"

namespace weft::study {
namespace {

struct ToyRow {
  std::string name = {}, reason = {};
  std::uint64_t seed = 0;
  std::int64_t bytes = 0;
  double step_ms = 0, share = 0;
  bool fits = false;

  bool possible() const { return reason.empty(); }
  friend bool operator==(const ToyRow&, const ToyRow&) = default;
};

Columns<ToyRow> toy_columns() {
  Columns<ToyRow> columns;
  columns.add("name", &ToyRow::name, {.head = "name", .words = true});
  columns.add("seed", &ToyRow::seed);
  columns.figure("step_ms", &ToyRow::step_ms, {.head = "step"}, ms_text);
  columns.figure("twice", [](const ToyRow& row) { return 2 * row.bytes; });  // which nobody needs to read
  columns.figure("bytes", &ToyRow::bytes, {.head = "memory"}, bytes_text);
  columns.figure("share", &ToyRow::share);
  columns.add("fits", &ToyRow::fits);
  columns.add("reason", &ToyRow::reason);
  return columns;
}

const std::vector<ToyRow> kRows = {
    {.name = "a, \"b\"", .seed = ~0ULL, .bytes = 1536, .step_ms = 1.0 / 3, .share = 1, .fits = true},
    {.name = "c", .reason = "too large", .seed = 7}};

TEST(Columns, WriteCsvThatIsReadBack) {
  const std::string csv = toy_columns().csv(kRows);
  EXPECT_EQ(csv,
            "name,seed,step_ms,twice,bytes,share,fits,reason\n"
            "\"a, \"\"b\"\"\",18446744073709551615,0.3333333333333333,3072,1536,1,true,\n"
            "c,7,,,,,false,too large\n");
  EXPECT_EQ(toy_columns().read(csv, "toy.csv", "mend it"), kRows);
}

TEST(Columns, RefuseOtherText) {
  const std::string head = csv_line(toy_columns().names());
  EXPECT_TRUE(toy_columns().read(head, "toy.csv", "").empty());
  const auto refusal = [&](const std::string& text) {
    return testing::message_of<UserError>([&] { toy_columns().read(text, "toy.csv", "mend it"); });
  };
  for (const char* row : {"c,7\n", "c,x,,,,,false,too large\n", "c,7,1,,,,false,too large\n", "c,7,,,,,no,too large\n",
                          "c,7,,,,,false,\n", "c,7,1,2,3,,true,\n", "c,7,-1,2,3,1,true,\n", "c,7,1,2,1.5,1,true,\n"}) {
    EXPECT_TRUE(testing::has_parts(refusal(head + row), {"row 1 of toy.csv", "mend it"})) << row;
  }
  EXPECT_TRUE(testing::has_parts(refusal("name,seed\n"), {"toy.csv has the columns name, seed", "step_ms"}));
  EXPECT_TRUE(testing::has_parts(refusal(""), {"toy.csv has the columns"}));
  EXPECT_TRUE(testing::has_parts(refusal("a\"b\n"), {"can't be read as CSV"}));
}

TEST(Columns, WriteJson) {
  const auto rows = nlohmann::json::parse(toy_columns().json(kRows).text());
  EXPECT_EQ(rows[0].at("seed"), ~0ULL);
  EXPECT_EQ(rows[1].at("fits"), false);
  EXPECT_TRUE(rows[1].at("step_ms").is_null() && rows[1].at("share").is_null());
  const auto present = nlohmann::json::parse(toy_columns().json(kRows, Absent::left_out).text());
  EXPECT_EQ(present[1], nlohmann::json({{"name", "c"}, {"seed", 7}, {"fits", false}, {"reason", "too large"}}));
}

TEST(Columns, MakeATableWithReasonsInPlaceOfFigures) {
  const TextTable table = toy_columns().table(kRows);
  ASSERT_EQ(table.columns.size(), 3U);
  EXPECT_EQ(table.columns[1].head, "step");
  EXPECT_EQ(table.rows[0], (std::vector<std::string>{"a, \"b\"", "333.3 us", "1.50 KiB"}));
  EXPECT_EQ(table.rows[1], (std::vector<std::string>{"c", "too large"}));
}

TEST(Columns, OneStepIsExpected) {
  expect_possible(std::span(kRows), "rows", "");
  const std::string text =
      testing::message_of<UserError>([] { expect_possible(std::span(kRows).last(1), "rows", "another size"); });
  EXPECT_TRUE(testing::has_parts(text, {"none of the 1 rows", "too large", "another size"}));
}

}  // namespace
}  // namespace weft::study
