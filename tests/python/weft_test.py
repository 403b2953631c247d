"""The Python module: steps, problems, policies, refusals, and the examples. Run with PYTHONPATH=build/python."""

import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import weft

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TINY = dict(model="tiny", grid="data=2", machine="laptop", global_batch=8)


def longest_way(problem):
    return problem.list_schedule(problem.upward_rank())


def diamond():
    """a, then b beside a collective, then c."""
    builder = weft.GraphBuilder("diamond").channel("data", ranks=8).tensor("x", bytes=1024)
    builder.task("a", cost_ns=1000, writes=["x"], phase="forward", layer=0)
    builder.task("reduce", cost_ns=3000, channel="data", operation="all_reduce", reads=["x"], writes=["x"])
    builder.task("b", cost_ns=2000, operation="gemm", after=["a"])
    builder.task("c", cost_ns=500, after=["b", "reduce"])
    return builder.build()


class Steps(unittest.TestCase):
    def test_a_step_of_a_configuration(self):
        step = weft.step(**TINY)
        self.assertEqual(len(step.problem), len(step.tasks.frame()))
        self.assertIn("tiny", step.title)
        report = step.plan("lhs")
        self.assertEqual(report.check(), [])
        self.assertEqual(report.policy, "lhs")
        self.assertGreaterEqual(report.step_ns, report.bound_ns)
        bounds = step.bounds()
        self.assertGreater(bounds["windows_ns"], 0)
        self.assertGreaterEqual(bounds["best_ns"], bounds["windows_ns"])
        self.assertEqual(report.bound_ns, bounds["best_ns"])
        timeline = report.timeline()
        self.assertEqual(len(timeline), len(step.problem))
        self.assertLessEqual(abs(timeline.end_ns.max() - report.step_ns), 2)
        self.assertTrue(report.svg().startswith("<?xml") or "<svg" in report.svg())

    def test_keys_take_precedence_over_a_file(self):
        file = str(SOURCE / "examples" / "serial.toml")
        self.assertEqual(weft.step(file, policy="serial").default_policy, "serial")

    def test_a_built_graph(self):
        graph = diamond()
        self.assertEqual((graph.name, graph.source, graph.world), ("diamond", "python", 1))
        step = graph.step()
        self.assertEqual(list(step.tasks.name), ["a", "reduce", "b", "c"])
        self.assertEqual(list(step.tasks.cost_ns), [1000, 3000, 2000, 500])
        self.assertEqual(step.bounds()["critical_path_ns"], 4500)
        self.assertEqual(step.plan("critical-path").step_ns, 4500)
        self.assertEqual(step.plan("serial").step_ns, 6500)
        self.assertEqual(sorted(map(int, step.problem.successors(0))), [1, 2])
        self.assertEqual(sorted(map(int, step.problem.predecessors(3))), [1, 2])
        self.assertEqual(list(step.problem.upward_rank()), [4500, 3500, 2500, 500])

    def test_what_if(self):
        step = diamond().step()
        self.assertEqual(step.scaled({"all_reduce": 0.5}).plan("critical-path").step_ns, 3500)
        self.assertEqual(diamond().step(bandwidth=3).plan("critical-path").step_ns, 3500)
        self.assertEqual(diamond().step(bandwidth={"data": 3}).plan("critical-path").step_ns, 3500)

    def test_files_go_and_come(self):
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/d.graph.json.gz"
            diamond().write(path)
            again = weft.step(path)
            self.assertEqual(list(again.tasks.cost_ns), list(diamond().step().tasks.cost_ns))
            slower = f"{folder}/s.graph.json"
            diamond().step().scaled({"gemm": 2}).write_graph(slower)
            self.assertEqual(list(weft.step(slower).tasks.cost_ns), [1000, 3000, 4000, 500])
            written = f"{folder}/t.graph.json"
            tiny = weft.step(**TINY)
            tiny.write_graph(written)
            self.assertEqual(weft.read_graph(written).step().bounds()["work_ns"], tiny.bounds()["work_ns"])
            tiny.plan("lhs").write_plan(f"{folder}/plan.json")
            self.assertEqual(tiny.plan(f"file:{folder}/plan.json").step_ns, tiny.plan("lhs").step_ns)

    def test_causes_and_remedies(self):
        report = weft.step(**TINY).plan("program")
        exposed = report.exposed(0)
        self.assertEqual(list(exposed.columns), ["task", "exposed_ns", "duration_ns", "cause", "because", "of_class"])
        self.assertGreater(len(exposed), 0)
        self.assertEqual(list(report.remedies(0).columns), ["of", "kind", "what", "gain_ns", "memory_bytes", "fits"])

    def test_a_pipeline(self):
        step = weft.step(str(SOURCE / "examples" / "pipeline.toml"), machine="laptop")
        self.assertEqual(sorted(set(step.tasks.of_class)), [0, 1])
        mine, published = step.plan(longest_way), step.plan("1f1b")
        self.assertEqual(mine.check() + published.check(), [])
        self.assertGreaterEqual(mine.step_ns, mine.bound_ns)
        timeline = published.timeline()
        self.assertEqual(len(timeline), len(step.problem))
        self.assertEqual(sorted(set(timeline.of_class)), [0, 1])
        self.assertIn("<svg", published.svg())
        self.assertLessEqual(set(published.exposed(0).of_class), {0, 1})

    def test_an_imported_trace(self):
        graph = weft.import_trace(str(SOURCE / "tests/fuzz/seeds/trace_import/paired.json"), whole=True)
        self.assertEqual(graph.source, "kineto")
        self.assertGreater(graph.step().plan().step_ns, 0)


class Policies(unittest.TestCase):
    def test_a_function_is_a_policy(self):
        step = weft.step(**TINY)
        report = step.plan(longest_way)
        self.assertEqual(report.policy, "longest_way")
        self.assertEqual(report.check(), [])
        self.assertEqual(report.step_ns, step.problem.simulate(longest_way(step.problem)).step_ns)

    def test_an_object_with_rewrites_reasons_and_edges(self):
        class Mine:
            def rewrites(self, problem):
                return ["ar-to-rs-ag"]

            def order(self, problem):
                count = len(problem)
                return weft.Order(range(count), reasons=["as it comes"] * count, edges=[(count - 1, 0, 0, 1)])

        report = weft.step(**TINY).plan(Mine())
        self.assertEqual(report.rewrites, "ar-to-rs-ag")
        self.assertEqual(set(report.timeline().reason), {"as it comes"})

    def test_simulations(self):
        problem = diamond().step().problem
        result = problem.simulate([0, 1, 2, 3], times=True, memory=True)
        self.assertEqual(result.step_ns, 4500)
        self.assertEqual(list(result.begin_ns), [0, 1000, 1000, 4000])
        self.assertEqual(list(result.end_ns), [1000, 4000, 3000, 4500])
        self.assertEqual(result.scratch_bytes, 1024)
        self.assertIsNone(problem.simulate([0, 1, 2, 3]).end_ns)
        with self.assertRaisesRegex(ValueError, "contradicts an edge"):
            problem.simulate([3, 2, 1, 0])
        with self.assertRaisesRegex(ValueError, "shape"):
            problem.simulate([0, 1])
        with self.assertRaises(ValueError):
            problem.tasks.cost_ns[0] = 1

    def test_wrong_policies_are_refused(self):
        step = diamond().step()
        with self.assertRaisesRegex(weft.Refused, "returns None"):
            step.plan(lambda problem: None)
        with self.assertRaisesRegex(weft.Refused, "twice"):
            step.plan(lambda problem: [0, 1, 1, 3])
        with self.assertRaises(weft.Refused) as refusal:
            step.plan("critical-pth")
        self.assertIn("critical-path", weft.fix_of(refusal.exception))
        with self.assertRaises(TypeError):
            step.plan(7)
        with self.assertRaises(ZeroDivisionError):
            step.plan(lambda problem: 1 // 0)

    def test_a_problem_ends_with_its_call(self):
        kept = []

        def keeps(problem):
            kept.append(problem)
            return range(len(problem))

        diamond().step().plan(keeps)
        with self.assertRaisesRegex(ValueError, "over"):
            kept[0].simulate([0, 1, 2, 3])

    def test_comparisons(self):
        frame = weft.compare(diamond().step(), ["serial", longest_way, "critical-path", "nothing"])
        self.assertEqual(list(frame.policy[:2]), ["longest_way", "critical-path"])
        self.assertTrue(np.isnan(frame.step_ns.iloc[-1]))
        self.assertIn("nothing", frame.refused.iloc[-1])


class Refusals(unittest.TestCase):
    def test_whatever_the_command_refuses(self):
        with self.assertRaisesRegex(weft.Refused, "model"):
            weft.step(model="gtp2")
        with self.assertRaisesRegex(weft.Refused, "no-such-key"):
            weft.step(no_such_key=1)
        with self.assertRaises(weft.Refused):
            weft.read_graph("missing.graph.json")
        with self.assertRaisesRegex(weft.Refused, "comes twice"):
            weft.GraphBuilder("x").task("a", cost_ns=1).task("a", cost_ns=1)
        with self.assertRaisesRegex(weft.Refused, "isn't there"):
            weft.GraphBuilder("x").task("a", cost_ns=1, after=["b"])
        with self.assertRaises(weft.Refused):
            weft.GraphBuilder("x").build()
        with self.assertRaises(weft.Refused):
            weft.step(**TINY).with_memory(-1)
        with self.assertRaises(weft.Refused):
            weft.step(**TINY).with_memory(1000).plan("program")


class Examples(unittest.TestCase):
    def run_example(self, name, *arguments):
        command = [sys.executable, str(SOURCE / "examples" / "python" / name), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout

    def test_the_policy_beats_the_longest_way_alone(self):
        sys.path.insert(0, str(SOURCE / "examples" / "python"))
        from policy import jittered

        step = weft.step(model="gpt2-124m", grid="y=2,z=2,data=2", machine="dgx-h100", dtype="bf16",
                         global_batch=16, micro_batch=2)  # fmt: skip
        best = step.plan(jittered).step_ns
        self.assertLessEqual(best, step.plan(longest_way).step_ns)
        self.assertEqual(best, step.plan(f"{SOURCE}/examples/python/policy.py:jittered").step_ns)

    def test_the_sweep(self):
        with tempfile.TemporaryDirectory() as folder:
            text = self.run_example("sweep.py", f"{folder}/sweep.csv")
            self.assertIn("best: ", text)
            self.assertEqual(len(pathlib.Path(f"{folder}/sweep.csv").read_text().splitlines()), 17)

    @unittest.skipUnless(importlib.util.find_spec("ortools"), "OR-tools isn't installed")
    def test_the_exact_solver(self):
        with tempfile.TemporaryDirectory() as folder:
            diamond().step().scaled({"*": 1000}).write_graph(f"{folder}/d.graph.json")
            text = self.run_example("cp_sat.py", f"{folder}/d.graph.json")
        self.assertIn("CP-SAT: 4.500 ms; no order is below 4.500 ms", text)

    def test_the_what_if(self):
        text = self.run_example("what_if.py", str(SOURCE / "tests/fuzz/seeds/trace_import/paired.json"))
        self.assertIn("network twice as fast", text)


if __name__ == "__main__":
    unittest.main()
