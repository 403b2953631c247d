// A world without communication: collectives and messages end at once and move nothing. For a rank's computations
// alone.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"

namespace weft::train {

/// Has one rank, which is in every group. Results of steps that communicate mean nothing, their computations take their
/// usual time.
class SilentWorld final : public comm::World {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string name() const override { return "silent"; }
  int ranks_on_node() const override { return 1; }
  int rank_on_node() const override { return 0; }
  std::unique_ptr<comm::Communicator> split(int color) override;
  void barrier() override {}
  void broadcast(std::vector<std::byte>&, int) override {}
  std::vector<std::uint64_t> all_gather(std::uint64_t value) override { return {value}; }
  std::vector<std::vector<std::byte>> all_gather_bytes(std::span<const std::byte> bytes) override {
    return {{bytes.begin(), bytes.end()}};
  }
  void expect_peers() override {}
  void abort(const std::string&, int) override {}
};

}  // namespace weft::train
