// Chakra execution traces (MLCommons; et_def.proto and its forerunner eg_def.proto), of one rank a file, packed with
// gzip or not: messages follow one another, and before each stands its length. Their nodes become a step of an open
// graph.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/files/input_file.h"
#include "inspect/import/recovered_step.h"

namespace weft::inspect {

enum class ChakraType : std::uint8_t { invalid, metadata, load, store, computation, send, receive, collective };

struct ChakraNode {
  std::uint64_t id = 0;
  std::string name;
  ChakraType type = ChakraType::invalid;
  std::vector<std::uint64_t> data_deps, ctrl_deps;
  double begin_ns = -1, ns = -1;  // -1: not told
  // Of attributes; -1: not told.
  bool on_host = false;
  std::int64_t stream = -1, comm_type = -1, peer = -1;
  double flops = 0, bytes = 0, comm_bytes = 0;
  std::string group;
};

struct ChakraFile {
  std::string name;
  std::int64_t rank = -1;  // from the file's name: PREFIX.RANK.et
  std::vector<ChakraNode> nodes;
};

/// Throws UserError, with the byte, on a file that breaks off or is none.
ChakraFile parse_chakra(ByteSource source, const std::string& name);

/// Dependencies of the file are edges as they stand. Between work of a device on one stream, of which converters are
/// known to drop the edges (mlcommons/chakra issue 215), the order of begins adds the predecessor; it needs the
/// attribute "stream" and times. A dependency on a node of the host that was still running is a launch: the node is cut
/// where the other one began. Throws UserError on a node that is missing or named twice, and on a cycle.
RecoveredStep chakra_step(const ChakraFile& file, TraceChannels& channels);

}  // namespace weft::inspect
