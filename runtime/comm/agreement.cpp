#include "runtime/comm/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "base/error.h"
#include "runtime/comm/of_ranks.h"

namespace weft::comm {

void expect_same(World& world, const std::vector<Fact>& facts, const Wording& wording) {
  std::string own;
  for (const Fact& fact : facts) own += fact.value + '\0';
  std::vector<std::vector<std::string>> all;
  for (const std::string& text : of_ranks(world, own)) {
    std::vector<std::string>& values = all.emplace_back();
    for (std::size_t at = 0; at < text.size(); at += values.back().size() + 1) values.emplace_back(text.c_str() + at);
  }
  for (std::size_t i = 0; i < facts.size(); ++i) {
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
      if (all[rank].at(i) == all[0].at(i)) continue;
      throw UserError(fmt::format("rank {} {} {} = {}, rank 0 {} {} = {}", rank, wording.one, facts[i].name,
                                  all[rank][i], wording.other, facts[i].name, all[0][i]),
                      wording.expected, wording.fix);
    }
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

double number_of_rank_0(World& world, double number) {
  return of_ranks(world, number).front();
}

}  // namespace weft::comm
