"""A captured step trains as PyTorch itself does: schedules, clipping, accumulation, mixed precision, modes, saved
states; and what it can't do, it refuses by name."""

import copy
import gzip
import json
import tempfile
import time
import unittest
from pathlib import Path

import cases
import torch
import weft_torch
from torch import nn
from weft_torch import ranks

STEPS = 10
TOLERANCE = 1e-6


def pair(make=None, **options):
    """(model, optimizer, step, reference, its optimizer), of one process and without a plan."""
    model = (make or (lambda: cases.transformer(layers=2)))()
    reference = copy.deepcopy(model)
    adamw = {"lr": 1e-2, "betas": (0.9, 0.95), "weight_decay": 0.1}
    optimizers = [torch.optim.AdamW(m.parameters(), **adamw) for m in (model, reference)]
    loss = options.pop("loss", cases.language_loss)
    step = weft_torch.compile(model, optimizers[0], loss, policy=None, **options)
    return model, optimizers[0], step, reference, optimizers[1]


def eager(model, optimizer, loss, batch, most=None, accumulate=1):
    total = 0
    for part in batch.chunk(accumulate):
        value = loss(model, part) / accumulate
        value.backward()
        total += value.detach()
    if most is not None:
        nn.utils.clip_grad_norm_(model.parameters(), most)
    optimizer.step()
    optimizer.zero_grad()
    return total


def worst(model, reference) -> float:
    pairs = zip(model.parameters(), reference.parameters(), strict=True)
    return max((a - b).abs().max().item() for a, b in pairs)


class Training(unittest.TestCase):
    def alike(self, steps=STEPS, most=None, accumulate=1, after=lambda number: None, **options):
        model, optimizer, step, reference, other = pair(clip_grad_norm=most, accumulate=accumulate, **options)
        loss = options.get("loss", cases.language_loss)
        for number in range(steps):
            ids = cases.batch(0, number, rows=4)
            torch.manual_seed(number)
            found = step(ids)
            torch.manual_seed(number)
            expected = eager(reference, other, loss, ids, most, accumulate)
            self.assertAlmostEqual(found.item(), expected.item(), delta=TOLERANCE * abs(expected.item()))
            self.assertLess(worst(model, reference), TOLERANCE)
            after(number)
        return model, optimizer, step, reference, other

    def test_a_schedule_of_the_learning_rate(self):
        model, optimizer, step, reference, other = pair()
        schedules = [
            torch.optim.lr_scheduler.LambdaLR(one, lambda number: 1 / (1 + number)) for one in (optimizer, other)
        ]
        for number in range(STEPS):
            ids = cases.batch(0, number)
            step(ids)
            eager(reference, other, cases.language_loss, ids)
            self.assertLess(worst(model, reference), TOLERANCE)
            for schedule in schedules:
                schedule.step()
        self.assertEqual(len(step._captured), 1)
        self.assertAlmostEqual(optimizer.param_groups[0]["lr"], 1e-2 / (1 + STEPS))

    def test_every_number_of_the_optimizer_may_change(self):
        model, optimizer, step, reference, other = pair()
        for number in range(6):
            ids = cases.batch(0, number)
            step(ids)
            eager(reference, other, cases.language_loss, ids)
            self.assertLess(worst(model, reference), TOLERANCE)
            for one in (optimizer, other):
                one.param_groups[0]["betas"] = (0.9 - 0.1 * number, 0.99)
                one.param_groups[0]["weight_decay"] = 0.05 * (number % 3)  # 0 leaves operations out
                one.param_groups[0]["eps"] = 1e-8 * (1 + number)

    def test_clipping(self):
        self.alike(most=0.05)

    def test_accumulation(self):
        self.alike(accumulate=2)

    def test_mixed_precision(self):
        def loss(model, ids):
            with torch.autocast("cpu", torch.bfloat16):
                return cases.plain_loss(model, ids)

        self.alike(make=cases.plain, loss=loss)

    def test_dropout_and_tied_weights(self):
        self.alike(make=lambda: cases.transformer("gpt2", layers=2))

    def test_qwen3(self):
        self.alike(make=lambda: cases.transformer("qwen3", layers=2))

    def test_other_optimizers(self):
        for make in (
            lambda p: torch.optim.SGD(p, lr=0.1),
            lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
            lambda p: torch.optim.Adam(p, lr=1e-2, amsgrad=True),
            lambda p: torch.optim.AdamW(p, lr=1e-2, foreach=True),
            lambda p: torch.optim.RMSprop(p, lr=1e-3),
            lambda p: torch.optim.Adagrad(p, lr=1e-2),
        ):
            model = cases.transformer(layers=1)
            reference = copy.deepcopy(model)
            optimizer, other = make(model.parameters()), make(reference.parameters())
            step = weft_torch.compile(model, optimizer, cases.language_loss, policy=None)
            for number in range(5):
                ids = cases.batch(0, number)
                step(ids)
                eager(reference, other, cases.language_loss, ids)
            self.assertLess(worst(model, reference), TOLERANCE, optimizer)

    def test_modes_and_shapes_are_captured_apart(self):
        model, _, step, reference, other = pair(lambda: cases.transformer("gpt2", layers=1))
        for number in range(6):
            for one in (model, reference):
                one.train(number % 2 == 0)
            ids = cases.batch(0, number, length=8 if number == 4 else 16)
            torch.manual_seed(number)
            step(ids)
            torch.manual_seed(number)
            eager(reference, other, cases.language_loss, ids)
            self.assertLess(worst(model, reference), TOLERANCE)
        self.assertEqual(len(step._captured), 3)

    def test_states_are_saved_and_loaded_in_the_middle(self):
        model, optimizer, step, reference, other = self.alike(steps=4)
        saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
        for number in range(4, 7):
            step(cases.batch(0, number))
        expected = [parameter.detach().clone() for parameter in model.parameters()]
        model.load_state_dict(saved[0])
        optimizer.load_state_dict(saved[1])
        for number in range(4, 7):
            step(cases.batch(0, number))
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(model.parameters(), expected, strict=True)))

    def test_buffers_change_in_place(self):
        def make():
            torch.manual_seed(0)
            return nn.Sequential(nn.Embedding(cases.VOCABULARY, 8), nn.Flatten(), nn.Linear(128, 8), nn.BatchNorm1d(8))

        model, *_, reference, _ = self.alike(make=make, loss=lambda model, ids: model(ids).square().mean())
        for name, buffer in model.named_buffers():
            self.assertTrue(torch.allclose(buffer, dict(reference.named_buffers())[name]), name)

    def test_a_parameter_without_a_gradient_stays(self):
        def make():
            model = cases.plain()
            model.spare = nn.Linear(4, 4)
            return model

        self.alike(steps=4, make=make, loss=cases.plain_loss, most=0.05)

    def test_a_view_of_what_changes(self):
        class Counts(nn.Module):
            def __init__(self):
                super().__init__()
                self.table = nn.Embedding(cases.VOCABULARY, 4)
                self.register_buffer("seen", torch.zeros(2, 4))

            def forward(self, ids):
                row = self.seen[0]
                before = row * 1
                row.add_(1)
                return self.table(ids).mean(dim=(0, 1)) * before.exp() + row

        def make():
            torch.manual_seed(0)
            return Counts()

        model, *_ = self.alike(steps=5, make=make, loss=lambda model, ids: model(ids).square().mean())
        self.assertEqual(model.seen[0].tolist(), [5.0] * 4)


class Predictions(unittest.TestCase):
    def test_a_prediction_that_is_off_by_a_tenth_is_stale(self):
        self.assertFalse(stale(1, 0.91))
        self.assertTrue(stale(1, 0.89))
        self.assertTrue(stale(1, 1.11))


class Refusals(unittest.TestCase):
    def refused(self, *words, loss=cases.language_loss, optimizer=None, model=None, **options):
        model = model or cases.transformer(layers=1)
        optimizer = optimizer(model.parameters()) if optimizer else torch.optim.AdamW(model.parameters())
        with self.assertRaises(weft_torch.Unsupported) as caught:
            step = weft_torch.compile(model, optimizer, loss, policy=None, **options)
            for number in range(2):
                step(cases.batch(0, number))
        for word in (*words, "Fix: "):
            self.assertIn(word, str(caught.exception))

    def test_a_value_read_in_python(self):
        def loss(model, ids):
            value = cases.language_loss(model, ids)
            return value * 2 if value.item() > 1 else value

        self.refused("item()", loss=loss)

    def test_a_fused_optimizer(self):
        self.refused("fused=True", optimizer=lambda p: torch.optim.AdamW(p, fused=True))

    def test_ways_without_ranks(self):
        self.refused("parallel='ddp'", parallel="ddp")
        self.refused("parallel='zero'", parallel="zero")

    def test_another_models_optimizer(self):
        other = cases.transformer(layers=1)
        self.refused("parameters", optimizer=lambda p: torch.optim.AdamW([*p, *other.parameters()]))

    def test_a_batch_that_cannot_be_cut(self):
        self.refused("accumulate=3", accumulate=3)


def wrapped(rank):
    model = nn.parallel.DistributedDataParallel(cases.transformer(layers=1))
    try:
        weft_torch.compile(model, torch.optim.AdamW(model.parameters()), cases.language_loss, policy=None)
    except weft_torch.Unsupported as error:
        return str(error)
    return ""


def other_model(rank):
    """Rank 1 has a model with a layer more: its plan isn't rank 0's."""
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cpu", (2,))
    model = cases.transformer(layers=1 + rank)
    step = weft_torch.compile(
        model, torch.optim.AdamW(model.parameters()), cases.language_loss, weft=cases.WEFT, mesh=mesh
    )
    return refusal(lambda number: step(cases.batch(rank, number)))[0]


def other_options(rank):
    """Rank 1 has another policy."""
    model = cases.transformer(layers=1)
    policy = ("lhs", "serial")[rank]
    step = weft_torch.compile(
        model, torch.optim.AdamW(model.parameters()), cases.language_loss, weft=cases.WEFT, policy=policy
    )
    return refusal(lambda number: step(cases.batch(rank, number)))


def other_plan(rank):
    """The comparison of plans alone, as it stands before each first step."""
    from weft_torch import ranks

    return refusal(lambda _: ranks.expect_equal("plan", f"the order of rank {rank}"))


def refused_on_one(rank):
    """A batch that only rank 1 can't cut: rank 0 doesn't wait for it."""
    model = cases.transformer(layers=1)
    step = weft_torch.compile(
        model, torch.optim.AdamW(model.parameters()), cases.language_loss, policy=None, weft=cases.WEFT
    )
    step(cases.batch(rank, 0))
    step.way.accumulate = 3 if rank == 1 else 1
    return refusal(lambda number: step(cases.batch(rank, number)))


def refusal(step) -> tuple[str, float]:
    """Why two steps are refused, and after how many seconds of the last one."""
    try:
        for number in range(2):
            begin = time.monotonic()
            step(number)
    except weft_torch.Unsupported as error:
        return str(error), time.monotonic() - begin
    return "", 0


def timeline(rank):
    """(what the import says, the step's collectives, those of each recorded rank, whether there is a picture)"""
    model = cases.transformer(layers=1)
    optimizer = torch.optim.AdamW(model.parameters())
    step = weft_torch.compile(
        model, optimizer, cases.language_loss, parallel="ddp", policy="lhs", bucket_mb=(), weft=cases.WEFT
    )
    for number in range(2):
        step(cases.batch(rank, number))
    with tempfile.TemporaryDirectory() as folder:
        told = step.timeline([cases.batch(rank, number) for number in range(3)], f"{folder}/step.svg")
        recorded, drawn = [], True
        if rank == 0:
            content = json.loads(gzip.decompress(Path(f"{folder}/step.graph.json.gz").read_bytes()))
            classes = [[task.get("kind") for task in one["tasks"]] for one in content["classes"]]
            recorded = [kinds.count("collective") for kinds in classes]
            drawn = "<svg" in Path(f"{folder}/step.svg").read_text()
        recorded = ranks.from_rank_0(lambda: recorded)
    return told, step.collectives(), recorded, drawn


def stale(seconds: float, predicted: float) -> bool:
    """Whether a step of one process says so."""
    model, _, step, *_ = pair(cases.plain, loss=cases.plain_loss)
    for number in range(2):
        step(cases.batch(0, number))
    choice = step._current().choices["captured"]
    choice.predicted, choice.times = predicted, [seconds] * 3
    return "stale" in step.prediction()


def sharded_and_clipped(rank):
    """(worst difference to eager training of the whole batch, loss by loss) under FSDP with clipping."""
    import torch.distributed as dist

    model = cases.transformer(layers=2)
    reference = copy.deepcopy(model)
    optimizer, other = (torch.optim.AdamW(m.parameters(), lr=1e-2) for m in (model, reference))
    step = weft_torch.compile(model, optimizer, cases.language_loss, parallel="fsdp", policy=None, clip_grad_norm=0.05)
    for number in range(4):
        step(cases.batch(rank, number))
        for one in range(dist.get_world_size()):
            (cases.language_loss(reference, cases.batch(one, number)) / dist.get_world_size()).backward()
        nn.utils.clip_grad_norm_(reference.parameters(), 0.05)
        other.step()
        other.zero_grad()
    return max(
        (cases.whole(a) - b).abs().max().item() for a, b in zip(model.parameters(), reference.parameters(), strict=True)
    )


class Ranks(unittest.TestCase):
    def test_wrappers_of_other_libraries(self):
        for text in cases.on_ranks(wrapped):
            self.assertIn("DistributedDataParallel", text)
            self.assertIn("parallel='ddp'", text)

    def test_what_differs_is_refused_on_all_ranks(self):
        for text in cases.on_ranks(other_model):
            self.assertIn("graph of rank 1 differs from rank 0", text)
        for function, word in ((other_options, "options"), (other_plan, "plan")):
            for text, seconds in cases.on_ranks(function):
                self.assertIn(f"{word} of rank 1 differs from rank 0", text)
                self.assertLess(seconds, 10)
        for text, _ in cases.on_ranks(refused_on_one):
            self.assertIn("accumulate=3", text)

    def test_timeline(self):
        for told, of_step, recorded, drawn in cases.on_ranks(timeline):
            self.assertIn("verdict", told)
            self.assertEqual(recorded, [of_step["all_reduce"]] * 2)
            self.assertTrue(drawn)

    def test_sharded_and_clipped(self):
        for difference in cases.on_ranks(sharded_and_clipped):
            self.assertLess(difference, TOLERANCE)


if __name__ == "__main__":
    unittest.main()
