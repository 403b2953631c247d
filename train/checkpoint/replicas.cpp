#include "train/checkpoint/replicas.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "base/error.h"
#include "base/files/checksum.h"
#include "base/hash.h"

namespace weft::train {
namespace {

/// A hash of the elements of the whole parameter that an array holds, in order.
std::uint64_t elements_of(const ParameterState& parameter) {
  if (parameter.shard == nullptr) return 0;
  Fingerprint elements;
  for (const ops::ElementRun& run : parameter.shard->runs_within(parameter.shard->begin, parameter.shard->end)) {
    elements.add(run.global).add(run.count);
  }
  return elements.value();
}

std::uint64_t values_of(const ParameterState& parameter) {
  const auto bytes = static_cast<std::size_t>(parameter.kept().size()) * size_of(parameter.dtype);
  return Crc32c().add({static_cast<const std::byte*>(parameter.data), bytes}).value();
}

/// A rank of another pipeline stage.
constexpr std::uint64_t kNotHeld = ~std::uint64_t{0};

/// By rank, one number for each site of a parameter.
std::vector<std::vector<std::uint64_t>> gather(comm::World& world, const std::vector<std::uint64_t>& own) {
  std::vector<std::vector<std::uint64_t>> all = comm::of_ranks(world, own);
  std::size_t sites = 0;
  for (const auto& numbers : all) sites = std::max(sites, numbers.size());
  for (auto& numbers : all) numbers.resize(sites, kNotHeld);
  return all;
}

std::uint64_t& at_site(std::vector<std::uint64_t>& numbers, const ParameterState& parameter) {
  if (parameter.spec->site >= numbers.size()) numbers.resize(parameter.spec->site + 1, kNotHeld);
  return numbers[parameter.spec->site];
}

}  // namespace

void expect_equal_replicas(comm::World& world, std::span<const ParameterState> parameters) {
  std::vector<std::uint64_t> own;
  for (const ParameterState& parameter : parameters) at_site(own, parameter) = elements_of(parameter);
  const auto elements = gather(world, own);
  for (const ParameterState& parameter : parameters) {
    const std::size_t site = parameter.spec->site;
    std::size_t holders = 0;
    for (const auto& of_rank : elements) holders += of_rank[site] == own[site] ? 1U : 0U;
    own[site] = holders > 1 ? values_of(parameter) : 0;
  }
  const auto values = gather(world, own);
  for (std::size_t site = 0; site < values.front().size(); ++site) {
    std::map<std::uint64_t, std::size_t> first;  // rank that holds them, by elements
    for (std::size_t rank = 0; rank < values.size(); ++rank) {
      if (elements[rank][site] == kNotHeld) continue;
      const std::size_t other = first.emplace(elements[rank][site], rank).first->second;
      if (values[rank][site] == values[other][site]) continue;
      // Every rank throws, also one that has none of it and can't name it.
      const auto named = std::ranges::find(parameters, site, [](const auto& p) { return p.spec->site; });
      throw UserError(fmt::format("rank {} starts with {} of the digest {:08x}, rank {} with {:08x}", rank,
                                  named == parameters.end() ? fmt::format("parameter {}", site) : named->spec->name,
                                  values[rank][site], other, values[other][site]),
                      "equal weights, because these ranks hold the same part of the model",
                      "run all ranks on machines of one kind, or give --init-from, which all machines read");
    }
  }
}

}  // namespace weft::train
