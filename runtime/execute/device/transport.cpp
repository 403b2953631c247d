#include "runtime/execute/device/transport.h"

#include "runtime/comm/backoff.h"

namespace weft::execute {

void wait_for(Device& device, DeviceEvent event, DeviceTransport& transport) {
  for (comm::Backoff backoff; !device.done(event); backoff.pause()) transport.check();
}

}  // namespace weft::execute
