// Chakra execution traces (MLCommons; et_def.proto and its forerunner eg_def.proto), of one rank a file: one message
// after the other, each behind its length, packed with gzip or not.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/files/byte_source.h"

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
  std::string name, schema;  // "0.0.4"; "" if no version is told
  std::int64_t rank = -1;    // from the file's name: PREFIX.RANK.et
  std::vector<ChakraNode> nodes;
};

/// Throws UserError, with the byte, on a file that breaks off or is none.
ChakraFile parse_chakra(ByteSource source, const std::string& name);

/// "all_reduce" and so on of CollectiveCommType; "collective" of unknown numbers.
std::string_view chakra_collective(std::int64_t type);

}  // namespace weft::inspect
