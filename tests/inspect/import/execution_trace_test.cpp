// PyTorch's execution traces: what an operator's schema says of its arguments, and which storages it accesses.
#include "inspect/import/execution_trace.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/base/messages.h"
#include "tests/inspect/import/execution_text.h"

namespace weft::inspect {
namespace {

using testing::ExecutionText;
using Uses = std::vector<ArgumentUse>;
constexpr ArgumentUse kRead = ArgumentUse::read, kWrite = ArgumentUse::write, kView = ArgumentUse::view;

TEST(OperatorSchemas, TellReadsWritesAndViews) {
  const auto of = [](const char* text) { return parse_schema(text).arguments; };
  EXPECT_EQ(of("aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"),
            (Uses{kRead, kRead, kRead, kRead, kRead}));
  EXPECT_EQ(of("aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)"),
            (Uses{kWrite, kRead, kRead}));
  EXPECT_EQ(of("aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)"), (Uses{kView, kRead}));
  EXPECT_EQ(of("aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]"),
            (Uses{kView, kRead, kRead}));
  EXPECT_EQ(of("fsdp::chunk_cat(Tensor[] tensors, int dim, int num_chunks, *, Tensor(a!) out) -> ()"),
            (Uses{kRead, kRead, kRead, kWrite}));
  EXPECT_EQ(of("c10d::_allgather_base_(Tensor output_tensor, Tensor input_tensor, ProcessGroup process_group, bool "
               "async_op=True, int timeout=-1) -> (Tensor, Work)"),
            (Uses{kWrite, kRead, kWrite, kWrite, kWrite}));
  EXPECT_EQ(of("aten::batch_norm(Tensor input, Tensor? running_mean, bool training) -> Tensor"),
            (Uses{kRead, kWrite, kRead}));
  EXPECT_EQ(parse_schema("aten::max(Tensor self) -> (Tensor values, Tensor(a) indices)").makes,
            (std::vector<bool>{true, false}));
  EXPECT_TRUE(of("no schema").empty());
}

/// "3r 4w 5m": storages that the operator of this record function reads, writes and makes.
std::string accesses_of(const ExecutionTrace& trace, std::int64_t record_function) {
  std::string out;
  for (const TraceOperator& one : trace.operators) {
    if (one.record_function != record_function) continue;
    for (const StorageAccess& access : one.accesses) {
      const char* use = access.use == StorageUse::read ? "r" : access.use == StorageUse::write ? "w" : "m";
      out += (out.empty() ? "" : " ") + std::to_string(access.storage) + use;
    }
  }
  return out;
}

TEST(ExecutionTraces, TellStoragesOfOperators) {
  ExecutionText text;
  text.node(2, 1, 7, "aten::mm", "aten::mm(Tensor self, Tensor mat2) -> Tensor", {{3}, {4}}, {{5}});
  text.node(3, 1, 8, "aten::add_", "aten::add_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", {{5}, {4}}, {{5}});
  text.node(4, 1, 9, "aten::cat", "aten::cat(Tensor[] tensors, int dim=0) -> Tensor", {{3, 5}}, {{6}});
  text.node(5, 1, 10, "fsdp::copy_in", "fsdp::copy_in(Tensor[] inputs, Tensor output) -> (Tensor, Tensor)", {{3}, {6}},
            {{6}, {6}});
  text.node(6, 1, 11, "MyFunction", "", {{3}}, {{5}});
  const ExecutionTrace trace = parse_execution_trace(text_source(text.text()), "et.json");
  EXPECT_EQ(accesses_of(trace, 7), "3r 4r 5m");
  EXPECT_EQ(accesses_of(trace, 8), "4r 5w");
  EXPECT_EQ(accesses_of(trace, 9), "3r 5r 6m");
  EXPECT_EQ(accesses_of(trace, 10), "3r 6w") << "a result that the schema doesn't call an alias is one";
  EXPECT_EQ(accesses_of(trace, 11), "");
  EXPECT_FALSE(trace.operators.back().tells_accesses);
}

TEST(ExecutionTraces, OfAnotherKindAreRefused) {
  const auto read = [](const std::string& text) {
    return [text] { (void)parse_execution_trace(text_source(text), "et.json"); };
  };
  EXPECT_TRUE(testing::refuses(read(R"({"traceEvents": []})"), {"no \"nodes\""}));
  EXPECT_TRUE(testing::refuses(read(R"({"nodes": [{"id": 1, "inputs": [1]}]})"), {"inputs that are no object"}));
}

}  // namespace
}  // namespace weft::inspect
