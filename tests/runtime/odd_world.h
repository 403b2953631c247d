// Worlds whose communicators fail as configured: slow at random, broken after some calls, or stuck for ever.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "tests/runtime/forwarding_world.h"
#include "tests/runtime/random_graph.h"

namespace weft::testing {

/// Called before each progress() of a communicator; false keeps the collective from advancing, an exception breaks it.
using MayProgress = std::function<bool()>;

/// Another world whose communicators ask first.
class OddWorld final : public ForwardingWorld {
 public:
  /// `make` gives each communicator a function of its own.
  OddWorld(comm::World& inner, std::function<MayProgress()> make) : ForwardingWorld(inner), make_(std::move(make)) {}

  std::unique_ptr<comm::Communicator> split(int color) override {
    return std::make_unique<OddCommunicator>(ForwardingWorld::split(color), make_());
  }

 private:
  class OddCommunicator final : public comm::Communicator {
   public:
    OddCommunicator(std::unique_ptr<comm::Communicator> inner, MayProgress may_progress)
        : inner_(std::move(inner)), may_progress_(std::move(may_progress)) {}
    int rank() const override { return inner_->rank(); }
    int size() const override { return inner_->size(); }
    void start(const comm::CollectiveCall& call) override { inner_->start(call); }
    bool progress() override { return may_progress_() && inner_->progress(); }

   private:
    std::unique_ptr<comm::Communicator> inner_;
    MayProgress may_progress_;
  };

  std::function<MayProgress()> make_;
};

/// Communicators that refuse most of the time, give the core away or sleep: streams and ranks drift apart at random.
inline OddWorld hesitant_world(comm::World& inner, std::uint64_t seed) {
  return OddWorld(inner, [seed, rank = inner.rank(), made = std::uint64_t{0}]() mutable {
    return [draws = Draws(seed * 1000 + static_cast<std::uint64_t>(rank) * 100 + ++made)]() mutable {
      if (draws.chance(10)) std::this_thread::yield();
      if (draws.chance(2)) std::this_thread::sleep_for(std::chrono::microseconds(draws.between(1, 300)));
      return draws.chance(50);
    };
  });
}

}  // namespace weft::testing
