#include "runtime/comm/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "base/error.h"

namespace weft::comm {

void expect_same(World& world, const std::vector<Fact>& facts, const Wording& wording) {
  for (const Fact& fact : facts) {
    const std::vector<std::string> all = of_ranks(world, fact.value);
    const auto differs = std::ranges::find_if(all, [&](const std::string& value) { return value != all[0]; });
    if (differs == all.end()) continue;
    throw UserError(fmt::format("rank {} {} {} = {}, rank 0 {} {} = {}", differs - all.begin(), wording.one, fact.name,
                                *differs, wording.other, fact.name, all[0]),
                    wording.expected, wording.fix);
  }
}

void act_together(World& world, const std::function<void()>& act) {
  std::string refusal;
  try {
    act();
  } catch (const UserError& error) {
    refusal = error.what();
  }
  const std::vector<std::string> all = of_ranks(world, refusal);
  const auto first = std::ranges::find_if(all, [](const std::string& text) { return !text.empty(); });
  if (first == all.end()) return;
  const bool equal = std::ranges::all_of(all, [&](const std::string& text) { return text == *first; });
  throw UserError(equal ? *first : fmt::format("rank {}: {}", first - all.begin(), *first), "", "");
}

void expect_same_facts(World& world, const std::vector<Fact>& facts) {
  expect_same(world, facts,
              {"has", "has", "the same on all ranks",
               "let all of them see the same files, on a shared disk or as equal copies"});
}

std::string text_of_rank_0(World& world, const std::string& text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  std::vector<std::byte> bytes(data, data + text.size());
  world.broadcast(bytes, 0);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace weft::comm
