#include "runtime/device/transport.h"

#include "runtime/comm/backoff.h"

namespace weft {

void wait_for(Device& device, DeviceStream stream, DeviceTransport& transport) {
  for (Backoff backoff; !device.done(stream); backoff.pause()) transport.check();
}

}  // namespace weft
