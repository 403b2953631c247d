// Kernels that the end of an NCCL group launches: what they exchange, and whose data.
#include "inspect/import/coalesced_groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "inspect/import/readers/kineto_file.h"
#include "inspect/import/recovered_step.h"
#include "tests/base/messages.h"
#include "tests/inspect/import/execution_text.h"
#include "tests/inspect/import/kineto_text.h"

namespace weft::inspect {
namespace {

using testing::ExecutionText;
using testing::KinetoText;

struct CoalescedStep {
  RecoveredStep step;
  std::vector<graph::OpenChannel> channels;

  const graph::OpenTask& task(const std::string& name) const {
    const auto found = std::ranges::find(step.graph.tasks, name, &graph::OpenTask::name);
    EXPECT_NE(found, step.graph.tasks.end()) << name;
    return *found;
  }
  /// "a>b" of each edge of data.
  std::set<std::string> data_edges() const {
    std::set<std::string> out;
    for (const graph::OpenEdge& edge : step.graph.edges) {
      if (edge.source != graph::EdgeSource::data) continue;
      out.insert(step.graph.tasks[edge.from].name + ">" + step.graph.tasks[edge.to].name);
    }
    return out;
  }
};

CoalescedStep coalesced_step(const KinetoText& text, const ExecutionText* data = nullptr) {
  const std::string content = text.text();
  const TraceOutline outline = parse_kineto_outline(text_source(content), "t.json");
  DeviceTrace trace = parse_kineto_events(text_source(content), outline, std::nullopt);
  if (data != nullptr) trace.data = parse_execution_trace(text_source(data->text()), "et.json");
  TraceChannels channels(2);
  CoalescedStep out{recover_step(trace, std::nullopt, channels), {}};
  out.channels = std::move(channels).channels();
  return out;
}

/// An operator of c10d at a time, with the record in it that tells what it asks for.
void ask(KinetoText& text, std::int64_t at, const char* op, const char* collective, std::int64_t elements) {
  text.cpu_op(op, 77, at, 8'000, at / 1'000);
  text.slice("cpu_op", "record_param_comms", 1000, 77, at + 1'000, 5'000,
             fmt::format(R"("Collective name": "{}", "In msg nelems": {}, "Out msg nelems": {}, "Group size": 4,
                            "dtype": "Float", "Process Group Name": "5", "Process Group Description": "pipeline",
                            "Dst Rank": 1)",
                         collective, elements, elements));
}

void launched(KinetoText& text, std::int64_t at, const char* kernel, std::int64_t stream, std::int64_t begin) {
  text.call("cudaLaunchKernelExC", 77, at, 2'000, at).kernel(kernel, stream, begin, 50'000, at);
}

constexpr const char* kTransfer = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)";

/// A product, whose result is sent while another one's input comes, and that other product.
KinetoText exchange() {
  KinetoText text;
  text.cpu_op("aten::mm", 77, 10'000, 8'000, 10);
  launched(text, 11'000, "gemm_a", 7, 100'000);
  ask(text, 20'000, "c10d::send", "send", 100);
  ask(text, 30'000, "c10d::recv_", "recv", 300);
  launched(text, 40'000, kTransfer, 20, 200'000);
  text.cpu_op("aten::mm", 77, 50'000, 8'000, 50);
  launched(text, 51'000, "gemm_b", 7, 300'000);
  return text;
}

TEST(CoalescedGroups, AreToldByTheOperatorsBeforeTheirLaunch) {
  const CoalescedStep step = coalesced_step(exchange());
  const graph::OpenTask& transfer = step.task("send_receive#0");
  EXPECT_EQ(step.channels.at(static_cast<std::size_t>(transfer.channel)).name, "pipeline");
  EXPECT_EQ(transfer.kind, graph::OpenKind::collective);
  EXPECT_EQ(transfer.network_bytes, 1600) << "both ways";
  EXPECT_TRUE(has_parts(step.step.notes.at(0), {"1 kernels", "end of a group"}));
}

TEST(CoalescedGroups, OfOneOperatorAreWhatItAskedFor) {
  KinetoText text;
  ask(text, 20'000, "c10d::send", "send", 100);
  launched(text, 40'000, kTransfer, 20, 200'000);
  const CoalescedStep alone = coalesced_step(text);
  const graph::OpenTask& sent = alone.task("send#0");
  EXPECT_EQ(sent.kind, graph::OpenKind::send);
  EXPECT_EQ(sent.peer, 1);
  text = KinetoText();
  ask(text, 20'000, "c10d::allreduce_", "allreduce", 100);
  ask(text, 30'000, "c10d::allreduce_", "allreduce", 300);
  launched(text, 40'000, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", 20, 200'000);
  launched(text, 43'000, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", 20, 260'000);
  const CoalescedStep sums = coalesced_step(text);
  EXPECT_EQ(sums.task("all_reduce#0").network_bytes, 2 * 0.75 * 1600);
  EXPECT_EQ(sums.channels.size(), 1U) << "the group has two kernels";
}

TEST(CoalescedGroups, HaveTheDataOfAllTheirOperators) {
  ExecutionText data;
  constexpr const char* kMm = "aten::mm(Tensor self, Tensor mat2) -> Tensor";
  data.node(2, 1, 10, "aten::mm", kMm, {{10}, {11}}, {{12}});
  data.node(3, 1, 20, "c10d::send", "c10d::send(Tensor[] tensors, int dst) -> int", {{12}, {}}, {});
  data.node(4, 1, 30, "c10d::recv_", "c10d::recv_(Tensor[] tensors, int src) -> int", {{20}, {}}, {});
  data.node(5, 1, 50, "aten::mm", kMm, {{20}, {11}}, {{21}});
  const CoalescedStep step = coalesced_step(exchange(), &data);
  EXPECT_EQ(step.data_edges(), (std::set<std::string>{"gemm_a#0>send_receive#0", "send_receive#0>gemm_b#0"}));
  EXPECT_TRUE(step.task("send_receive#0").data_known);
}

TEST(CoalescedGroups, AreNotWhatAnOperatorLaunchesItself) {
  KinetoText text;
  ask(text, 20'000, "c10d::send", "send", 100);
  launched(text, 26'500, kTransfer, 20, 200'000);
  launched(text, 40'000, kTransfer, 20, 300'000);
  const CoalescedStep step = coalesced_step(text);
  EXPECT_EQ(step.channels.size(), 1U);
  EXPECT_EQ(step.channels[0].name, "stream 20 (inferred)") << "nothing tells the group of either";
}

}  // namespace
}  // namespace weft::inspect
