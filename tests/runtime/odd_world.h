// Worlds whose communicators misbehave as told: slow by chance, broken after some calls, or mute for ever.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/comm/communicator.h"
#include "tests/runtime/random_graph.h"

namespace weft::testing {

/// Called before each progress() of a communicator; false keeps the collective from advancing, an exception breaks it.
using MayProgress = std::function<bool()>;

/// Another world, but that its communicators ask first.
class OddWorld final : public World {
 public:
  /// `make` gives each communicator a function of its own.
  OddWorld(World& inner, std::function<MayProgress()> make) : inner_(inner), make_(std::move(make)) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  std::string name() const override { return inner_.name(); }
  int ranks_on_node() const override { return inner_.ranks_on_node(); }
  int rank_on_node() const override { return inner_.rank_on_node(); }
  std::unique_ptr<Communicator> split(int color) override {
    return std::make_unique<OddCommunicator>(inner_.split(color), make_());
  }
  void barrier() override { inner_.barrier(); }
  void broadcast(std::vector<std::byte>& bytes, int root) override { inner_.broadcast(bytes, root); }
  std::vector<std::uint64_t> all_gather(std::uint64_t value) override { return inner_.all_gather(value); }
  std::vector<std::vector<std::byte>> all_gather_bytes(std::span<const std::byte> bytes) override {
    return inner_.all_gather_bytes(bytes);
  }
  void expect_peers() override { inner_.expect_peers(); }
  void abort(const std::string& reason, int exit_code) override { inner_.abort(reason, exit_code); }

 private:
  class OddCommunicator final : public Communicator {
   public:
    OddCommunicator(std::unique_ptr<Communicator> inner, MayProgress may_progress)
        : inner_(std::move(inner)), may_progress_(std::move(may_progress)) {}
    int rank() const override { return inner_->rank(); }
    int size() const override { return inner_->size(); }
    void start(const CollectiveCall& call) override { inner_->start(call); }
    bool progress() override { return may_progress_() && inner_->progress(); }

   private:
    std::unique_ptr<Communicator> inner_;
    MayProgress may_progress_;
  };

  World& inner_;
  std::function<MayProgress()> make_;
};

/// Communicators that refuse most of the time, give the core away or sleep: streams and ranks drift apart at random.
inline OddWorld hesitant_world(World& inner, std::uint64_t seed) {
  return OddWorld(inner, [seed, rank = inner.rank(), made = std::uint64_t{0}]() mutable {
    return [draws = Draws(seed * 1000 + static_cast<std::uint64_t>(rank) * 100 + ++made)]() mutable {
      if (draws.chance(10)) std::this_thread::yield();
      if (draws.chance(2)) std::this_thread::sleep_for(std::chrono::microseconds(draws.between(1, 300)));
      return draws.chance(50);
    };
  });
}

}  // namespace weft::testing
