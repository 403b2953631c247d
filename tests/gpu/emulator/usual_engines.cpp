// Gives programs with emulated GPUs cuDNN's engines for attention, which tests ask for themselves.
#include "tests/gpu/emulator/cudnn.h"

namespace weft::emulator {
namespace {

const bool offered = (offer_usual_attention_engines(), true);

}  // namespace
}  // namespace weft::emulator
