# Renders chat templates for the command, in a process of its own, as transformers' apply_chat_template does. Reads the
# template and then a request a line; answers each with a line. Memory and CPU time are limited, so that a template from
# elsewhere harms nothing.
import contextlib
import datetime
import json
import os
import resource
import sys
import time

MEMORY_BYTES = 512 << 20
REASONING = ("reasoning_content", "thinking", "reasoning")
# Members of a message that change what is said. A template that doesn't name them would leave them out.
SAYING = {"tool_calls": ("tool_calls",), "function_call": ("function_call",)} | {name: REASONING for name in REASONING}
SHAREGPT_ROLES = {"system": "system", "human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant",
                  "tool": "tool", "observation": "tool"}


class Refused(Exception):
    """What is wrong with a record or a template: found, expected, fix."""

    def __init__(self, found, expected="", fix=""):
        super().__init__(found)
        self.found, self.expected, self.fix = found, expected, fix


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def limit_cpu(seconds):
    """For the next text. The kernel ends the process by SIGXCPU."""
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + 1 + seconds, hard))


def common_length(first, second):
    return len(os.path.commonprefix((first, second)))


def make_environment(spans):
    """`spans` takes what {% generation %} marks."""
    from jinja2 import exceptions, ext, nodes, sandbox, utils

    class Generation(ext.Extension):
        tags = {"generation"}

        def parse(self, parser):
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.CallBlock(self.call_method("mark"), [], [], body).set_lineno(line)

        def mark(self, caller):
            text = caller()
            spans.append((spans.offset, spans.offset + len(text)))
            return text

    class Namespace(utils.Namespace):
        """Without names that lead to Python's own attributes."""

        def __init__(*given, **names):
            self, *given = given
            members = dict(*given, **names)
            for name in members:
                Namespace.check(name)
            utils.Namespace.__init__(self, members)

        def __setitem__(self, name, value):
            Namespace.check(name)
            utils.Namespace.__setitem__(self, name, value)

        @staticmethod
        def check(name):
            if str(name).startswith("_"):
                raise exceptions.SecurityError(f"{name!r} can't be an attribute of a namespace")

    def raise_exception(message):
        raise exceptions.TemplateError(message)

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    made = sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                 extensions=[Generation, ext.loopcontrols])
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    made.globals["namespace"] = Namespace
    return made


class Spans(list):
    offset = 0  # of what is written next


class Rendered:
    """A text, what {% generation %} marked of it, and the template's line that wrote each part."""

    def __init__(self, text, spans, lines):
        self.text, self.spans, self.lines = text, spans, lines

    def line_at(self, offset):
        return next((line for end, line in self.lines if offset < end), self.lines[-1][1] if self.lines else 1)


class Chat:
    """A model's templates by name, and its special tokens."""

    def __init__(self, head):
        self.spans = Spans()
        self.environment = make_environment(self.spans)
        self.sources, self.special, self.stops = head["templates"], head["special"], head["stops"]
        self.compiled = {}

    def source_of(self, tools):
        if tools and "tool_use" in self.sources:
            return self.sources["tool_use"]
        if "default" in self.sources:
            return self.sources["default"]
        raise Refused(f"no chat template named default among {', '.join(sorted(self.sources))}",
                      "one of that name", "--chat-template FILE with the template")

    def render(self, messages, tools, prompt=False):
        source = self.source_of(tools)
        if source not in self.compiled:
            self.compiled[source] = self.environment.from_string(source)
        template = self.compiled[source]
        self.spans.clear()
        context = template.new_context(
            {**self.special, "messages": messages, "tools": tools, "documents": None, "add_generation_prompt": prompt})
        parts, lines, self.spans.offset = [], [], 0
        writing = template.root_render_func(context)
        for part in writing:
            parts.append(part)
            self.spans.offset += len(part)
            lines.append((self.spans.offset, template.get_corresponding_lineno(writing.gi_frame.f_lineno)))
        return Rendered("".join(parts), list(self.spans), lines)

    def text_of(self, messages, tools, prompt=False):
        """None where the template refuses these messages."""
        from jinja2 import exceptions
        try:
            return self.render(messages, tools, prompt).text
        except (exceptions.TemplateError, TypeError, ValueError, LookupError, AttributeError):
            return None

    # -- what is learnt ------------------------------------------------------------------------------------------

    def learnt(self, messages, tools, weights):
        turns = [i for i, message in enumerate(messages) if message.get("role") == "assistant"]
        if not turns:
            raise Refused("messages has no message of the assistant", "one or more, which are learnt",
                          "leave the line out")
        full = self.render(messages, tools)
        expect_content(messages, full.text)
        if full.spans:
            return full.text, self.weighted(full.spans, turns, weights)
        wanted = [i for i in turns if weights[i] == 1]
        found = [self.turn(messages, tools, full.text, i) for i in wanted]
        ranges = [each for each in found if each is not None]
        if wanted and not ranges:
            self.refuse_changed(messages, tools, full, wanted[-1])
        return full.text, ranges

    @staticmethod
    def weighted(spans, turns, weights):
        left_out = [i for i in turns if weights[i] == 0]
        if left_out and len(spans) != len(turns):
            raise Refused(f"messages[{left_out[0]}].weight is 0, and the template marks {len(spans)} parts of "
                          f"{len(turns)} turns as generated", "one mark a turn", "leave the weights out")
        return [span for span, i in zip(spans, turns) if weights[i] == 1] if left_out else spans

    def turn(self, messages, tools, full, i):
        """The range of the assistant's turn in the text, if the text has it as a model would write it."""
        before = self.text_of(messages[:i], tools, prompt=True)
        after = self.text_of(messages[: i + 1], tools)
        if before is None or after is None:
            return None
        if full.startswith(after):
            base = before if full.startswith(before) else self.text_of(messages[:i], tools)
            if base is not None and full.startswith(base):
                return self.ended(full, common_length(before, full), len(after))
        return self.kept_turn(messages, tools, full, i, before, after)

    def kept_turn(self, messages, tools, full, i, before, after):
        """Where the text before the turn is another in the end: found by a mark in place of the content."""
        content = messages[i].get("content")
        if not isinstance(content, str) or not content:
            return None
        mark = "\ue000content\ue001"
        marked = messages[:i] + [{**messages[i], "content": mark}] + messages[i + 1 :]
        whole, alone = self.text_of(marked, tools), self.text_of(marked[: i + 1], tools)
        if whole is None or alone is None or whole.count(mark) != 1 or alone.count(mark) != 1:
            return None
        (head, tail), (own_head, own_tail) = whole.split(mark), alone.split(mark)
        if not (full.startswith(head) and full.endswith(tail) and after.startswith(own_head)
                and after.endswith(own_tail)):
            return None
        begin, end = len(head), len(full) - len(tail)
        if full[begin:end] != after[len(own_head) : len(after) - len(own_tail)]:
            return None
        written = own_head[len(before) :] if own_head.startswith(before) else ""
        if not head.endswith(written):
            return None
        return self.ended(full, begin - len(written), end + common_length(own_tail, full[end:]))

    def ended(self, full, begin, end):
        """Without the white space after the token that ends a turn."""
        text = full[begin:end].rstrip()
        if any(text.endswith(stop) for stop in self.stops):
            end = begin + len(text)
        return (begin, end) if end > begin else None

    def refuse_changed(self, messages, tools, full, i):
        after = self.text_of(messages[: i + 1], tools)
        at = common_length(after, full.text) if after is not None else 0
        raise Refused(f"the template's line {full.line_at(at)} changes the assistant's turn messages[{i}] that the "
                      "text ends with", "a turn that the whole text keeps as the model would write it",
                      "mark what is learnt by {% generation %} in a template of your own: --chat-template FILE")


# -- records ---------------------------------------------------------------------------------------------------------


def expect_messages(messages, place="messages"):
    if not isinstance(messages, list) or not messages:
        raise Refused(f"{place} is {json.dumps(messages)[:60]}", "a list of messages", "correct the record")
    for i, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise Refused(f"{place}[{i}] has no role", "an object with the texts role and content",
                          "correct the record")


def cleaned(messages):
    """As transformers hands them to a template: without nulls, with reasoning under all of its names."""
    made = []
    for message in messages:
        message = {key: value for key, value in message.items() if value is not None}
        thought = next((message[name] for name in REASONING if name in message), None)
        if thought is not None:
            message = {"thinking": thought, **message, "reasoning_content": thought}
        made.append(message)
    return made


def says(value):
    return value not in (None, "", [], {})


def expect_named(messages, tools, source):
    """A template that doesn't name a member would leave it out."""
    if tools and "tools" not in source:
        raise Refused("tools is given, and the chat template doesn't read it", "a template that names tools",
                      "leave the member out, or --chat-template FILE")
    for i, message in enumerate(messages):
        for name, known in SAYING.items():
            if says(message.get(name)) and not any(each in source for each in known):
                raise Refused(f"messages[{i}].{name} is given, and the chat template doesn't read it",
                              f"a template that names {name}", "leave the member out, or --chat-template FILE")


def expect_parts(messages):
    for i, message in enumerate(messages):
        content = message.get("content")
        if content is not None and not isinstance(content, str) and (not isinstance(content, list) or any(
                not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str)
                for part in content)):
            raise Refused(f"messages[{i}].content is {json.dumps(content)[:60]}",
                          'a text, or a list of {"type": "text", "text": …}', "take other parts out")


def expect_content(messages, text):
    """A template that reads texts alone would write a list as Python prints it."""
    for i, message in enumerate(messages):
        content = message.get("content")
        if isinstance(content, list) and (
                str(content) in text or any(part["text"].strip() not in text for part in content)):
            raise Refused(f"messages[{i}].content is a list, which the chat template doesn't read", "a text",
                          "join the texts of the list")


def of_sharegpt(record):
    messages = []
    if says(record.get("system")):
        messages.append({"role": "system", "content": record["system"]})
    for i, turn in enumerate(record["conversations"]):
        if not isinstance(turn, dict) or not isinstance(turn.get("value"), str):
            raise Refused(f"conversations[{i}] has no text value", 'an object with "from" and "value"',
                          "correct the record")
        role = SHAREGPT_ROLES.get(turn.get("from"))
        if role is None:
            raise Refused(f"conversations[{i}].from is {json.dumps(turn.get('from'))}",
                          "one of " + ", ".join(SHAREGPT_ROLES), "name the role by one of them")
        weight = {"weight": turn["weight"]} if turn.get("weight") is not None else {}
        messages.append({"role": role, "content": turn["value"], **weight})
    return messages


def of_alpaca(record):
    def exchange(question, answer, place):
        if not isinstance(question, str) or not isinstance(answer, str):
            raise Refused(f"{place} isn't two texts", "texts", "correct the record")
        return [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]

    messages = [{"role": "system", "content": record["system"]}] if says(record.get("system")) else []
    for i, turn in enumerate(record.get("history") or []):
        messages += exchange(*turn, f"history[{i}]") if isinstance(turn, list) and len(turn) == 2 else exchange(
            None, None, f"history[{i}]")
    more = record.get("input")
    question = record["instruction"] + ("\n" + more if says(more) else "")
    return messages + exchange(question, record["output"], "the record")


def of_halves(record):
    """TRL's prompt and completion: only the completion is learnt."""
    for name in ("prompt", "completion"):
        expect_messages(record[name], name)
    asked = [{**message, "weight": 0} if message["role"] == "assistant" else message for message in record["prompt"]]
    return asked + record["completion"]


def messages_of(record, form):
    made = {"sharegpt": of_sharegpt, "alpaca": of_alpaca, "halves": of_halves}
    messages = made[form](record) if form in made else record["messages"]
    expect_messages(messages)
    return messages


# -- the conversation with the command -----------------------------------------------------------------------------


def bytes_before(text, offsets):
    done, size, sizes = 0, 0, []
    for offset in offsets:
        size += len(text[done:offset].encode())
        done = offset
        sizes.append(size)
    return sizes


def answer(chat, request):
    if request["ask"] == "end":
        mark = "\ue000content\ue001"
        text = chat.text_of([{"role": "user", "content": "x"}, {"role": "assistant", "content": mark}], None)
        return {"text": text.split(mark)[1] if text is not None and text.count(mark) == 1 else ""}
    record = json.loads(request["record"])
    messages, tools = messages_of(record, request["form"]), record.get("tools") or None
    if tools is not None and not isinstance(tools, list):
        raise Refused(f"tools is {json.dumps(tools)[:60]}", "a list of JSON schemas", "correct the record")
    expect_named(messages, tools, chat.source_of(tools))
    expect_parts(messages)
    messages = cleaned(messages)
    weights = [message.pop("weight", 1) for message in messages]
    for i, weight in enumerate(weights):
        if isinstance(weight, bool) or weight not in (0, 1):
            raise Refused(f"messages[{i}].weight is {json.dumps(weight)}", "0 or 1", "round it")
    if request["ask"] == "prompt":
        text = chat.render(messages, tools, prompt=True).text
        expect_content(messages, text)
        return {"text": text}
    text, ranges = chat.learnt(messages, tools, weights)
    at = bytes_before(text, [offset for each in ranges for offset in each])
    return {"text": text, "learnt": list(zip(at[::2], at[1::2]))}


def template_line(error, chat):
    """The template's line in which an exception was raised, if it was in one."""
    line, at = getattr(error, "lineno", None), error.__traceback__
    while at is not None:
        for compiled in chat.compiled.values():
            if compiled.root_render_func.__globals__ is at.tb_frame.f_globals:
                line = compiled.get_corresponding_lineno(at.tb_lineno)
        at = at.tb_next
    return line


def guarded(chat, request):
    from jinja2 import exceptions
    try:
        made = answer(chat, request)
        made["text"].encode()
        return made
    except Refused as refused:
        return {"found": refused.found, "expected": refused.expected, "fix": refused.fix}
    except MemoryError:
        return {"found": f"the chat template takes more than {MEMORY_BYTES >> 20} MiB", "expected": "", "fix": ""}
    except UnicodeEncodeError:
        return {"found": "the chat template writes half a character", "expected": "", "fix": ""}
    except RecursionError:
        return {"found": "the chat template calls itself without an end", "expected": "", "fix": ""}
    except Exception as error:  # of the template's code
        line = template_line(error, chat)
        kind = "" if isinstance(error, exceptions.TemplateError) else type(error).__name__ + ": "
        return {"found": f"the chat template{f', line {line},' if line else ''} refuses it: {kind}{error}",
                "expected": "", "fix": ""}


def main():
    requests, answers = int(sys.argv[1]), int(sys.argv[2])
    with os.fdopen(requests, "w", encoding="ascii") as told, os.fdopen(answers, "rb") as asked:
        def tell(message):
            told.write(json.dumps(message) + "\n")
            told.flush()

        try:
            from jinja2 import exceptions, ext, nodes, sandbox, utils  # noqa: F401
        except ImportError:
            tell({"missing": True})
            return
        limit_memory()
        head = json.loads(asked.readline())
        chat = Chat(head)
        tell({"ready": True})
        for line in asked:
            limit_cpu(head["cpu_seconds"])
            tell(guarded(chat, json.loads(line)))


with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
    main()
