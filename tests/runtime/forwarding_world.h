// A world that passes every call on to another world, for tests that change one thing of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"

namespace weft::testing {

/// Derive, and override the functions that differ.
class ForwardingWorld : public comm::World {
 public:
  explicit ForwardingWorld(comm::World& inner) : inner_(inner) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  std::string name() const override { return inner_.name(); }
  bool of_processes() const override { return inner_.of_processes(); }
  int ranks_on_node() const override { return inner_.ranks_on_node(); }
  int rank_on_node() const override { return inner_.rank_on_node(); }
  std::unique_ptr<comm::Communicator> split(int color) override { return inner_.split(color); }
  void barrier() override { inner_.barrier(); }
  void broadcast(std::vector<std::byte>& bytes, int root) override { inner_.broadcast(bytes, root); }
  std::vector<std::uint64_t> all_gather(std::uint64_t value) override { return inner_.all_gather(value); }
  std::vector<std::vector<std::byte>> all_gather_bytes(std::span<const std::byte> bytes) override {
    return inner_.all_gather_bytes(bytes);
  }
  void expect_peers() override { inner_.expect_peers(); }
  void abort(const std::string& reason, int exit_code) override { inner_.abort(reason, exit_code); }

 private:
  comm::World& inner_;
};

/// The ranks of a world as if they were on several nodes: in order, `on_node` on each.
class RanksOnNodes final : public ForwardingWorld {
 public:
  RanksOnNodes(comm::World& inner, int on_node) : ForwardingWorld(inner), on_node_(on_node) {}
  int ranks_on_node() const override { return on_node_; }
  int rank_on_node() const override { return rank() % on_node_; }

 private:
  int on_node_;
};

}  // namespace weft::testing
