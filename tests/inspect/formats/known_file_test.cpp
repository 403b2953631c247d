// Files of other programs are told by their first bytes, and each command names the one that reads them.
#include "inspect/formats/known_file.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"

namespace weft::inspect {
namespace {

std::filesystem::path file_with(const std::string& text) {
  static const testing::TemporaryFolder folder;
  return folder.write("weft_known_file.json", text);
}

const std::string kJax = R"({"displayTimeUnit": "ns", "metadata": {"highres-ticks": true}, "traceEvents": [
  {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "/device:GPU:0"}},
  {"ph": "X", "pid": 1, "tid": 1, "ts": 0, "dur": 100, "name": "loop_fusion", "args": {"hlo_op": "loop_fusion"}}]})";
const std::string kTensorFlow = R"({"traceEvents": [
  {"ph": "M", "name": "process_name", "pid": 3, "args": {"name": "/device:GPU:0"}},
  {"ph": "M", "name": "thread_name", "pid": 3, "tid": 2, "args": {"name": "TensorFlow Ops"}}]})";
const std::string kExecution = R"({"schema": "1.1.1-chakra.0.0.4", "pid": 7, "time": "2024", "nodes": [{"id": 1,
  "name": "[pytorch|profiler|execution_trace|process]", "ctrl_deps": 1, "attrs": [{"name": "rf_id", "value": 0}]}]})";
const std::string kChakra = R"({"version": "0.0.4"} {"id": "1", "name": "n", "type": "COMM_COLL_NODE",
  "ctrl_deps": ["0"], "duration_micros": "5"})";
const std::string kPytorch = R"({"schemaVersion": 1, "deviceProperties": [], "traceEvents": []})";
const std::string kGraph = R"({"format": "weft-graph", "version": 1, "name": "x"})";

TEST(KnownFile, IsToldByItsHead) {
  EXPECT_EQ(known_format(kJax), KnownFormat::jax_profile);
  EXPECT_EQ(known_format(kTensorFlow), KnownFormat::tensorflow_profile);
  EXPECT_EQ(known_format(kExecution), KnownFormat::execution_trace);
  EXPECT_EQ(known_format(kChakra), KnownFormat::chakra_json);
  EXPECT_EQ(known_format(kPytorch), KnownFormat::pytorch_profile);
  EXPECT_EQ(known_format(kGraph), KnownFormat::graph_file);
  EXPECT_EQ(known_format(R"({"weft": {"version": 4}, "traceEvents": []})"), KnownFormat::weft_trace);
  EXPECT_EQ(known_format("SQLite format 3"), KnownFormat::nsight_database);
  EXPECT_FALSE(known_format("[train]\nlr = 1"));
  EXPECT_FALSE(known_format(R"({"a": 1})"));
  EXPECT_FALSE(known_format(""));
}

TEST(KnownFile, IsNoTraceToImport) {
  const auto refused = [](const std::string& text, std::initializer_list<std::string_view> parts) {
    EXPECT_TRUE(refuses([&] { refuse_foreign_trace(file_with(text)); }, parts));
  };
  refused(kJax, {"weft_known_file.json", "a JAX profile", "nsys"});
  refused(kTensorFlow, {"a TensorFlow profile", "nsys"});
  refused(kExecution, {"an execution trace of PyTorch", "--execution-trace"});
  refused(kChakra, {"Chakra as JSON", ".et"});
  refused(kGraph, {"a graph file", "weft simulate"});
  EXPECT_NO_THROW(refuse_foreign_trace(file_with(kPytorch)));
  EXPECT_NO_THROW(refuse_foreign_trace("absent"));
}

TEST(KnownFile, HasACommandOfItsOwn) {
  EXPECT_TRUE(refuses([] { expect_weft_trace(file_with(kGraph)); }, {"a graph file", "weft explain"}));
  EXPECT_TRUE(refuses([] { expect_weft_trace(file_with(kPytorch)); }, {"PyTorch's profiler", "weft trace import"}));
  EXPECT_TRUE(refuses([] { refuse_trace(file_with(kPytorch)); }, {"PyTorch's profiler", "weft trace import"}));
  EXPECT_TRUE(refuses([] { refuse_trace(file_with(kJax)); }, {"a JAX profile"}));
  EXPECT_NO_THROW(refuse_trace(file_with(kGraph)));
  EXPECT_NO_THROW(refuse_trace(file_with("lr = 1")));
  EXPECT_NO_THROW(expect_weft_trace(file_with("lr = 1")));
}

}  // namespace
}  // namespace weft::inspect
