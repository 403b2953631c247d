// The JSON of a small graph, byte for byte.
#include "inspect/formats/dump_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace weft::inspect {
namespace {

TEST(DumpJson, EmptyGraph) {
  const std::string text = dump_json(graph::GraphBuilder().build());
  EXPECT_EQ(text,
            "{\"format\":\"weft.graph\",\"version\":1,\"fingerprint\":\"0xcbf29ce484222325\",\n"
            "\"tensors\":[],\n\"tasks\":[],\n\"edges\":[]\n}\n");
  EXPECT_TRUE(nlohmann::json::accept(text));
}

graph::Graph small_graph() {
  graph::GraphBuilder builder(graph::Arguments::of_any_form);
  const graph::TensorId p = builder.add_tensor({"p", DType::bf16, {2, 4}, graph::Role::parameter});
  const graph::TensorId x = builder.add_tensor({"x", DType::f32, {2, 4}, graph::Role::activation});
  const graph::View p_view = graph::whole(builder, p), x_view = graph::whole(builder, x);
  builder.add_task(
      {"say \"x\" <&>\\", graph::RmsNormForward{2, 4, 1e-5F}, {graph::read(p_view), graph::write(x_view)}, 3, 0});
  builder.add_task({"mean",
                    graph::AllReduce{graph::Channel::data, 2, 8},
                    {graph::read_write(x_view)},
                    -1,
                    -1,
                    graph::Phase::backward});
  return std::move(builder).build();
}

TEST(DumpJson, OneLineAThingWithSortedKeys) {
  const graph::Graph graph = small_graph();
  const std::string text = dump_json(graph);
  EXPECT_EQ(text.substr(text.find(",\n") + 2),
            R"("tensors":[
{"dtype":"bf16","id":0,"name":"p","role":"parameter","shape":[2,4]},
{"dtype":"f32","id":1,"name":"x","role":"activation","shape":[2,4]}
],
"tasks":[
{"accesses":[{"cols":4,"mode":"read","offset":0,"row_stride":4,"rows":2,"tensor":0},{"cols":4,"mode":"write","offset":0,"row_stride":4,"rows":2,"tensor":1}],"id":0,"kind":"rms_norm","layer":3,"micro_batch":0,"name":"say \"x\" <&>\\","operation":{"cols":4,"eps":1e-05,"rows":2},"phase":"forward"},
{"accesses":[{"cols":4,"mode":"read_write","offset":0,"row_stride":4,"rows":2,"tensor":1}],"id":1,"kind":"all_reduce","layer":-1,"micro_batch":-1,"name":"mean","operation":{"channel":"data","count":8,"ranks":2},"phase":"backward"}
],
"edges":[
{"distance":0,"from":0,"kind":"completes_before","reason":"read after write","tensor":1,"to":1}
]
}
)");
  EXPECT_EQ(text, dump_json(small_graph()));
  const auto parsed = nlohmann::json::parse(text);
  EXPECT_EQ(parsed["tasks"][0]["name"], graph.tasks()[0].name);
  EXPECT_EQ(std::stoull(parsed["fingerprint"].get<std::string>(), nullptr, 16), graph.fingerprint());
}

TEST(DumpJson, AGridIsNamedWithTheGroupsThatItsCollectivesJoin) {
  graph::Grid grid{2, 1, 1, 2};
  std::string text = dump_json(small_graph(), grid);
  EXPECT_NE(text.find(R"(",
"grid":{"data":2,"order":["x","y","z","data"],"x":2,"y":1,"z":1},
"groups":{"data":[[0,2],[1,3]]},
"tensors":[)"),
            std::string::npos)
      << text;
  grid.order = {graph::Axis::data, graph::Axis::x, graph::Axis::y, graph::Axis::z};
  text = dump_json(small_graph(), grid);
  EXPECT_EQ(nlohmann::json::parse(text).at("groups").at("data"), (std::vector<std::vector<int>>{{0, 1}, {2, 3}}));
}

TEST(DumpJson, NamesThatAreNotUtf8StayReadable) {
  graph::GraphBuilder builder;
  builder.add_tensor({"\xff", DType::f32, {1}, graph::Role::activation});
  EXPECT_TRUE(nlohmann::json::accept(dump_json(std::move(builder).build())));
}

}  // namespace
}  // namespace weft::inspect
