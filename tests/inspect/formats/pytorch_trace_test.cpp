// A recording as PyTorch's profiler would have written it.
#include "inspect/formats/pytorch_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "inspect/import/execution_trace.h"
#include "tests/base/messages.h"

namespace weft::inspect {
namespace {

using nlohmann::json;

/// Two steps of two ranks: a product, a sum of it over "data", and an update that waits for the sum and, in the next
/// step, is awaited by the product.
plan::Recording recording() {
  plan::Recording out;
  out.world = 2;
  out.grid = graph::Grid{.data = 2};
  out.streams = {{"compute0"}, {"data", false}};
  out.tasks = {{.name = "L1.gemm", .kind = "gemm", .phase = graph::Phase::backward, .layer = 1, .micro_batch = 0},
               {.name = "L1.sum",
                .kind = "all_reduce",
                .stream = 1,
                .phase = graph::Phase::backward,
                .layer = 1,
                .micro_batch = 0,
                .network_bytes = 4000,
                .channel = "data",
                .group_size = 2},
               {.name = "adam", .kind = "adamw", .phase = graph::Phase::update}};
  out.edges = {{0, 1}, {1, 2}, {2, 0, graph::EdgeKind::completes_before, graph::EdgeReason::write_after_read, 1}};
  for (int rank = 0; rank < 2; ++rank) {
    plan::RecordedRank& one = out.ranks.emplace_back();
    one.rank = rank;
    for (std::int64_t step = 4; step < 6; ++step) {
      const std::int64_t begin = step * 100'000;
      one.steps.push_back(
          {step,
           begin,
           begin + 90'000,
           {{begin, begin + 30'000}, {begin + 30'000, begin + 70'000}, {begin + 70'000, begin + 90'000}}});
    }
  }
  return out;
}

json written(const PytorchTraceOptions& options, std::size_t index = 0) {
  std::string text;
  write_pytorch_trace(recording(), index, options, [&](std::string_view piece) { text += piece; });
  return json::parse(text);
}

std::vector<json> events_of(const json& trace, const std::string& category) {
  std::vector<json> out;
  for (const json& event : trace.at("traceEvents")) {
    if (event.value("cat", "") == category) out.push_back(event);
  }
  return out;
}

TEST(PytorchTrace, HoldsNothingOfThePlan) {
  const json trace = written({}, 1);
  EXPECT_FALSE(trace.contains("weft"));
  EXPECT_EQ(trace.at("distributedInfo").at("rank"), 1);
  EXPECT_EQ(trace.at("distributedInfo").at("world_size"), 2);
  EXPECT_EQ(trace.at("distributedInfo").at("pg_config").at(0).at("ranks"), json({0, 1}));
  std::map<std::string, int> categories;
  for (const json& event : trace.at("traceEvents")) ++categories[event.value("cat", "")];
  EXPECT_EQ(categories.size(), 4U);  // "" are names of rows
  EXPECT_EQ(categories["kernel"], 6);
  EXPECT_EQ(categories["user_annotation"], 2 + 4) << "steps and their passes";
  EXPECT_TRUE(events_of(trace, "cuda_sync").empty());
}

TEST(PytorchTrace, LaunchesInThePlansOrderWithTheWaitsBetweenStreams) {
  std::vector<std::string> names;
  std::map<std::int64_t, double> called;
  for (const json& call : events_of(written({}), "cuda_runtime")) {
    names.push_back(call.at("name"));
    called[call.at("args").at("correlation")] = call.at("ts");
  }
  const std::vector<std::string> step = {"cudaLaunchKernel",    "cudaEventRecord", "cudaStreamWaitEvent",
                                         "cudaLaunchKernelExC", "cudaEventRecord", "cudaStreamWaitEvent",
                                         "cudaLaunchKernel"};
  ASSERT_EQ(names.size(), 2 * step.size());
  EXPECT_TRUE(std::equal(step.begin(), step.end(), names.begin()));
  for (const json& kernel : events_of(written({}), "kernel")) {
    const double launch = called.at(kernel.at("args").at("correlation"));
    EXPECT_LT(launch, kernel.at("ts").get<double>()) << kernel.at("name");
  }
}

TEST(PytorchTrace, KernelsHaveStreamsAndCollectivesTheirArguments) {
  const std::vector<json> kernels = events_of(written({}), "kernel");
  EXPECT_EQ(kernels[0].at("name"), "L1.gemm");
  EXPECT_EQ(kernels[0].at("args").at("stream"), 7);
  EXPECT_EQ(kernels[0].at("dur"), 30.0);
  const json& sum = kernels[1];
  EXPECT_EQ(sum.at("name"), "ncclDevKernel_AllReduce(L1.sum)");
  EXPECT_EQ(sum.at("args").at("stream"), 8);
  EXPECT_EQ(sum.at("args").at("Collective name"), "all_reduce");
  EXPECT_EQ(sum.at("args").at("In msg nelems"), 4000) << "two ranks send half of it twice";
  EXPECT_EQ(sum.at("args").at("Group size"), 2);
  EXPECT_EQ(sum.at("args").at("Process Group Ranks"), "[0, 1]");
}

TEST(PytorchTrace, RecordsOfWaitsNameTheRecordedEvent) {
  const json trace = written({.sync_records = true});
  const std::vector<json> records = events_of(trace, "cuda_sync"), calls = events_of(trace, "cuda_runtime");
  ASSERT_EQ(records.size(), 4U);
  EXPECT_EQ(records[0].at("args").at("stream"), 8);
  EXPECT_EQ(records[0].at("args").at("wait_on_stream"), 7);
  EXPECT_EQ(records[0].at("args").at("wait_on_cuda_event_record_corr_id"), calls[1].at("args").at("correlation"));
  EXPECT_EQ(records[0].at("args").at("correlation"), calls[2].at("args").at("correlation"));
}

TEST(PytorchTrace, RefusesWorkOfCpuThreads) {
  plan::Recording local = recording();
  local.streams[0].local = true;
  EXPECT_TRUE(
      refuses([&] { write_pytorch_trace(local, 0, {}, [](std::string_view) {}); }, {"compute0", "--format chrome"}));
}

TEST(PytorchTrace, HasAnExecutionTraceBesideIt) {
  std::string text;
  write_execution_trace(recording(), 0, [&](std::string_view piece) { text += piece; });
  const ExecutionTrace data = parse_execution_trace(text_source(text), "execution_0.json");
  const json trace = written({.operators = true});
  const std::vector<json> operators = events_of(trace, "cpu_op");
  ASSERT_EQ(operators.size(), 6U) << "three tasks of two steps";
  ASSERT_EQ(data.operators.size(), 7U) << "and the process";
  const auto uses = [&](std::size_t index) {
    std::map<std::int64_t, StorageUse> out;
    for (const StorageAccess& access : data.operators.at(index).accesses) out[access.storage] = access.use;
    return out;
  };
  using Uses = std::map<std::int64_t, StorageUse>;
  EXPECT_EQ(uses(1), (Uses{{1, StorageUse::make}}));
  EXPECT_EQ(uses(2), (Uses{{1, StorageUse::read}, {2, StorageUse::make}}));
  EXPECT_EQ(uses(3), (Uses{{2, StorageUse::read}, {3, StorageUse::make}}));
  for (std::size_t i = 0; i < operators.size(); ++i) {
    EXPECT_EQ(operators[i].at("args").at("Record function id"), data.operators[i + 1].record_function);
    EXPECT_EQ(operators[i].at("name"), data.operators[i + 1].name);
  }
}

}  // namespace
}  // namespace weft::inspect
