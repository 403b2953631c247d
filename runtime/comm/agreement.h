// Ranks act as one: what one of them refuses, all refuse, and a difference between them is named on all.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/comm/communicator.h"

namespace weft::comm {

/// Runs `act` on every rank. Where it throws UserError on any of them, all throw that of the first, so that none waits
/// for another: with the rank's number, unless all said the same. Collective over the world.
void act_together(World& world, const std::function<void()>& act);

/// What a rank has found in files that it sees and others may not: {"checkpoint step", "200"}.
struct Fact {
  std::string name, value;
};

/// How a difference is told: "rank 1 `one` lr = 2, rank 0 `other` lr = 1".
struct Wording {
  std::string_view one, other, expected, fix;
};

/// Throws the same UserError on every rank, naming what differs and both values, unless all have the same facts, of
/// the same names. Collective over the world.
void expect_same(World& world, const std::vector<Fact>& facts, const Wording& wording);

/// The same for facts about files.
void expect_same_facts(World& world, const std::vector<Fact>& facts);

/// Rank 0's text, on every rank.
std::string text_of_rank_0(World& world, const std::string& text);

}  // namespace weft::comm
