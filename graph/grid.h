// The arrangement of ranks, the group of ranks that each channel's collectives join, and the placement of a pipeline's
// virtual stages on ranks: each rank holds one or more chunks of layers; each chunk is a virtual stage (Task::stage).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/operation.h"

namespace weft::graph {

/// The axes of 3D tensor parallelism, of the batch, and `pipe`, along which stages of layers follow each other.
enum class Axis : std::uint8_t { x, y, z, data, pipe };

/// The axes that an order arranges. `pipe` stands within data in every order.
inline constexpr std::array<Axis, 4> kAxes = {Axis::x, Axis::y, Axis::z, Axis::data};

std::string_view to_string(Axis axis);

/// One coordinate for each axis.
struct Coordinates {
  std::int64_t x = 0, y = 0, z = 0, data = 0, pipe = 0;
  std::int64_t on(Axis axis) const;
  std::int64_t& on(Axis axis);
  friend bool operator==(const Coordinates&, const Coordinates&) = default;
};

/// Sizes of the axes. x, y and z divide the model's matrices (3D tensor parallel), pipe divides its layers into stages;
/// z and data divide the batch. `order` lists the axes from the innermost, and pipe comes right before data: by default
/// rank = (((data·P + pipe)·Z + z)·Y + y)·X + x.
///
/// `context` neighbours on z, which divide it, share their sequences: of each, rank c of them has the c-th part of the
/// rows. So context isn't an axis; to weights and their gradients these ranks are ranks of z like all others.
///
/// `expert` neighbours on z, which divide it, share out the experts of each layer: rank p of them has the p-th part of
/// the experts whole, not cut over z, and ranks of z that are equal mod `expert` have the same ones.
struct Grid {
  std::int64_t x = 1, y = 1, z = 1, data = 1;
  std::array<Axis, 4> order = kAxes;
  std::int64_t pipe = 1;
  std::int64_t context = 1, expert = 1;

  std::int64_t ranks() const { return x * y * z * pipe * data; }
  std::int64_t on(Axis axis) const;
  std::int64_t& on(Axis axis);
  /// Number of groups of ranks that hold different sequences of a batch: they differ in z, beyond `context`, or data.
  std::int64_t batch_ranks() const { return z / context * data; }
  /// Number of ranks that together hold one copy of the model.
  std::int64_t model_ranks() const { return x * y * z * pipe; }
  friend bool operator==(const Grid&, const Grid&) = default;
};

/// "x=2,y=1,z=2,data=1"; with stages "x=2,y=1,z=2,data=1,pipe=4", with shared sequences "…,z=2,data=1,context=2", with
/// shared experts "…,z=2,data=1,expert=2".
std::string to_string(const Grid& grid);

Coordinates coordinates_of(const Grid& grid, std::int64_t rank);
std::int64_t rank_of(const Grid& grid, const Coordinates& coordinates);

/// The index of the part of the batch that a rank reads: data·Z/context + ⌊z/context⌋.
std::int64_t batch_rank(const Grid& grid, const Coordinates& at);

/// The index of the part of its sequences that a rank has: z mod context.
std::int64_t context_rank(const Grid& grid, const Coordinates& at);

/// The index of the part of the experts that a rank has: z mod expert.
std::int64_t expert_rank(const Grid& grid, const Coordinates& at);

/// The axis along which a channel's groups run; z for context and experts, pipe for channels between stages. Throws
/// std::logic_error for `world` and `stage`, which have none.
Axis axis_of(Channel channel);

/// Number of ranks in a channel's group: for messages, the two ends.
std::int64_t group_size(const Grid& grid, Channel channel);

/// Ranks with equal colours form a group of the channel; a group is ordered by its ranks' coordinates. The colour is
/// the group's first rank. For messages it is the ring of stages in which they travel.
std::int64_t group_color(const Grid& grid, Channel channel, std::int64_t rank);

/// The stage at the other end of a message channel, seen from `stage`. Stages form a ring.
std::int64_t peer_stage(Channel channel, std::int64_t stage, std::int64_t stages);
/// The rank at the other end of a message channel.
std::int64_t peer_rank(const Grid& grid, Channel channel, std::int64_t rank);

/// The rank classes, by pipeline rank, with members in one group of a channel, rising: all of them for world and pipe,
/// the first and the last for embedding. Empty for channels whose groups lie within a class, and for messages.
std::vector<std::size_t> classes_of_channel(Channel channel, std::size_t classes);

/// The channel as text that find_channel() reads, without the graph that names it: "z_gather"; "own 2" for the third
/// that a graph describes itself.
std::string channel_text(Channel channel);

/// The channel whose channel_text() is `name`.
std::optional<Channel> find_channel(std::string_view name);

/// The ranks of the channel's group that contains `rank`, in the group's order.
std::vector<std::int64_t> group_ranks(const Grid& grid, Channel channel, std::int64_t rank);

/// All groups of the channel, each as group_ranks() returns it, ordered by first rank. Each rank is in exactly
/// one; for messages, each rank's own with its peer.
std::vector<std::vector<std::int64_t>> groups_of(const Grid& grid, Channel channel);

/// "ranks 0, 2". More than `most` ranks (at least 2) are shortened to the first ones and the last: "ranks 0, 2, …, 14".
std::string ranks_text(const std::vector<std::int64_t>& ranks, std::size_t most);

/// With 3 ranks and 2 chunks a rank, the virtual stages are
///   loop:  rank 0: 0 3   rank 1: 1 4   rank 2: 2 5
///   v:     rank 0: 0 5   rank 1: 1 4   rank 2: 2 3
enum class ChunkPlacement : std::uint8_t { loop, v };

constexpr std::string_view to_string(ChunkPlacement placement) {
  return placement == ChunkPlacement::loop ? "loop" : "v";
}

/// The chunks of a rank, and where they stand. With one chunk both placements are the same.
struct PipelineChunks {
  std::int64_t chunks = 1;  // of a rank
  ChunkPlacement placement = ChunkPlacement::loop;

  /// Number of virtual stages on `ranks` ranks of a pipeline.
  constexpr std::int64_t stages(std::int64_t ranks) const { return ranks * chunks; }

  /// The virtual stage of a rank's chunk.
  constexpr std::int64_t stage_on(std::int64_t rank, std::int64_t chunk, std::int64_t ranks) const {
    return chunk * ranks + (turns(chunk) ? ranks - 1 - rank : rank);
  }
  /// The rank that holds a virtual stage.
  constexpr std::int64_t rank_of_stage(std::int64_t stage, std::int64_t ranks) const {
    return turns(stage / ranks) ? ranks - 1 - stage % ranks : stage % ranks;
  }
  /// The chunk of its rank that a virtual stage is.
  static constexpr std::int64_t chunk_of_stage(std::int64_t stage, std::int64_t ranks) { return stage / ranks; }

  friend bool operator==(const PipelineChunks&, const PipelineChunks&) = default;

 private:
  constexpr bool turns(std::int64_t chunk) const { return placement == ChunkPlacement::v && chunk % 2 == 1; }
};

}  // namespace weft::graph
