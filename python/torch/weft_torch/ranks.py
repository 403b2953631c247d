"""What the ranks of a step tell each other: equal plans, one decision for all, an error that ends all of them."""

import hashlib

import torch.distributed as dist

from ._private import Unsupported


def world() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1


def rank() -> int:
    return dist.get_rank() if dist.is_initialized() else 0


def of_all(mine) -> list:
    """What each rank gives, by rank."""
    if world() == 1:
        return [mine]
    every = [None] * world()
    dist.all_gather_object(every, mine)
    return every


def expect_equal(what: str, mine: str) -> None:
    """Ranks that run different plans would wait for each other forever."""
    every = of_all(hashlib.sha256(mine.encode()).hexdigest())
    other = [rank for rank, one in enumerate(every) if one != every[0]]
    if other:
        raise Unsupported(
            f"the {what} of rank{'s' if len(other) > 1 else ''} {', '.join(map(str, other))} differs from rank 0's "
            f"({every[other[0]][:12]}, {every[0][:12]}). Fix: the same model, batch shape, options and versions on "
            f"all ranks"
        )


def together(function):
    """function() of this rank. If it is refused on any rank, it is on all of them."""
    result = error = None
    try:
        result = function()
    except Unsupported as refused:
        error = refused
    told = [(at, one) for at, one in enumerate(of_all(None if error is None else str(error))) if one is not None]
    if error is not None:
        raise error
    if told:
        raise Unsupported(f"rank {told[0][0]}: {told[0][1]}")
    return result


def from_rank_0(function):
    """What function() gives on rank 0, or its refusal, on all ranks."""
    told = [None]
    mine = together(function if rank() == 0 else lambda: None)
    if world() == 1:
        return mine
    told = [mine]
    dist.broadcast_object_list(told, 0)
    return told[0]
