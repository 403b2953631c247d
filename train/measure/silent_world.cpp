#include "train/measure/silent_world.h"

namespace weft::train {
namespace {

class SilentCommunicator final : public comm::Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void start(const comm::CollectiveCall&) override {}
  bool progress() override { return true; }
};

}  // namespace

std::unique_ptr<comm::Communicator> SilentWorld::split(int) {
  return std::make_unique<SilentCommunicator>();
}

}  // namespace weft::train
