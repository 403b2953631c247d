// Parts of the emulated NCCL: rules of configurations, buffers that communicators know, and the order of launches.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <memory>

namespace weft::emulator {

/// NCCL's rules for the fields that Weft sets.
bool is_valid(const ncclConfig_t* config);
/// The number of cuts of a message, each summed around the ring by itself: another one for each choice of protocol and
/// channels, so that a choice shows in the bits.
std::size_t cuts_of(const ncclConfig_t& config);

/// Notes whether a communicator that knows buffers also knows those of a call.
void note_buffers(ncclComm_t communicator, const void* in, const void* out);
void forget_buffers_of(ncclComm_t communicator);

/// The place of a call in its device's launch order. With NCCL_LAUNCH_ORDER_IMPLICIT and a driver before CUDA 12.3, the
/// calls of all communicators run in the order in which the host made them, one by one. A graph orders its calls by its
/// edges alone.
struct Turn {
  bool over = false;
};
std::shared_ptr<Turn> take_turn(int device);
/// Whether all calls before it are over or were dropped.
bool comes_next(int device, const std::shared_ptr<Turn>& turn);

}  // namespace weft::emulator
