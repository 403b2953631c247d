// Databases of Nsight Systems, made by hand with the tables and columns that nsys exports.
#include "inspect/import/readers/nsight_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"
#include "inspect/import/trace_import.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"

namespace weft::inspect {
namespace {

constexpr std::int64_t kPid = 4242;

const testing::TemporaryFolder& database_folder() {
  static const testing::TemporaryFolder folder;
  return folder;
}

std::filesystem::path database_of(const std::string& name, const std::string& statements) {
  std::filesystem::path path = database_folder().path("weft_nsight_" + name);
  std::filesystem::remove(path);
  sqlite3* database = nullptr;
  EXPECT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(database, statements.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
      << sqlite3_errmsg(database);
  sqlite3_close(database);
  return path;
}

constexpr const char* kTables = R"(
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, contextId INT, streamId INT, correlationId INT,
  globalPid INT, demangledName INT, shortName INT);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INT, end INT, deviceId INT, contextId INT, streamId INT, correlationId INT,
  globalPid INT, bytes INT, copyKind INT);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, eventClass INT, globalTid INT, correlationId INT, nameId INT,
  returnValue INT);
CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INT, end INT, deviceId INT, contextId INT, streamId INT,
  correlationId INT, globalPid INT, syncType INT, eventId INT);
CREATE TABLE CUPTI_ACTIVITY_KIND_CUDA_EVENT (deviceId INT, contextId INT, streamId INT, correlationId INT, globalPid INT,
  eventId INT);
CREATE TABLE NVTX_EVENTS (start INT, end INT, eventType INT, text TEXT, globalTid INT, textId INT);
INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'ncclDevKernel_AllReduce_Sum_f32'), (3, 'cudaLaunchKernel_v7000'),
  (4, 'cudaEventRecord_v3020'), (5, 'cudaStreamWaitEvent_v3020'), (6, 'forward');
)";

/// A kernel on stream 7, a collective on stream 20 that waits for it, and a kernel on stream 7 that waits for nothing.
std::string process_rows(std::int64_t pid, int device) {
  const std::int64_t process = pid << 24, thread = process | 9;
  std::string out;
  const auto call = [&](std::int64_t begin, int correlation, int name) {
    out += fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES ({}, {}, 0, {}, {}, {}, 0);\n", begin,
                       begin + 2000, thread, correlation, name);
  };
  const auto kernel = [&](std::int64_t begin, std::int64_t end, int stream, int correlation, int name) {
    out += fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({}, {}, {}, 1, {}, {}, {}, {}, {});\n", begin,
                       end, device, stream, correlation, process, name, name);
  };
  call(10'000, 1, 3), kernel(15'000, 60'000, 7, 1, 1);
  call(20'000, 2, 4), call(23'000, 3, 5), call(26'000, 4, 3), kernel(61'000, 90'000, 20, 4, 2);
  call(30'000, 5, 3), kernel(60'000, 70'000, 7, 5, 1);
  out += fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_CUDA_EVENT VALUES ({}, 1, 7, 2, {}, 33);\n", device, process);
  out +=
      fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (23500, 23600, {}, 1, 20, 3, {}, 2, 33);\n",
                  device, process);
  out += fmt::format(
      "INSERT INTO NVTX_EVENTS VALUES (5000, 100000, 59, 'step 3', {}, NULL), (6000, 50000, 59, NULL, {}, 6);\n",
      thread, thread);
  return out;
}

TEST(NsightFile, HoldsStepsOfEveryProcess) {
  const auto path = database_of("two.sqlite", kTables + process_rows(kPid, 1) + process_rows(kPid + 1, 0));
  const std::vector<TraceOutline> outlines = read_nsight_outlines(path);
  ASSERT_EQ(outlines.size(), 2U);
  EXPECT_EQ(outlines[0].steps.at(0).number, 3);
  EXPECT_EQ(outlines[0].steps.at(0).window.end, 100'000);
  const DeviceTrace trace = read_nsight_events(path, 1, outlines[1], outlines[1].steps[0]);
  ASSERT_EQ(trace.ops.size(), 3U);
  EXPECT_EQ(trace.ops[0].device, 1);
  EXPECT_EQ(trace.ops[0].correlation, 1);
  EXPECT_EQ(trace.names.text(trace.ops[2].name), "ncclDevKernel_AllReduce_Sum_f32");
  EXPECT_EQ(trace.calls.size(), 5U);
  EXPECT_EQ(trace.calls[2].kind, HostCallKind::wait);
  ASSERT_EQ(trace.syncs.size(), 1U);
  EXPECT_EQ(trace.syncs[0].record_correlation, 2);
  EXPECT_EQ(trace.syncs[0].wait_on_stream, 7);
  ASSERT_EQ(trace.marks.size(), 1U);
  EXPECT_EQ(trace.names.text(trace.marks[0].name), "forward");
}

TEST(NsightFile, FindsMarksInTablesOfAnySuffix) {
  std::string text = kTables + process_rows(kPid, 0);
  for (std::size_t at = 0; (at = text.find("NVTX_EVENTS ", at)) != std::string::npos;)
    text.replace(at, 11, "NVTX_EVENTS_2024_5");
  text += "CREATE TABLE NVTX_EVENTS_DOMAINS (domainId INT, name TEXT);";
  const std::vector<TraceOutline> outlines = read_nsight_outlines(database_of("suffix.sqlite", text));
  ASSERT_EQ(outlines.at(0).steps.size(), 1U);
  EXPECT_EQ(outlines[0].steps[0].number, 3);
}

TEST(NsightFile, DevicesOfOneProcessAreRanks) {
  const auto path = database_of("devices.sqlite", kTables + process_rows(kPid, 2) + process_rows(kPid, 5));
  const std::vector<TraceOutline> outlines = read_nsight_outlines(path);
  ASSERT_EQ(outlines.size(), 2U);
  const DeviceTrace trace = read_nsight_events(path, 1, outlines[1], outlines[1].steps.at(0));
  EXPECT_EQ(trace.ops.size(), 3U);
  for (const DeviceOp& op : trace.ops) EXPECT_EQ(op.device, 5);
}

TEST(NsightFile, IsImported) {
  const auto path = database_of("one.sqlite", kTables + process_rows(kPid, 0));
  ASSERT_EQ(trace_format(path), "nsight");
  const ImportedTrace imported = import_traces({path}, "nsight", {});
  graph::check(imported.graph);
  EXPECT_EQ(imported.graph.source, "nsight");
  EXPECT_EQ(imported.ranks.at(0).edges[static_cast<std::size_t>(graph::EdgeSource::synchronisation)], 1);
  EXPECT_EQ(imported.ranks.at(0).edges[static_cast<std::size_t>(graph::EdgeSource::launch)], 3);
  EXPECT_EQ(imported.ranks.at(0).recorded_ns, 95'000);
  EXPECT_EQ(imported.graph.classes[0].tasks.back().operation, "all_reduce");
  const auto gemm = std::ranges::find(imported.graph.classes[0].tasks, "gemm#0", &graph::OpenTask::name);
  EXPECT_EQ(gemm->phase, graph::Phase::forward);
}

// A view may have rows without an end.
TEST(NsightFile, CodeInADatabaseIsRefused) {
  const std::string tables = kTables + process_rows(kPid, 0);
  struct Wrong {
    const char *statements, *part;
  };
  for (const Wrong& wrong :
       {Wrong{"DROP TABLE NVTX_EVENTS; CREATE VIEW NVTX_EVENTS AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i "
              "FROM n) SELECT i AS start, i AS end, 59 AS eventType, 'x' AS text, 1 AS globalTid FROM n;",
              "view 'NVTX_EVENTS'"},
        Wrong{"CREATE VIEW other AS SELECT 1;", "view 'other'"},
        Wrong{"CREATE  VIRTUAL  TABLE words USING fts5(text);", "'words"},
        Wrong{"CREATE TABLE more (a INT, b INT GENERATED ALWAYS AS (length(zeroblob(a))) VIRTUAL);",
              "generated column 'more.b'"},
        Wrong{"CREATE TABLE more (a INT, b INT AS (a * 2) STORED);", "generated column 'more.b'"},
        Wrong{"CREATE TRIGGER fires AFTER INSERT ON StringIds BEGIN DELETE FROM StringIds; END;", "trigger 'fires'"}}) {
    const auto path = database_of("code.sqlite", tables + wrong.statements);
    const std::string message = testing::message_of<UserError>([&] { read_nsight_outlines(path); });
    EXPECT_TRUE(has_parts(message, {wrong.part, "nsys export"})) << message;
  }
}

TEST(NsightFile, RefusesWhatItCannotRead) {
  const auto refusal = [](const std::filesystem::path& path) {
    return testing::message_of<UserError>([&] { read_nsight_outlines(path); });
  };
  EXPECT_TRUE(has_parts(refusal(database_of("none.sqlite", "CREATE TABLE x (a INT);")),
                        {"weft_nsight_none.sqlite", "no table of kernels", "nsys export"}));
  const auto path = database_of("cut.sqlite", kTables + process_rows(kPid, 0));
  std::filesystem::resize_file(path, 5000);
  EXPECT_TRUE(has_parts(refusal(path), {"weft_nsight_cut.sqlite", "nsys export"}));
  std::ofstream(path) << "SQLite format 3, but no database";
  EXPECT_TRUE(has_parts(refusal(path), {"nsys export"}));
  EXPECT_NE(refusal(database_folder().path("missing.sqlite")), "");
}

}  // namespace
}  // namespace weft::inspect
