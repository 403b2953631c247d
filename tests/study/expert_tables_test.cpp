#include "study/expert_tables.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"

namespace weft::study {
namespace {

constexpr const char* kFirst =
    "{\"step\":9,\"steps\":10,\"layers\":[0,2],\"tokens\":[[30,10],[20,20]],\"margin\":[0.5,0.25],\"flips\":[0,1]}\n";
constexpr const char* kSecond =
    "{\"step\":19,\"steps\":10,\"layers\":[0,2],\"tokens\":[[10,30],[40,0]],\"margin\":[0.125,null],\"flips\":[3,0]}\n";

std::vector<std::string> texts_of(const std::vector<inspect::ReportCell>& row) {
  std::vector<std::string> texts;
  for (const inspect::ReportCell& cell : row) texts.push_back(cell.text);
  return texts;
}

TEST(ExpertTable, HasTheBusiestOfEachLayerAndAPicture) {
  const testing::TemporaryFolder folder;
  const auto loads =
      train::read_expert_loads(folder.write("experts.jsonl", std::string(kFirst) + kSecond + "{\"step\""));
  ASSERT_EQ(loads.size(), 2U);
  const auto table = experts_table(loads, true);
  ASSERT_TRUE(table.has_value());
  ASSERT_EQ(table->rows.size(), 2U);
  using Texts = std::vector<std::string>;
  EXPECT_EQ(texts_of(table->rows[0]), (Texts{"0", "0", "1.00", "1", "1.50", "0", "0.50", "0.12", "3"}));
  EXPECT_EQ(texts_of(table->rows[1]), (Texts{"2", "0", "1.50", "0", "2.00", "1", "0.00", "0.25", "1"}));
  EXPECT_EQ(table->heads.size(), 9U);
  EXPECT_TRUE(testing::has_parts(table->picture, {"<svg", "layer 2, expert 1"}));
  EXPECT_EQ(experts_table(loads, false)->heads.size(), 8U);
  EXPECT_FALSE(experts_table({}, false).has_value());
}

}  // namespace
}  // namespace weft::study
