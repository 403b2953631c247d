// Files of one or many ranks, from their format to the report.
#include "inspect/import/trace_import.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "inspect/formats/graph_file.h"
#include "inspect/formats/protobuf.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/inspect/import/kineto_text.h"

namespace weft::inspect {
namespace {

using testing::KinetoText;

const testing::TemporaryFolder& import_folder() {
  static const testing::TemporaryFolder folder;
  return folder;
}

std::filesystem::path written(const std::string& name, const std::string& text) {
  return import_folder().write("weft_import_" + name, text);
}

/// Two steps of two ranks: rank 1 computes for longer, its clock shows 7 ms more, and rank 0 waits in the collective.
KinetoText rank_of_two(std::int64_t rank, std::int64_t world) {
  KinetoText text;
  text.info = fmt::format(R"("rank": {}, "world_size": {}, "pg_config": [{{"pg_name": "0", "pg_desc": "default_pg",
                          "pg_size": {}}}])",
                          rank, world, world);
  for (std::int64_t i = 0; i < 2; ++i) {
    const std::int64_t begin = i * 1'000'000 + rank * 7'000'000, first = rank == 0 ? 100'000 : 300'000;
    text.step(i, 77, begin, 1'000'000);
    text.call("cudaLaunchKernel", 77, begin + 10'000, 2'000, 10 * i);
    text.kernel("gemm", 7, begin + 20'000, first, 10 * i);
    text.call("cudaEventRecord", 77, begin + 30'000, 500, 10 * i + 1);
    text.call("cudaStreamWaitEvent", 77, begin + 31'000, 500, 10 * i + 2);
    text.call("cudaLaunchKernelExC", 77, begin + 40'000, 2'000, 10 * i + 3);
    text.kernel("ncclDevKernel_AllReduce", 40, begin + 20'000 + first, 400'000 - first, 10 * i + 3,
                R"(, "Process Group Name": "0")");
    text.call("cudaDeviceSynchronize", 77, begin + 50'000, 380'000, 10 * i + 4);
  }
  return text;
}

TEST(TraceImport, JoinsRanks) {
  const std::vector<std::filesystem::path> files = {written("b.json", rank_of_two(1, 2).text()),
                                                    written("a.json", rank_of_two(0, 2).text())};
  const ImportedTrace imported = import_traces(files, trace_format(files[0]), {});
  graph::check(imported.graph);
  ASSERT_EQ(imported.ranks.size(), 2U);
  EXPECT_EQ(imported.ranks[0].rank, 0);
  EXPECT_EQ(imported.ranks[1].step, 0);
  EXPECT_EQ(imported.graph.classes[1].name, "rank 1");
  EXPECT_EQ(imported.matched, 1);
  EXPECT_EQ(imported.unmatched, 0);
  EXPECT_EQ(imported.absent_ranks, 0);
  const auto reduce = std::ranges::find(imported.graph.classes[0].tasks, "all_reduce#0", &graph::OpenTask::name);
  EXPECT_EQ(reduce->ns, 100'000) << "without the wait for rank 1";
  EXPECT_EQ(reduce->end_ns, 420'000);
  for (const ImportedRank& rank : imported.ranks) {
    EXPECT_EQ(rank.recorded_ns, 1'000'000);
    EXPECT_EQ(rank.replayed_ns, 1'000'000);
  }
  EXPECT_EQ(imported.ranks[0].path.waiting_for_ranks, 200'000);
  EXPECT_EQ(imported.ranks[1].path.waiting_for_ranks, 0);
  EXPECT_EQ(imported.graph.notes.size(), 2U) << "what was guessed on each rank";
}

/// Both devices of a process: a thread drives each, and they meet in all-reduces.
KinetoText two_devices() {
  KinetoText text;
  text.info = R"("backend": "nccl")";
  for (std::int64_t i = 0; i < 4; ++i) {
    for (std::int64_t device = 0; device < 2; ++device) {
      const std::int64_t id = 2 * i + device + 1;
      text.call("cudaLaunchKernel", 1 + device, id * 10'000, 5'000, id);
      text.slice("kernel", i % 2 == 0 ? "gemm" : "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", device, 7,
                 200'000 + i * 100'000, 100'000,
                 fmt::format(R"("device": {}, "stream": 7, "correlation": {})", device, id));
    }
  }
  return text;
}

TEST(TraceImport, TakesDevicesOfOneFileAsRanks) {
  const ImportedTrace imported = import_traces({written("two.json", two_devices().text())}, "kineto", {});
  graph::check(imported.graph);
  ASSERT_EQ(imported.ranks.size(), 2U);
  EXPECT_EQ(imported.ranks[1].rank, 1);
  EXPECT_EQ(imported.matched, 2);
  for (const ImportedRank& rank : imported.ranks) {
    EXPECT_EQ(rank.device_tasks, 4);
    EXPECT_EQ(rank.host_tasks, 8) << "calls of its own thread, and what it did after each";
    EXPECT_NEAR(rank.error_percent(), 0, 2);
  }
  EXPECT_TRUE(std::ranges::any_of(imported.graph.notes, [](const std::string& note) {
    return note.find("work of 2 devices") != std::string::npos;
  }));
  // A copy that names the other device makes no rank.
  KinetoText one = rank_of_two(0, 2);
  one.slice("gpu_memcpy", "Memcpy PtoP", 1, 9, 50'000, 1'000, R"("device": 1, "stream": 9, "correlation": 3)");
  EXPECT_EQ(import_traces({written("peer.json", one.text())}, "kineto", {}).ranks.size(), 1U);
}

/// Kernels of 150 us, each 50 us before the last one's end, on streams of their own.
ImportedTrace kernels_named(const std::vector<std::string>& names) {
  KinetoText text;
  text.info = R"("rank": 0, "world_size": 8)";
  for (std::int64_t i = 0; i < std::ssize(names); ++i) {
    text.call("cudaLaunchKernel", 1, i * 10'000, 5'000, i + 1);
    text.kernel(names[static_cast<std::size_t>(i)], 7 + i, 20'000 + i * 100'000, 150'000, i + 1);
  }
  return import_traces({written("names.json", text.text())}, "kineto", {});
}

TEST(TraceImport, KnowsExchangesOfExpertsAndCustomAllReduces) {
  const ImportedTrace imported = kernels_named(
      {"void deep_ep::internode::dispatch<false, 8>(int4*)", "gemm_kernel", "void nvshmem_alltoall_kernel(int)",
       "gemm_kernel2", "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(int)", "multimem_all_reduce_kernel",
       "void trtllm::allreduce_fusion_kernel_oneshot_lamport<8>(int)"});
  EXPECT_EQ(imported.ranks[0].overlap.communicating, 650'000);
  EXPECT_EQ(imported.ranks[0].overlap.computing, 300'000);
  std::vector<std::string> collectives;
  for (const graph::OpenTask& task : imported.graph.classes[0].tasks) {
    if (task.kind == graph::OpenKind::collective) collectives.push_back(task.name);
  }
  EXPECT_EQ(collectives,
            (std::vector<std::string>{"all_to_all#0", "all_to_all#1", "all_reduce#0", "all_reduce#1", "all_reduce#2"}));
  const ImportedTrace doubtful = kernels_named({"gemm", "void my::fused_gemm_allreduce<4>(int)"});
  EXPECT_EQ(doubtful.ranks[0].overlap.communicating, 0);
  EXPECT_TRUE(std::ranges::any_of(doubtful.graph.notes, [](const std::string& note) {
    return has_parts(note, {"1 kernels count as computing", "'fused_gemm_allreduce'", "--communication"});
  }));
}

TEST(TraceImport, KeepsKernelsOfOneTemplateApart) {
  const ImportedTrace imported = kernels_named({"void cutlass::device_kernel<flash::FlashAttnBwd<X> >(P)",
                                                "void cutlass::device_kernel<GemmKernel<Y> >(P)",
                                                "void cutlass::device_kernel<flash::FlashAttnBwd<X> >(P)"});
  std::vector<std::string> names;
  for (const graph::OpenTask& task : imported.graph.classes[0].tasks) {
    if (task.kind == graph::OpenKind::compute) names.push_back(task.name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"device_kernel<FlashAttnBwd>#0", "device_kernel<GemmKernel>#0",
                                             "device_kernel<FlashAttnBwd>#1"}));
}

TEST(TraceImport, LeavesOutAHostWhoseTimesAreMadeUp) {
  std::string text = rank_of_two(0, 8).text();
  text.insert(text.find("\"schemaVersion\""), "\"weftMadeUpHostTimes\": true, ");
  const ImportedTrace imported = import_traces({written("made_up.json", text)}, "kineto", {.number = 1});
  const ImportedRank& rank = imported.ranks.at(0);
  EXPECT_EQ(rank.host_tasks, 0);
  EXPECT_EQ(rank.path.host, 0);
  EXPECT_EQ(rank.edges[static_cast<std::size_t>(graph::EdgeSource::pairing)], 1) << "the order of calls is no time";
  EXPECT_EQ(rank.recorded_ns, 400'000) << "marks of steps are made up, too";
  EXPECT_EQ(rank.replayed_ns, 400'000);
  EXPECT_TRUE(std::ranges::any_of(imported.graph.notes,
                                  [](const std::string& note) { return note.find("made up") != std::string::npos; }));
}

TEST(TraceImport, NamesCallsOnWhichRanksDisagree) {
  const std::string first = rank_of_two(0, 2).text();
  std::string second = rank_of_two(1, 2).text();
  for (std::size_t at = 0; (at = second.find("AllReduce", at)) != std::string::npos;)
    second.replace(at, 9, "AllGather");
  const ImportedTrace imported = import_traces({written("d0.json", first), written("d1.json", second)}, "kineto", {});
  EXPECT_TRUE(std::ranges::any_of(imported.graph.notes, [](const std::string& note) {
    return has_parts(note, {"Call 0 of group", "'all_reduce#0'", "on rank 0", "'all_gather#0'", "on rank 1"});
  }));
}

TEST(TraceImport, CountsKernelsThatAPersonCallsCommunication) {
  KinetoText text = rank_of_two(0, 2);
  text.call("cudaLaunchKernel", 77, 1'045'000, 1'000, 40)
      .kernel("void my::ring_exchange<4>(int)", 9, 1'430'000, 50'000, 40);
  const auto file = written("mine.json", text.text());
  StepChoice choice{.number = 1};
  EXPECT_EQ(import_traces({file}, "kineto", choice).ranks[0].overlap.communicating, 300'000);
  choice.communication = {parse_communication_rule("ring_exchange=all_to_all")};
  const ImportedTrace imported = import_traces({file}, "kineto", choice);
  EXPECT_EQ(imported.ranks[0].overlap.communicating, 350'000);
  const auto& tasks = imported.graph.classes[0].tasks;
  const auto task = std::ranges::find(tasks, "all_to_all#0", &graph::OpenTask::name);
  ASSERT_NE(task, tasks.end());
  EXPECT_EQ(task->kind, graph::OpenKind::collective);
  EXPECT_GE(task->channel, 0);
}

TEST(TraceImport, SaysWhoStandsInForAbsentRanks) {
  const auto file = written("one.json", rank_of_two(0, 8).text());
  const ImportedTrace imported = import_traces({file}, "kineto", {.number = 1});
  EXPECT_EQ(imported.graph.world, 8);
  EXPECT_EQ(imported.absent_ranks, 7);
  EXPECT_EQ(imported.ranks[0].step, 1);
  EXPECT_TRUE(has_parts(imported.graph.notes.back(), {"7 of 8 ranks have no trace", "stands in"}));
  const std::string text = styled_import(imported, std::nullopt).plain();
  EXPECT_TRUE(has_parts(text, {"kineto trace of 1 of 8 ranks", "recorded ms", "1.000", "+0.00 %", "bound by the host",
                               "pairing", "7 of 8 ranks"}));
  EXPECT_TRUE(has_parts(import_json(imported).text(),
                        {"\"recorded_ns\":1000000", "\"absent_ranks\":7", "\"pairing\":1", "\"launch\":2"}));
  const graph::OpenGraph& graph = imported.graph;
  const auto path = import_folder().path("weft_import.graph.json");
  write_graph_file(path, graph);
  EXPECT_EQ(read_graph_file(path).classes[0].edges.size(), graph.classes[0].edges.size());
}

// Well-formed files, each of which a reader might take for a file that names no rank, or for one of another run.
TEST(TraceImport, RefusesRanksAndWorldsThatContradictEachOther) {
  const auto of = [](const std::string& name, const std::string& info) {
    KinetoText text = rank_of_two(0, 2);
    text.info = info;
    return written(name, text.text());
  };
  const auto first = written("first.json", rank_of_two(0, 2).text());
  struct Wrong {
    std::vector<std::filesystem::path> files;
    std::vector<std::string> parts;
  };
  for (const Wrong& wrong : std::vector<Wrong>{
           {{of("w1.json", R"("rank": -1, "world_size": 2)")}, {"w1.json", "distributedInfo.rank is -1"}},
           {{of("w2.json", R"("rank": "-3", "world_size": 2)")}, {"w2.json", "distributedInfo.rank is -3"}},
           {{of("w3.json", R"("rank": 99999999, "world_size": 2)")}, {"w3.json", "distributedInfo.rank is 99999999"}},
           {{of("w4.json", R"("rank": 2, "world_size": 2)")}, {"w4.json", "rank 2 of 2"}},
           {{of("w5.json", R"("world_size": 2, "rank": 5)")}, {"w5.json", "rank 5 of 2"}},
           {{of("w6.json", R"("rank": 0, "world_size": 0)")}, {"w6.json", "distributedInfo.world_size is 0"}},
           {{of("w7.json", R"("rank": 0, "world_size": -2)")}, {"w7.json", "distributedInfo.world_size is -2"}},
           {{first, written("w8.json", rank_of_two(1, 4).text())}, {"first.json' is of 2", "w8.json' of 4"}},
           {{first, written("w9.json", rank_of_two(0, 2).text())}, {"both of rank 0"}}}) {
    EXPECT_TRUE(refuses([&] { import_traces(wrong.files, "kineto", {}); }, wrong.parts));
  }
  // A file that tells nothing of the world may stand beside one that does.
  const auto quiet = of("quiet.json", R"("backend": "nccl", "rank": null)");
  const ImportedTrace imported = import_traces({first, quiet}, "kineto", {});
  EXPECT_EQ(imported.graph.world, 2);
  EXPECT_EQ(imported.ranks.at(1).rank, 1);
}

TEST(TraceImport, TakesARangeOfTime) {
  const auto file = written("range.json", rank_of_two(0, 8).text());
  const ImportedTrace marked = import_traces({file}, "kineto", {.number = 1});
  // The second step begins 1 ms after the first, whose mark is the file's first event.
  const ImportedTrace ranged = import_traces({file}, "kineto", {.range = TimeWindow{1'000'000, 2'000'000}});
  EXPECT_FALSE(ranged.ranks[0].step.has_value());
  EXPECT_EQ(ranged.ranks[0].device_tasks, marked.ranks[0].device_tasks);
  EXPECT_EQ(ranged.ranks[0].edges[static_cast<std::size_t>(graph::EdgeSource::pairing)], 1);
  // It lasts from the first call to the end of the last one, and not as long as the range.
  EXPECT_EQ(ranged.ranks[0].recorded_ns, 430'000 - 10'000);
  EXPECT_NEAR(ranged.ranks[0].error_percent(), 0, 0.01);
  const ImportedTrace first = import_traces({file}, "kineto", {.range = TimeWindow{0, 30'000}});
  EXPECT_EQ(first.ranks[0].device_tasks, 1) << "the collective was launched after 40 us";
  EXPECT_TRUE(refuses(
      [&] {
        import_traces({file}, "kineto", {.range = TimeWindow{9'000'000'000, 9'500'000'000}});
      },
      {"range.json", "in this range", "--from-ms"}));
}

TEST(TraceImport, KnowsFormatsByTheirFirstBytes) {
  EXPECT_EQ(trace_format(written("f", " \n{\"traceEvents\": []}")), "kineto");
  EXPECT_EQ(trace_format(written("f", "[]")), "kineto");
  EXPECT_EQ(trace_format(written("f", std::string("SQLite format 3\0", 16))), "nsight");
  EXPECT_EQ(trace_format(written("f", ProtoMessage().text(1, "0.0.4").delimited())), "chakra");
  EXPECT_EQ(trace_format(written("f", ProtoMessage().text(1, std::string(121, 'x')).delimited())), "chakra");
  EXPECT_THROW(trace_format(import_folder().path("missing")), UserError);
}

TEST(TraceImport, InfersMembersOfChakrasGroups) {
  std::vector<std::filesystem::path> files;
  for (int rank = 0; rank < 2; ++rank) {
    const auto attribute = [](std::string_view name, std::uint32_t field, std::uint64_t value) {
      return std::string(ProtoMessage().text(1, name).varint(field, value).bytes());
    };
    ProtoMessage node;
    node.varint(1, 1).text(2, "gather").varint(3, 7).varint(7, 10 + 5 * static_cast<std::uint64_t>(rank));
    node.text(10, attribute("comm_type", 9, 2)).text(10, attribute("comm_size", 9, 1000));
    files.push_back(
        written(fmt::format("chakra.{}.et", rank), ProtoMessage().text(1, "0.0.4").delimited() + node.delimited()));
  }
  const ImportedTrace imported = import_traces(files, trace_format(files[0]), {});
  EXPECT_EQ(imported.graph.source, "chakra");
  EXPECT_EQ(imported.matched, 1);
  EXPECT_EQ(imported.graph.channels.at(0).groups, (std::vector<std::vector<std::int64_t>>{{0, 1}}));
  EXPECT_EQ(imported.graph.classes[1].tasks[0].ns, 10'000);
  EXPECT_EQ(imported.graph.classes[1].tasks[0].network_bytes, 1000);
}

TEST(TraceImport, RefusesFilesThatDontBelongTogether) {
  const auto a = written("same.json", rank_of_two(0, 2).text()), b = written("again.json", rank_of_two(0, 2).text());
  const auto refused = [](const std::vector<std::filesystem::path>& files, const char* format, const StepChoice& choice,
                          std::initializer_list<std::string_view> parts) {
    EXPECT_TRUE(refuses([&] { import_traces(files, format, choice); }, parts));
  };
  refused({a, b}, "kineto", {}, {"same.json", "again.json", "both of rank 0"});
  refused({a}, "kineto", {.number = 9}, {"same.json", "no step 9"});
  refused({a}, "chakra", {.number = 9}, {"mark no steps"});
}

}  // namespace
}  // namespace weft::inspect
