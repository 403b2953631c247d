// PyTorch's execution trace (ExecutionTraceObserver): which storages each operator reads and writes. It is recorded
// beside the profiler's trace, whose operators have the same record function ids.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/input_file.h"

namespace weft::inspect {

enum class StorageUse : std::uint8_t {
  read,
  write,  // of all or a part: what was in it may be read, too
  make    // a new storage, though an earlier one may have had its number
};

struct StorageAccess {
  std::int64_t storage = 0;
  StorageUse use = StorageUse::read;
};

struct TraceOperator {
  std::int64_t node = 0;              // rises with the begin
  std::int64_t record_function = -1;  // as in the profiler's trace
  std::int64_t sequence = -1;         // of a node of autograd: its forward operators have the same
  std::string name;
  std::uint32_t parent = 0xFFFFFFFF;  // index of the operator around it; kNoOperator: none
  bool backward = false;              // a node of autograd's backward pass
  /// Went through PyTorch's dispatcher, or is a kernel of Triton: all that it accesses is among its arguments. Of
  /// others, such as a function of a user, only the operators in them tell anything.
  bool tells_accesses = false;
  bool has_storages = false;        // of its arguments or results
  bool collective_request = false;  // an operator of c10d
  bool collective_thread = false;   // work of gloo's threads, which began in another operator
  std::vector<StorageAccess> accesses = {};
};

inline constexpr std::uint32_t kNoOperator = 0xFFFFFFFF;

struct ExecutionTrace {
  std::string file;
  std::vector<TraceOperator> operators;  // by begin
};

/// `name` stands for the text in messages. Throws UserError.
ExecutionTrace parse_execution_trace(ByteSource source, const std::string& name);
ExecutionTrace read_execution_trace(const std::filesystem::path& file);

/// What an operator's schema says of its arguments: "aten::add_.Tensor(Tensor(a!) self, Tensor other, …) ->
/// Tensor(a!)".
enum class ArgumentUse : std::uint8_t { read, write, view };
struct OperatorSchema {
  std::vector<ArgumentUse> arguments;
  std::vector<bool> makes;  // by result: it has no alias among the arguments
};

/// A view's argument isn't read by the view itself. Schemas of norms don't tell that running means and variances are
/// written. Arguments of c10d, whose schemas name no writes, are written unless their names begin with "input".
OperatorSchema parse_schema(std::string_view text);

}  // namespace weft::inspect
