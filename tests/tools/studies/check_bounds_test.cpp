// bench/overlap/check_bounds.py, which shares no code with the search: it accepts the certificates that `weft bench`
// writes, and refuses each that was changed.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/tools/weft_folder.h"

namespace weft::tools {
namespace {

using nlohmann::json;

class CheckBounds : public testing::WeftFolder {
 protected:
  void SetUp() override {
    folder_.write("steps/sharded.toml",
                  "model = \"tiny\"\ngrid = \"z=2,data=2\"\nmachine = \"dgx-h100\"\nglobal-batch = 8\n");
    folder_.write("steps/stages.toml",
                  "model = \"tiny\"\ngrid = \"pipe=2\"\nmachine = \"dgx-h100\"\nglobal-batch = 4\nmicro-batch = 1\n");
    folder_.write("steps/cores.toml", "model = \"tiny\"\ngrid = \"data=2\"\nmachine = \"laptop\"\nglobal-batch = 4\n");
    folder_.write("steps/gathered.toml",
                  "model = \"tiny\"\ngrid = \"z=4\"\nmachine = \"perlmutter\"\nglobal-batch = 4\n"
                  "reshard-after-forward = true\n");
    testing::succeeded(
        run({"bench", "--instances", "steps", "--policies", "program", "-o", "results", "--certify", "proof"}));
  }
  testing::CommandResult check(const std::string& certificate, const std::vector<std::string>& more = {}) const {
    return testing::run(
        testing::joined({"/usr/bin/env", "python3", WEFT_SOURCE_DIR "/bench/overlap/check_bounds.py", certificate},
                        more),
        folder_.path().string());
  }
  json certificate(const std::string& name) const { return read_json("proof/" + name + ".json"); }
  /// The checker's answer to a certificate that was changed.
  testing::CommandResult changed(const std::string& name, const std::function<void(json&)>& change) const {
    json document = certificate(name);
    change(document);
    folder_.write("proof/changed.json", document.dump());
    return check("proof/changed.json");
  }
};

TEST_F(CheckBounds, CertificatesHoldAndFalseOnesAreRefused) {
  const auto refused = [&](const char* name, const std::function<void(json&)>& change) {
    const testing::CommandResult result = changed(name, change);
    EXPECT_EQ(result.exit_code, 1) << result.output << result.errors;
    EXPECT_NE(result.output.find("refused"), std::string::npos);
  };
  for (const char* name : {"sharded", "stages", "cores", "gathered"}) {
    const testing::CommandResult held = check("proof/" + std::string(name) + ".json", {"--best", "results/best.csv"});
    EXPECT_EQ(held.exit_code, 0) << held.output << held.errors;
    EXPECT_GT(certificate(name)["bound_ns"].get<double>(), 0);
  }
  // One proves by a window, the other by milestones.
  for (const char* name : {"sharded", "gathered"}) {
    EXPECT_EQ(changed(name, [](json&) {}).exit_code, 0);
    refused(name, [](json& all) { all["bound_ns"] = all["bound_ns"].get<double>() * (1 + 1e-8); });
    refused(name, [](json& all) {
      json& graph = all["graphs"][0];
      graph["bound_ns"] = graph["bound_ns"].get<double>() * (1 + 1e-8);
    });
    refused(name, [](json& all) { all["graphs"] = json::array(); });
    refused(name, [](json& all) { all["version"] = 3; });
    refused(name, [](json& all) {
      all["graphs"][0].erase("window");
      all["graphs"][0].erase("milestones");
    });
    refused(name, [](json& all) {
      json& graph = all["graphs"][0];
      (graph.contains("window") ? graph["window"] : graph["milestones"]["loads"][0])["work"]["kind"] = "cores";
    });
  }
  const std::string script = WEFT_SOURCE_DIR "/tests/fuzz/certificates";
  const testing::CommandResult random =
      testing::run({"/usr/bin/env", "python3", script, "proof", "--best", "results/best.csv", "--runs", "200"},
                   folder_.path().string());
  EXPECT_EQ(random.exit_code, 0) << random.errors;
  // A set that lacks work proves less, and so does an enlarged one, which begins earlier.
  refused("sharded", [](json& all) {
    json& window = all["graphs"][0]["window"];
    window["work"]["least_head"] = window["work"]["least_head"].get<double>() + 1e6;
  });
  refused("sharded", [](json& all) {
    json& graph = all["graphs"][0];
    graph["window"]["work"]["least_head"] = graph["window"]["work"]["least_tail"] = 0;
    graph["bound_ns"] = graph["bound_ns"].get<double>() * 1.1;
  });
  // Proof of another graph.
  const json other = certificate("cores");
  refused("sharded", [&](json& all) { all["graphs"][0]["graph"] = other["graphs"][0]["graph"]; });
  // A head that no window proves.
  refused("sharded", [](json& all) {
    json& graph = all["graphs"][0];
    graph["adjustments"].push_back({{"class", 0}, {"task", 40}, {"head_ns", 1e12}, {"window", graph["window"]}});
  });
}

TEST_F(CheckBounds, FalseMilestonesAreRefused) {
  const json truth = certificate("gathered");
  ASSERT_EQ(truth["version"], 2);
  ASSERT_TRUE(truth["graphs"][0].contains("milestones"));
  const auto refused = [&](const char* what, const std::function<void(json&)>& change) {
    const testing::CommandResult result =
        changed("gathered", [&](json& all) { change(all["graphs"][0]["milestones"]); });
    EXPECT_EQ(result.exit_code, 1) << what << result.output << result.errors;
    EXPECT_NE(result.output.find("refused"), std::string::npos) << what;
  };
  refused("a task that doesn't precede the next one", [](json& proof) {
    json& tasks = proof["tasks"];
    std::swap(tasks[1], tasks[tasks.size() - 1]);
  });
  refused("a milestone twice", [](json& proof) { proof["tasks"][3] = proof["tasks"][1]; });
  refused("no milestones", [](json& proof) { proof["tasks"] = json::array(); });
  refused("half a milestone", [](json& proof) { proof["tasks"].erase(0); });
  refused("parts that pay more than 1", [](json& proof) {
    for (json& load : proof["loads"]) load["charges"][3] = load["charges"][3].get<double>() + 1;
  });
  refused("a price below 0", [](json& proof) { proof["loads"][0]["charges"][3] = -0.1; });
  refused("a part that isn't there", [](json& proof) { proof["loads"][0]["charges"][1] = 1000000; });
  refused("no prices", [](json& proof) { proof["loads"] = json::array(); });
  refused("less work", [](json& proof) {
    for (json& load : proof["loads"]) load["work"]["least_head"] = 1e12;
  });
  refused("another resource", [](json& proof) {
    for (json& load : proof["loads"]) load["work"]["number"] = 77;
  });
}

TEST_F(CheckBounds, AnotherGraphUnderTheNameIsRefused) {
  const std::string print = certificate("sharded")["graphs"][0]["graph"];
  const std::string other = certificate("cores")["graphs"][0]["graph"];
  std::filesystem::copy_file(folder_.path("proof/graphs/" + other + ".graph.json.gz"),
                             folder_.path("proof/graphs/" + print + ".graph.json.gz"),
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(check("proof/sharded.json").exit_code, 1);
  std::filesystem::remove(folder_.path("proof/graphs/" + print + ".graph.json.gz"));
  EXPECT_EQ(check("proof/sharded.json").exit_code, 2);
}

// A certificate may be right about a graph that nothing ties to the instance that it names.
TEST_F(CheckBounds, GraphsOfAnotherInstanceAreRefusedByWeft) {
  const std::vector<std::string> by_weft = {"--weft", WEFT_EXECUTABLE, "--instances", "steps"};
  for (const char* name : {"sharded", "stages"}) {
    const testing::CommandResult held = check("proof/" + std::string(name) + ".json", by_weft);
    EXPECT_EQ(held.exit_code, 0) << held.output << held.errors;
  }
  const auto refused = [&](const std::function<void(json&)>& change, const std::string& part) {
    json document = certificate("cores");
    change(document);
    folder_.write("proof/changed.json", document.dump());
    EXPECT_EQ(check("proof/changed.json").exit_code, 0) << "its argument holds";
    const testing::CommandResult result = check("proof/changed.json", by_weft);
    EXPECT_EQ(result.exit_code, 1) << result.output << result.errors;
    EXPECT_TRUE(has_parts(result.output, {"refused", part}));
  };
  const json own = certificate("sharded");
  refused([&](json& all) { all["instance"] = "sharded", all["step"] = own["step"]; },
          own["graphs"][0]["graph"].get<std::string>());
  refused([&](json& all) { all["step"] = own["step"]; }, own["step"].get<std::string>());
  refused([](json& all) { all["instance"] = "none"; }, "no instance none");
  refused([](json& all) { all["instance"] = "--again"; }, "--again");
  refused([](json& all) { all["graphs"][0]["policies"] = {"./mine.so"}; }, "./mine.so");
  refused([](json& all) { all["graphs"][0]["policies"] = json::array(); }, "no policy");
}

TEST_F(CheckBounds, ControlCharactersOfNamesReachNoTerminal) {
  const std::string name = "proof/a\x1b]0;x\x07\xc2\x9b.json";
  folder_.write(name, R"({"format": "\u001b[2J"})");
  const testing::CommandResult result = check(name);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(has_parts(result.output, {"refused", R"(\x1b]0;x\x07\x9b)"})) << result.output;
  EXPECT_EQ(result.output.find('\x1b'), std::string::npos);
}

TEST(DrawnInstances, AreWhatTheRuleDraws) {
  const testing::CommandResult drawn =
      testing::run({"/usr/bin/env", "python3", WEFT_SOURCE_DIR "/bench/overlap/draw.py", "--check"});
  EXPECT_EQ(drawn.exit_code, 0) << drawn.errors;
}

}  // namespace
}  // namespace weft::tools
