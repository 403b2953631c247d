// `weft study memorisation` as a process: a small study, which goes on where it was stopped; wrong words are refused.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "tests/study/memorisation/small_memorisation.h"
#include "tests/tools/weft_folder.h"

namespace weft::tools {
namespace {

class StudyMemorisation : public testing::WeftFolder {
 protected:
  StudyMemorisation() { testing::write_study_text(folder_); }
  static Words study(const Words& more) {
    return testing::joined(
        testing::words_in(
            "study memorisation --data text.txt --vocab 300 --length 12 --tail 4 --seen 0 2 --documents 2 "
            "--background 8 --held-out 4 --models 1m --seeds 1 --batch 4 --goldfish k=2,h=3 -o out"),
        more);
  }
};

TEST_F(StudyMemorisation, GoesOnWhereItWasStopped) {
  const nlohmann::json all = object_of(study({}));
  EXPECT_EQ(all.at("results").size(), 3U);
  EXPECT_EQ(read_json("out/results.json"), all);
  std::filesystem::remove(folder_.path("out/results/1m-goldfish-1.json"));
  const nlohmann::json rest = object_of(study({}));
  EXPECT_EQ(rest.at("summary"), all.at("summary"));
  EXPECT_EQ(rest.at("results")[0], all.at("results")[0]) << "taken from the folder, its seconds too";
}

TEST_F(StudyMemorisation, RefusesWrongWords) {
  for (const Words& more : std::vector<Words>{{"--goldfish", ""},
                                              {"--goldfish", "k=1"},
                                              {"--set", "lr"},
                                              {"--set", "model=tiny"},
                                              {"--models", "huge"},
                                              {"--data", "none.txt"},
                                              {"--background", "1000000"},
                                              {"--tokenizer", "none"}}) {
    expect_refusal(study(more), {});
  }
}

}  // namespace
}  // namespace weft::tools
