// PyTorch's execution traces: an accepted file has operators in the order of their begins, each within another one.
#include <limits>

#include "inspect/import/execution_trace.h"
#include "tests/fuzz/fuzz_target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  inspect::ExecutionTrace trace;
  const auto read = [&] { trace = inspect::parse_execution_trace(text_source(fuzz::text_of(data, size)), "t.json"); };
  if (!fuzz::accepted(read)) return 0;
  std::int64_t node = std::numeric_limits<std::int64_t>::min();
  for (std::size_t i = 0; i < trace.operators.size(); ++i) {
    const inspect::TraceOperator& each = trace.operators[i];
    fuzz::require(each.node >= node, "operators that don't rise");
    fuzz::require(each.parent == inspect::kNoOperator || each.parent < trace.operators.size(),
                  "a parent that isn't there");
    fuzz::require(each.parent != i, "an operator within itself");
    node = each.node;
  }
  return 0;
}
