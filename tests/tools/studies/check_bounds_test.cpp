// bench/overlap/check_bounds.py, which shares no code with the search: it accepts the certificates that `weft bench`
// writes, and refuses each that was changed.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/base/temporary_folder.h"
#include "tests/tools/run_command.h"

namespace weft::tools {
namespace {

using nlohmann::json;

class CheckBounds : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_.write("steps/sharded.toml",
                  "model = \"tiny\"\ngrid = \"z=2,data=2\"\nmachine = \"dgx-h100\"\nglobal-batch = 8\n");
    folder_.write("steps/stages.toml",
                  "model = \"tiny\"\ngrid = \"pipe=2\"\nmachine = \"dgx-h100\"\nglobal-batch = 4\nmicro-batch = 1\n");
    folder_.write("steps/cores.toml", "model = \"tiny\"\ngrid = \"data=2\"\nmachine = \"laptop\"\nglobal-batch = 4\n");
    const testing::CommandResult made = testing::run_weft({"bench", "--instances", "steps", "--policies", "program",
                                                           "fsdp", "1f1b", "-o", "results", "--certify", "proof"},
                                                          folder_.path().string());
    ASSERT_EQ(made.exit_code, 0) << made.errors;
  }
  testing::CommandResult check(const std::string& certificate, const std::vector<std::string>& more = {}) const {
    return testing::run(
        testing::joined({"/usr/bin/env", "python3", WEFT_SOURCE_DIR "/bench/overlap/check_bounds.py", certificate},
                        more),
        folder_.path().string());
  }
  json certificate(const std::string& name) const {
    return json::parse(testing::TemporaryFolder::read(folder_.path("proof/" + name + ".json")));
  }
  /// The checker's answer to a certificate that was changed.
  testing::CommandResult changed(const std::string& name, const std::function<void(json&)>& change) const {
    json document = certificate(name);
    change(document);
    folder_.write("proof/changed.json", document.dump());
    return check("proof/changed.json");
  }

  const testing::TemporaryFolder folder_;
};

TEST_F(CheckBounds, CertificatesHold) {
  for (const char* name : {"sharded", "stages", "cores"}) {
    const testing::CommandResult result = check("proof/" + std::string(name) + ".json", {"--best", "results/best.csv"});
    EXPECT_EQ(result.exit_code, 0) << result.output << result.errors;
    EXPECT_GT(certificate(name)["bound_ns"].get<double>(), 0);
  }
}

TEST_F(CheckBounds, FalseCertificatesAreRefused) {
  const auto refused = [&](const char* name, const std::function<void(json&)>& change) {
    const testing::CommandResult result = changed(name, change);
    EXPECT_EQ(result.exit_code, 1) << result.output << result.errors;
    EXPECT_NE(result.output.find("refused"), std::string::npos);
  };
  for (const char* name : {"sharded", "stages", "cores"}) {
    EXPECT_EQ(changed(name, [](json&) {}).exit_code, 0);
    refused(name, [](json& all) { all["bound_ns"] = all["bound_ns"].get<double>() * (1 + 1e-8); });
    refused(name, [](json& all) {
      json& graph = all["graphs"][0];
      graph["bound_ns"] = graph["bound_ns"].get<double>() * (1 + 1e-8);
    });
    refused(name, [](json& all) { all["graphs"] = json::array(); });
    refused(name, [](json& all) { all["graphs"][0].erase("window"); });
    refused(name, [](json& all) { all["graphs"][0]["window"]["work"]["kind"] = "cores"; });
  }
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

}  // namespace
}  // namespace weft::tools
