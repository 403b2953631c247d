#!/usr/bin/env python3
"""Times one large bf16 matrix product in PyTorch on a GPU, in a burst after a rest and under load.

The peer of bench_gpu --rate: the same sizes, random numbers and counts, and the same lines of name, value and unit.
"""

import argparse
import time

import torch


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=7)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    size, rest = (256, 0) if options.quick else (8192, 1)

    a, b, out = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(3))

    def enqueue(count):
        for _ in range(count):
            torch.mm(a, b, out=out)

    def mark():
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def milliseconds(begin, end):
        end.synchronize()
        return begin.elapsed_time(end)

    def show(name, count, ms):
        print(f"{name}\t{2 * size**3 * count / ms * 1e-9:.4g}\tTFLOP/s", flush=True)

    enqueue(1)  # loads the library
    torch.cuda.synchronize()
    time.sleep(rest)
    enqueue(3)
    begin = mark()
    enqueue(30)
    show("burst", 30, milliseconds(begin, mark()))

    count, times = 20, []
    events = [mark()]
    enqueue(count)
    events.append(mark())
    while sum(times) < 1e3 * options.seconds:
        enqueue(count)
        events.append(mark())
        times.append(milliseconds(*events[len(times) : len(times) + 2]))
    show("sustained", count * len(times), sum(times))
    starts = [sum(times[:i]) for i in range(len(times))]
    for name, begin, end in (("first half second", 0, 500), ("last quarter", 0.75 * sum(times), sum(times))):
        within = [ms for at, ms in zip(starts, times) if at + ms > begin and at < end]
        show(f"sustained, {name}", count * len(within), sum(within))


if __name__ == "__main__":
    main()
