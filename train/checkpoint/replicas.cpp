#include "train/checkpoint/replicas.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/checksum.h"
#include "base/hash.h"

namespace weft::train {
namespace {

/// A hash of the elements of the whole parameter that an array holds, in order.
std::uint64_t elements_of(const MutableParameterState& parameter) {
  if (parameter.shard == nullptr) return 0;
  Fingerprint elements;
  for (const ops::ElementRun& run : parameter.shard->runs_within(parameter.shard->begin, parameter.shard->end)) {
    elements.add(run.global).add(run.count);
  }
  return elements.value();
}

std::uint64_t values_of(const MutableParameterState& parameter) {
  const auto bytes = static_cast<std::size_t>(kept_elements(parameter)) * size_of(parameter.dtype);
  return Crc32c().add({static_cast<const std::byte*>(parameter.data), bytes}).value();
}

/// By rank, one number a parameter.
std::vector<std::vector<std::uint64_t>> gather(comm::World& world, const std::vector<std::uint64_t>& own) {
  std::vector<std::vector<std::uint64_t>> all;
  for (const auto& bytes : world.all_gather_bytes(std::as_bytes(std::span(own)))) {
    std::vector<std::uint64_t>& numbers = all.emplace_back(bytes.size() / sizeof(std::uint64_t));
    std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(std::uint64_t));
  }
  return all;
}

}  // namespace

void expect_equal_replicas(comm::World& world, std::span<const MutableParameterState> parameters) {
  std::vector<std::uint64_t> own;
  for (const MutableParameterState& parameter : parameters) own.push_back(elements_of(parameter));
  const auto elements = gather(world, own);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    std::size_t holders = 0;
    for (const auto& of_rank : elements) holders += of_rank.at(i) == elements[world.rank()][i] ? 1U : 0U;
    own[i] = holders > 1 ? values_of(parameters[i]) : 0;
  }
  const auto values = gather(world, own);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    std::map<std::uint64_t, std::size_t> first;  // rank that holds them, by elements
    for (std::size_t rank = 0; rank < values.size(); ++rank) {
      const std::size_t other = first.emplace(elements[rank][i], rank).first->second;
      if (values[rank][i] == values[other][i]) continue;
      throw UserError(fmt::format("rank {} starts with {} of the digest {:08x}, rank {} with {:08x}", rank,
                                  parameters[i].spec->name, values[rank][i], other, values[other][i]),
                      "equal weights, because these ranks hold the same part of the model",
                      "run all ranks on machines of one kind, or give --init-from, which all machines read alike");
    }
  }
}

}  // namespace weft::train
