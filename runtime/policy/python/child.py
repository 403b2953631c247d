# Runs a policy for the command, in a process of its own: reads the problem from shared memory, asks the policy, and
# tells its answer. Comes after problem.py in one program.
import ctypes
import importlib.util
import json
import mmap
import os
import signal
import sys
import traceback
import types

PR_SET_PDEATHSIG = 1


class Refused(Exception):
    """What is wrong with the policy, in words for its author."""


class CommandHost:
    """Asks the command, by a line of JSON each way. Arrays pass through memory that both processes map."""

    def __init__(self, problem: int, exchange: int, requests: int, answers: int):
        self._requests = os.fdopen(requests, "wb", buffering=0)
        self._answers = os.fdopen(answers, "rb")
        self.head = json.loads(self._answers.readline())
        self._problem = mmap.mmap(problem, 0, prot=mmap.PROT_READ)
        memory = mmap.mmap(exchange, 0)
        count = self.head["tasks"]
        self._arrays = {}
        for name, kind, offset in self.head["exchange"]:
            self._arrays[name] = np.frombuffer(memory, kind, count, offset)

    def tables(self) -> dict:
        tables: dict = {}
        for column in self.head["columns"]:
            kind, count, offset = column["type"], column["count"], column["offset"]
            if kind == "text":
                text = self._problem[offset : offset + column["bytes"]].decode()
                values = np.array(text.split("\0")[:-1], dtype=object)
            else:
                values = np.frombuffer(self._problem, kind, count, offset)
            tables.setdefault(column["table"], {})[column["name"]] = values
        return tables

    def tell(self, **message) -> None:
        self._requests.write(json.dumps(message).encode() + b"\n")

    def ask(self, **message) -> dict:
        self.tell(**message)
        line = self._answers.readline()
        if not line:
            raise SystemExit(1)
        answer = json.loads(line)
        if "error" in answer:
            raise ValueError(answer["error"])
        return answer

    def place(self, sequence, streams) -> None:
        self._arrays["sequence"][:] = sequence
        self._arrays["streams"][:] = streams

    def place_reasons(self, reasons) -> None:
        self._arrays["reasons"][:] = reasons

    # -- for Problem -------------------------------------------------------------------------------------------

    def simulate(self, sequence, streams, edges, times, memory):
        self.place(sequence, streams)
        answer = self.ask(ask="simulate", times=times, memory=memory, edges=whole_numbers(edges))
        begin = self._arrays["begin_ns"].copy() if times else None
        end = self._arrays["end_ns"].copy() if times else None
        return answer["step_ns"], begin, end, answer.get("scratch_bytes")

    def schedule(self, priorities):
        self._arrays["priorities"][:] = priorities
        self.ask(ask="schedule")
        return self._arrays["sequence"].copy(), self._arrays["streams"].copy()


def whole_numbers(edges) -> list:
    return [[int(number) for number in edge] for edge in edges]


def offer_words() -> None:
    """`from weft import Order` works where the package isn't installed too."""
    if importlib.util.find_spec("weft") is None:
        module = types.ModuleType("weft")
        module.Order, module.Problem, module.Simulation = Order, Problem, Simulation
        sys.modules["weft"] = module


def load(path: str, name: str):
    offer_words()
    # Last, so that a file beside the policy never stands in for a module of Python or an installed one.
    sys.path.append(os.path.dirname(os.path.abspath(path)))
    spec = importlib.util.spec_from_file_location("weft_policy", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["weft_policy"] = module
    spec.loader.exec_module(module)
    target = getattr(module, name, None)
    if callable(target):
        return target
    known = [each for each, value in vars(module).items() if callable(value) and not each.startswith("_")]
    raise Refused(f"it has no function or class {name}; it has {', '.join(known) or 'none'}")


def number_or_text(word: str):
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            pass
    return {"true": True, "on": True, "false": False, "off": False}.get(word, word)


def answer_order(host: CommandHost, problem: Problem, answer) -> None:
    if answer is None:
        raise Refused("it returns None; return the sequence, or an Order")
    order = problem.order(answer if isinstance(answer, Order) else Order(*as_order(answer)))
    host.place(order.sequence, order.streams)
    texts: list = []
    if order.reasons is not None:
        if len(order.reasons) != len(problem):
            raise Refused(f"its order has {len(order.reasons)} reasons; expected {len(problem)}, one for each position")
        numbers: dict = {}
        for reason in order.reasons:
            numbers.setdefault(str(reason), len(numbers) + 1)
        host.place_reasons([numbers[str(reason)] for reason in order.reasons])
        texts = list(numbers)
    edges = [(*edge, 0, 0)[:4] if len(edge) == 2 else edge for edge in order.edges]
    host.tell(done="order", reasons=texts, edges=whole_numbers(edges))


def as_order(answer) -> tuple:
    """An Order of the module weft is another class than this program's, but has the same fields."""
    fields = ("sequence", "streams", "reasons", "edges")
    if hasattr(answer, "_fields") and tuple(answer._fields) == fields:
        return tuple(answer)
    return (answer,)


def run(host: CommandHost, path: str, name: str) -> None:
    head = host.head
    problem = Problem(host.tables(), head["memory_limit"], head["shared_cores"], head["seed"], host)
    parameters = {key.replace("-", "_"): number_or_text(value) for key, value in head["parameters"]}
    target = load(path, name)
    if isinstance(target, type):
        policy = target(**parameters)
        function = getattr(policy, head["function"], None)
        if function is None and head["function"] == "order":
            function = policy if callable(policy) else None
        if function is None and head["function"] == "order":
            raise Refused(f"its class {name} has no method order(self, problem)")
    else:
        function = None if head["function"] == "rewrites" else lambda problem: target(problem, **parameters)
    if head["function"] == "rewrites":
        texts = [] if function is None else function(problem)
        host.tell(done="rewrites", rewrites=[texts] if isinstance(texts, str) else [str(text) for text in texts or []])
    else:
        answer_order(host, problem, function(problem))


def print_own_frames(error: BaseException) -> None:
    """The traceback from the author's first line on; nothing if the mistake is only seen afterwards."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == "<string>":
        trace = trace.tb_next
    if trace is not None:
        traceback.print_exception(type(error), error, trace)


def place_of(error: BaseException, path: str) -> str:
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return f" (line {lines[-1]})" if lines else ""


def main() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    path, name, *descriptors = sys.argv[1:]
    host = CommandHost(*map(int, descriptors))
    try:
        run(host, path, name)
    except Refused as refusal:
        host.tell(failed=str(refusal))
    except Exception as error:  # whatever the policy does wrong is told to its author
        print_own_frames(error)
        host.tell(failed=f"{type(error).__name__}: {error}{place_of(error, path)}")


main()
