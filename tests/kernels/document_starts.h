// Sequences of several documents, as attention is told of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace weft::cpu::testing {

/// For each of batch·seq tokens, the position in its sequence at which its document starts. Documents of these lengths
/// follow each other, again and again; they go on from one sequence to the next. Empty without lengths.
inline std::vector<std::int32_t> starts_of_documents(std::int64_t batch, std::int64_t seq,
                                                     const std::vector<std::int64_t>& lengths) {
  std::vector<std::int32_t> starts;
  std::size_t document = 0;
  std::int64_t of_document = 0;
  for (std::int64_t row = 0; !lengths.empty() && row < batch * seq; ++row, ++of_document) {
    if (of_document == lengths[document]) document = (document + 1) % lengths.size(), of_document = 0;
    starts.push_back(static_cast<std::int32_t>(std::max<std::int64_t>(0, row % seq - of_document)));
  }
  return starts;
}

}  // namespace weft::cpu::testing
