// Agreement of ranks at start-up: an error on one rank ends all of them, and every rank names a difference between
// ranks.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/comm/communicator.h"

namespace weft::comm {

/// Runs `act` on every rank. If it throws UserError on any rank, every rank throws the first such rank's error, so that
/// no rank waits for another. The message names that rank, unless all ranks threw the same message. Collective over the
/// world.
void act_together(World& world, const std::function<void()>& act);

/// A value that a rank read from files, which may differ on other ranks: {"checkpoint step", "200"}.
struct Fact {
  std::string name, value;
};

/// The words of a message about a difference: "rank 1 `one` lr = 2, rank 0 `other` lr = 1".
struct Wording {
  std::string_view one, other, expected, fix;
};

/// Throws the same UserError on every rank, naming the fact that differs and both values, unless the values are equal
/// on all ranks. The names must be. Collective over the world.
void expect_same(World& world, const std::vector<Fact>& facts, const Wording& wording);

/// The same for facts about files.
void expect_same_facts(World& world, const std::vector<Fact>& facts);

/// Rank 0's text, on every rank.
std::string text_of_rank_0(World& world, const std::string& text);

}  // namespace weft::comm
