// Steps of PyTorch that weft_torch captured (tests/torch/make_exports), in every command that takes a graph file.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "inspect/formats/graph_file.h"
#include "tests/base/messages.h"
#include "tests/tools/weft_folder.h"

namespace weft::tools {
namespace {

struct Export {
  const char* name;
  std::map<std::string, int> collectives;
};

const Export kExports[] = {{"llama_ddp", {{"all_reduce", 39}}},
                           {"llama_fsdp", {{"all_gather", 39}, {"reduce_scatter", 39}}},
                           {"llama_tp", {{"all_reduce", 28}}}};

class TorchExports : public testing::WeftFolder {
 protected:
  static std::string path_of(const Export& of) {
    return std::string(WEFT_SOURCE_DIR) + "/tests/torch/exports/" + of.name + ".graph.json.gz";
  }
};

TEST_F(TorchExports, HaveTheCollectivesOfTheirWay) {
  for (const Export& each : kExports) {
    const graph::OpenGraph graph = inspect::read_graph_file(path_of(each));
    std::map<std::string, int> found;
    bool has_layers = false;
    for (const graph::OpenTask& task : graph.classes.front().tasks) {
      if (graph::communicates(task.kind)) ++found[task.operation];
      has_layers = has_layers || task.layer == 3;
    }
    EXPECT_EQ(found, each.collectives) << each.name;
    EXPECT_TRUE(has_layers) << each.name;
  }
}

TEST_F(TorchExports, AreComparedBesideABound) {
  for (const Export& each : kExports) {
    const auto compared = nlohmann::json::parse(testing::succeeded(run({"compare", path_of(each), "--machine", "alps",
                                                                        "--policies", "serial", "lhs", "--json"}))
                                                    .output);
    const double serial = compared.at("policies").at(0).at("step_ms"),
                 lhs = compared.at("policies").at(1).at("step_ms");
    EXPECT_LE(lhs, serial) << each.name;
    EXPECT_GE(lhs, compared.at("bound_ms").get<double>() * (1 - 1e-9)) << each.name;
  }
}

}  // namespace
}  // namespace weft::tools
