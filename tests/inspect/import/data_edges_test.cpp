// True dependencies of a recorded step: operators, storages of execution traces, and the freedom that they leave.
#include "inspect/import/data_edges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "graph/stream_order.h"
#include "inspect/import/readers/kineto_file.h"
#include "inspect/import/recovered_step.h"
#include "tests/base/messages.h"
#include "tests/inspect/import/execution_text.h"
#include "tests/inspect/import/kineto_text.h"

namespace weft::inspect {
namespace {

using graph::EdgeSource;
using graph::KeptOrder;
using testing::ExecutionText;
using testing::KinetoText;
using EdgeNames = std::set<std::string>;

constexpr const char* kMm = "aten::mm(Tensor self, Tensor mat2) -> Tensor";
constexpr const char* kAdd = "aten::add_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)";

graph::OpenClass imported_class(const KinetoText& text, const ExecutionText* data = nullptr) {
  const std::string content = text.text();
  const TraceOutline outline = parse_kineto_outline(text_source(content), "t.json");
  const std::optional<MarkedStep> step = choose_step(outline, {});
  DeviceTrace trace = parse_kineto_events(text_source(content), outline, step);
  if (data != nullptr) trace.data = parse_execution_trace(text_source(data->text()), "et.json");
  TraceChannels channels(2);
  return recover_step(trace, step, channels).graph;
}

/// "a>b" of each edge of a source between tasks of the device.
EdgeNames edges_of(const graph::OpenClass& step, EdgeSource source) {
  EdgeNames out;
  for (const graph::OpenEdge& edge : step.edges) {
    if (edge.source == source) out.insert(step.tasks[edge.from].name + ">" + step.tasks[edge.to].name);
  }
  return out;
}

/// Whether an order can have `second` before `first`.
bool may_swap(const graph::OpenClass& step, KeptOrder kept, const std::string& first, const std::string& second) {
  std::vector<bool> after(step.tasks.size(), false);
  std::vector<graph::HeldEdge> held = held_edges(step, kept);
  std::ranges::sort(held, {}, [](const graph::HeldEdge& each) { return each.edge.to; });
  for (std::size_t i = 0; i < step.tasks.size(); ++i) after[i] = step.tasks[i].name == first;
  for (const graph::HeldEdge& each : held) after[each.edge.to] = after[each.edge.to] || after[each.edge.from];
  const auto found = std::ranges::find(step.tasks, second, &graph::OpenTask::name);
  EXPECT_NE(found, step.tasks.end()) << second;
  return !after[static_cast<std::size_t>(found - step.tasks.begin())];
}

/// A launch in an operator of its own and its kernel, 10 us after the one before it.
void launch_in_operator(KinetoText& text, std::int64_t number, const char* op, const char* kernel,
                        std::int64_t stream = 7) {
  const std::int64_t at = 10'000 * number;
  text.cpu_op(op, 77, at, 8'000, 100 + number).call("cudaLaunchKernel", 77, at + 1'000, 2'000, number);
  text.kernel(kernel, stream, 200'000 + 20'000 * number, 15'000, number);
}

/// Two products of other data, and a sum that writes into what the first one made.
std::pair<KinetoText, ExecutionText> two_products() {
  std::pair<KinetoText, ExecutionText> out;
  launch_in_operator(out.first, 1, "aten::mm", "gemm_a");
  launch_in_operator(out.first, 2, "aten::mm", "gemm_b");
  launch_in_operator(out.first, 3, "aten::add_", "add");
  out.second.node(2, 1, 101, "aten::mm", kMm, {{10}, {11}}, {{12}});
  out.second.node(3, 1, 102, "aten::mm", kMm, {{10}, {13}}, {{14}});
  out.second.node(4, 1, 103, "aten::add_", kAdd, {{12}, {15}}, {{12}});
  return out;
}

TEST(DataEdges, JoinOperatorsThatShareAStorage) {
  const auto [text, data] = two_products();
  const graph::OpenClass step = imported_class(text, &data);
  EXPECT_EQ(edges_of(step, EdgeSource::data), (EdgeNames{"gemm_a#0>add#0"}));
  EXPECT_EQ(std::ranges::count(step.tasks, true, &graph::OpenTask::data_known), 3);
  EXPECT_TRUE(may_swap(step, KeptOrder::known, "gemm_a#0", "gemm_b#0"));
  EXPECT_TRUE(may_swap(step, KeptOrder::known, "gemm_b#0", "add#0"));
  EXPECT_FALSE(may_swap(step, KeptOrder::known, "gemm_a#0", "add#0"));
  EXPECT_FALSE(may_swap(step, KeptOrder::none, "gemm_a#0", "add#0"));
  EXPECT_FALSE(may_swap(step, KeptOrder::all, "gemm_a#0", "gemm_b#0"));
}

TEST(DataEdges, AreAssumedWithoutAnExecutionTrace) {
  const graph::OpenClass step = imported_class(two_products().first);
  EXPECT_EQ(edges_of(step, EdgeSource::data), EdgeNames{});
  EXPECT_FALSE(may_swap(step, KeptOrder::known, "gemm_a#0", "gemm_b#0"));
  EXPECT_TRUE(may_swap(step, KeptOrder::none, "gemm_a#0", "gemm_b#0"));
  EXPECT_EQ(graph::free_order(step, KeptOrder::none).assumed, 2) << "which is told";
}

TEST(DataEdges, OfReadsBeforeAWriteAndOfTwoWrites) {
  KinetoText text;
  for (std::int64_t i = 1; i <= 4; ++i) launch_in_operator(text, i, "aten::x", ("k" + std::to_string(i)).c_str());
  ExecutionText data;
  data.node(2, 1, 101, "aten::x", "aten::x(Tensor self) -> Tensor", {{10}}, {{12}});
  data.node(3, 1, 102, "aten::x", "aten::x(Tensor self) -> Tensor", {{10}}, {{13}});
  data.node(4, 1, 103, "aten::x", "aten::x(Tensor(a!) self) -> Tensor(a!)", {{10}}, {{10}});
  data.node(5, 1, 104, "aten::x", "aten::x(*, Tensor(a!) out) -> Tensor(a!)", {{10}}, {{10}});
  EXPECT_EQ(edges_of(imported_class(text, &data), EdgeSource::data),
            (EdgeNames{"k1#0>k3#0", "k2#0>k3#0", "k3#0>k4#0"}));
}

TEST(DataEdges, OfANumberThatANewStorageHasAreNone) {
  auto [text, data] = two_products();
  launch_in_operator(text, 4, "aten::mm", "gemm_c");
  data.node(5, 1, 104, "aten::mm", kMm, {{10}, {13}}, {{12}});
  EXPECT_EQ(edges_of(imported_class(text, &data), EdgeSource::data), (EdgeNames{"gemm_a#0>add#0"}));
}

TEST(DataEdges, OfABackwardNodeComeFromItsForwardOperator) {
  KinetoText text;
  launch_in_operator(text, 1, "aten::mm", "forward");
  launch_in_operator(text, 2, "aten::mm", "other");
  launch_in_operator(text, 3, "aten::mm", "backward");
  ExecutionText data;
  data.node(2, 1, 101, "aten::mm", kMm, {{10}, {11}}, {{12}}, 5);
  data.node(3, 1, 102, "aten::mm", kMm, {{10}, {13}}, {{14}}, 6);
  data.node(4, 1, 50, "MmBackward0", "", {}, {}, 5, 1);
  data.node(5, 4, 103, "aten::mm", kMm, {{20}, {21}}, {{22}});
  EXPECT_EQ(edges_of(imported_class(text, &data), EdgeSource::data), (EdgeNames{"forward#0>backward#0"}));
}

/// Two products, and the first one's node in the backward pass, which launches two more.
KinetoText arrow_to_backward() {
  KinetoText text;
  launch_in_operator(text, 1, "aten::mm", "forward");
  launch_in_operator(text, 2, "aten::mm", "other");
  text.cpu_op("autograd::engine::evaluate_function: MmBackward0", 88, 31'000, 30'000, 90);
  text.cpu_op("aten::mm", 88, 32'000, 8'000, 103).call("cudaLaunchKernel", 88, 33'000, 2'000, 3);
  text.kernel("backward_a", 7, 260'000, 15'000, 3);
  text.cpu_op("aten::mm", 88, 42'000, 8'000, 104).call("cudaLaunchKernel", 88, 43'000, 2'000, 4);
  text.kernel("backward_b", 7, 280'000, 15'000, 4);
  return text.arrow(1, 77, 10'000, 88, 31'000);
}

TEST(DataEdges, FollowArrowsToTheBackwardPass) {
  const graph::OpenClass step = imported_class(arrow_to_backward());
  EXPECT_EQ(edges_of(step, EdgeSource::data), (EdgeNames{"forward#0>backward_a#0", "forward#0>backward_b#0"}));
  EXPECT_EQ(std::ranges::count(step.tasks, true, &graph::OpenTask::data_known), 0);
  EXPECT_FALSE(may_swap(step, KeptOrder::none, "forward#0", "backward_b#0"));
  EXPECT_TRUE(may_swap(step, KeptOrder::none, "other#0", "backward_a#0"));
}

TEST(DataEdges, FollowNoArrowsWhereTheExecutionTraceTellsMore) {
  ExecutionText data;
  for (std::int64_t i = 0; i < 4; ++i) data.node(2 + i, 1, 101 + i, "aten::mm", kMm, {{10}, {11}}, {{12 + i}});
  EXPECT_EQ(edges_of(imported_class(arrow_to_backward(), &data), EdgeSource::data), EdgeNames{});
}

TEST(DataEdges, FollowArrowsOfWorkAlone) {
  KinetoText text = arrow_to_backward();
  text.cpu_op("aten::t", 77, 29'000, 500, 70).arrow(2, 77, 29'000, 88, 31'000);  // a view
  text.arrow(3, 77, 20'000, 88, 99'000).arrow(4, 77, 5'000, 88, 31'000);         // from and to nowhere
  EXPECT_EQ(edges_of(imported_class(text), EdgeSource::data).size(), 2U);
}

TEST(DataEdges, KeepWhatOneOperatorLaunchedInOrder) {
  KinetoText text;
  text.cpu_op("aten::linear", 77, 10'000, 30'000, 101).cpu_op("aten::addmm", 77, 11'000, 20'000, 102);
  text.call("cudaLaunchKernel", 77, 12'000, 2'000, 1).kernel("split_k", 7, 100'000, 5'000, 1);
  text.call("cudaLaunchKernel", 77, 16'000, 2'000, 2).kernel("reduce", 7, 106'000, 5'000, 2);
  text.call("cudaLaunchKernel", 77, 35'000, 2'000, 3).kernel("bias", 7, 112'000, 5'000, 3);
  launch_in_operator(text, 5, "aten::relu", "relu");
  const graph::OpenClass step = imported_class(text);
  EXPECT_EQ(edges_of(step, EdgeSource::one_operator), (EdgeNames{"split_k#0>reduce#0", "reduce#0>bias#0"}));
  EXPECT_FALSE(may_swap(step, KeptOrder::none, "split_k#0", "bias#0"));
  EXPECT_TRUE(may_swap(step, KeptOrder::none, "bias#0", "relu#0"));
}

/// Of a trace without operators, as shared in a bug report: the scan of one algorithm was moved before its init.
TEST(DataEdges, KeepAScanAfterItsInitialisation) {
  KinetoText text;
  text.call("cudaLaunchKernel", 1, 6'000, 5'000, 1);
  text.kernel("void cub::DeviceScanInitKernel<X>()", 7, 100'000, 5'000, 1);
  text.call("cudaLaunchKernel", 1, 12'000, 5'000, 2);
  text.kernel("void cub::DeviceScanKernel<X>()", 7, 105'000, 50'000, 2);
  text.call("cudaLaunchKernel", 1, 18'000, 5'000, 3).kernel("gemm_a", 7, 155'000, 100'000, 3);
  text.call("cudaLaunchKernel", 1, 24'000, 5'000, 4);
  text.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", 20, 255'000, 300'000, 4);
  const graph::OpenClass step = imported_class(text);
  for (const KeptOrder kept : {KeptOrder::all, KeptOrder::known, KeptOrder::computations, KeptOrder::none}) {
    EXPECT_FALSE(may_swap(step, kept, "DeviceScanInitKernel#0", "DeviceScanKernel#0")) << to_string(kept);
  }
}

/// The same kind: a product in parts and the sum of its parts, which one cleared buffer holds; copies of two layers.
TEST(DataEdges, KeepASplitProductAfterItsClearedBuffer) {
  KinetoText text;
  const auto at = [&](std::int64_t number, const char* kernel) {
    text.call("cudaLaunchKernel", 1, 6'000 * number, 5'000, number);
    text.kernel(kernel, 7, 100'000 + 20'000 * number, 15'000, number);
  };
  text.mark("layer 1", 1, 5'000, 20'000).mark("layer 2", 1, 25'000, 20'000);
  at(1, "clear"), at(2, "splitK_gemm"), at(3, "splitKreduce_kernel");
  at(5, "copy_a"), at(6, "copy_b");
  const graph::OpenClass step = imported_class(text);
  EXPECT_FALSE(may_swap(step, KeptOrder::none, "clear#0", "splitKreduce_kernel#0"));
  EXPECT_FALSE(may_swap(step, KeptOrder::none, "copy_a#0", "copy_b#0"));
  EXPECT_TRUE(may_swap(step, KeptOrder::none, "splitKreduce_kernel#0", "copy_a#0")) << "marks tell them apart";
}

TEST(DataEdges, OfAnExecutionTraceOfAnotherRecordingAreRefused) {
  const auto [text, data] = two_products();
  ExecutionText other;
  other.node(2, 1, 101, "aten::relu", "aten::relu(Tensor self) -> Tensor", {{10}}, {{12}});
  ExecutionText none;
  none.node(2, 1, 900, "aten::relu", "aten::relu(Tensor self) -> Tensor", {{10}}, {{12}});
  const KinetoText& recorded = text;
  EXPECT_TRUE(testing::refuses([&] { (void)imported_class(recorded, &other); }, {"et.json", "differ in their names"}));
  EXPECT_TRUE(testing::refuses([&] { (void)imported_class(recorded, &none); }, {"none of the step's operators"}));
}

}  // namespace
}  // namespace weft::inspect
