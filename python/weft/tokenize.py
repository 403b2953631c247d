"""Streams the records of a data set through `weft tokenize`: Parquet and Arrow files, folders of them, folders that
`Dataset.save_to_disk` wrote, and data sets of the Hugging Face Hub.

The records go to the program as JSON lines, so that their forms, the tokenizer and its chat template are those of
`weft tokenize x.jsonl`. No record is written to a disk in between.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import math
import pathlib
import shutil
import subprocess
import sys
from typing import Any, Iterable, Iterator, NoReturn, Optional, Sequence

BATCH_ROWS = 1000
#: Options of `weft tokenize`, which get the values that are given.
VALUES = ("--tokenizer", "--chat-template", "--field", "--separator", "--show", "--threads")
FLAGS = ("--special", "--verify", "--json", "--quiet")
EXAMPLES = """examples:
  python3 -m weft.tokenize train-00000-of-00002.parquet --tokenizer SmolLM2-135M-Instruct -o chats.bin
  python3 -m weft.tokenize saved --split train --tokenizer tokenizer.json --field content -o saved.bin
  python3 -m weft.tokenize HuggingFaceTB/smoltalk --config all --split train --limit 10000 \\
      --tokenizer SmolLM2-135M-Instruct -o smoltalk.bin
  python3 -m weft.tokenize alpaca.parquet --tokenizer SmolLM2-135M-Instruct --show 1"""


class Refused(Exception):
    """What a person has to change: found, expected, fix."""

    def __init__(self, found: str, expected: str, fix: str):
        super().__init__(f"weft.tokenize: error: {found}; expected {expected}\n  fix: {fix}")


def arrow() -> Any:
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise Refused("the Python package pyarrow is missing", "pyarrow, which reads Parquet and Arrow files",
                      "pip install pyarrow") from error  # fmt: skip
    import pyarrow

    return pyarrow


def rows_of_arrow(path: pathlib.Path) -> Iterator[Any]:
    """The batches of a file in Arrow's stream or file format."""
    pyarrow = arrow()
    with pyarrow.memory_map(str(path)) as file:
        try:
            yield from pyarrow.ipc.open_stream(file)
            return
        except pyarrow.ArrowInvalid:
            file.seek(0)
        reader = pyarrow.ipc.open_file(file)
        for index in range(reader.num_record_batches):
            yield reader.get_batch(index)


def rows_of_parquet(path: pathlib.Path) -> Iterator[Any]:
    with arrow().parquet.ParquetFile(path) as file:
        yield from file.iter_batches(BATCH_ROWS)


READERS = {".parquet": rows_of_parquet, ".arrow": rows_of_arrow}


def is_readable(type_of_column: Any) -> bool:
    """Whether JSON holds the values of a column: bytes, such as those of pictures, have no form in it."""
    types = arrow().types
    if types.is_binary(type_of_column) or types.is_large_binary(type_of_column):
        return False
    if types.is_fixed_size_binary(type_of_column):
        return False
    return all(is_readable(type_of_column.field(index).type) for index in range(type_of_column.num_fields))


def records_of_files(paths: Sequence[pathlib.Path]) -> Iterator[dict]:
    told: set[str] = set()
    for path in paths:
        try:
            for batch in READERS[path.suffix](path):
                left_out = [field.name for field in batch.schema if not is_readable(field.type)]
                for name in left_out:
                    if name not in told:
                        print(f"note: column {name} is left out: it holds bytes", file=sys.stderr)
                told.update(left_out)
                yield from batch.drop_columns(left_out).to_pylist()
        except (OSError, arrow().ArrowException) as error:
            raise Refused(f"'{path}' can't be read: {error}", "a whole Parquet or Arrow file",
                          "download or write the file again") from error  # fmt: skip


def split_of(name: str) -> str:
    """The split of a shard: "train" of "train-00000-of-00002.parquet"."""
    head, dash, rest = pathlib.Path(name).stem.partition("-")
    return head if dash and rest[:1].isdigit() else ""


def one_split(found: Iterable[str], wanted: Optional[str], where: str) -> str:
    names = sorted(set(found))
    if wanted is None and len(names) == 1:
        return names[0]
    if wanted in names:
        return wanted
    asked = "no --split" if wanted is None else f"--split {wanted}"
    raise Refused(f"'{where}' has the splits {', '.join(map(repr, names))}, and {asked} is given", "one of them",
                  f"--split {names[0]}")  # fmt: skip


def files_of_folder(folder: pathlib.Path, split: Optional[str]) -> list[pathlib.Path]:
    if (folder / "dataset_dict.json").is_file():
        splits = json.loads((folder / "dataset_dict.json").read_text())["splits"]
        return files_of_folder(folder / one_split(splits, split, str(folder)), None)
    if (folder / "state.json").is_file():
        shards = json.loads((folder / "state.json").read_text())["_data_files"]
        return [folder / shard["filename"] for shard in shards]
    files = sorted(path for path in folder.rglob("*") if path.suffix in READERS and path.is_file())
    if not files:
        raise Refused(f"'{folder}' holds no Parquet or Arrow file", "a data set's files, or what save_to_disk wrote",
                      "weft tokenize reads text and JSON lines")  # fmt: skip
    chosen = one_split((split_of(path.name) for path in files), split, str(folder))
    return [path for path in files if split_of(path.name) == chosen]


def records_of_hub(name: str, config: Optional[str], split: Optional[str]) -> Iterable[dict]:
    try:
        import datasets
    except ImportError as error:
        raise Refused(f"'{name}' is no file or folder, and the Python package datasets, which would load a data set of "
                      "that name, is missing", "a path, or datasets", "check the path, or pip install datasets") from error  # fmt: skip
    try:
        splits = datasets.get_dataset_split_names(name, config)
        return datasets.load_dataset(name, config, split=one_split(splits, split, name), streaming=True)
    except (OSError, ValueError) as error:
        raise Refused(f"'{name}' can't be loaded: {error}", "a file, a folder, or a data set of the Hugging Face Hub",
                      "check the name, --config and the network") from error  # fmt: skip


def records_of(source: str, config: Optional[str], split: Optional[str]) -> Iterable[dict]:
    path = pathlib.Path(source)
    if not path.exists():
        return records_of_hub(source, config, split)
    if config is not None:
        raise Refused(f"--config {config} for '{source}'", "--config with a name of the Hugging Face Hub alone",
                      "leave --config out")  # fmt: skip
    if path.is_dir():
        return records_of_files(files_of_folder(path, split))
    if split is not None:
        raise Refused(f"--split {split} for the file '{source}'", "--split with a folder or a name", "leave --split out")
    if path.suffix not in READERS:
        raise Refused(f"'{source}' is no .parquet or .arrow file", "a Parquet or Arrow file, or a folder with some",
                      "weft tokenize reads text and JSON lines")  # fmt: skip
    return records_of_files([path])


def plain(value: Any) -> Any:
    """A value as JSON has it: dates and times by ISO 8601, what is no number as null."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return value if value is None or isinstance(value, (str, bool, int, float)) else str(value)


def program_of(given: Optional[str]) -> str:
    """The program weft: the given one, that of the build tree with this module, or the first in PATH."""
    built = pathlib.Path(__file__).resolve().parents[2] / "weft"
    found = given or (str(built) if built.is_file() else shutil.which("weft"))
    if not found or not shutil.which(found):
        raise Refused(f"the program weft isn't {'at ' + repr(given) if given else 'in PATH'}", "weft, which tokenizes",
                      "install Weft, or give --program build/weft")  # fmt: skip
    return found


def stream(records: Iterable[dict], command: Sequence[str], limit: Optional[int]) -> int:
    """Runs the command with the records as its standard input, and returns its exit code."""
    child = subprocess.Popen(command, stdin=subprocess.PIPE)
    assert child.stdin is not None
    try:
        for index, record in enumerate(records):
            if index == limit:
                break
            line = json.dumps(plain(record), ensure_ascii=False) + "\n"
            child.stdin.write(line.encode())
        child.stdin.close()
    except BrokenPipeError:
        pass  # the program tells why it doesn't read on
    except BaseException:
        child.kill()  # before its input ends, so that it doesn't write a file of the records so far
        child.wait()
        raise
    return child.wait()


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python3 -m weft.tokenize", description=__doc__.split("\n\n")[0], epilog=EXAMPLES, allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    made.add_argument("sources", nargs="+", metavar="source",
                      help="a .parquet or .arrow file, a folder of them or of save_to_disk, or a Hub name")  # fmt: skip
    made.add_argument("-o", "--output", metavar="FILE", help="the token file to write, with FILE.json beside it")
    made.add_argument("--split", help="of a folder or a Hub name with several splits")
    made.add_argument("--config", help="the configuration of a Hub name")
    made.add_argument("--limit", type=int, metavar="N", help="the first N records alone")
    made.add_argument("--program", metavar="PATH", help="the program weft; default: that of the build, or of PATH")
    handed_on = made.add_argument_group("options of weft tokenize", "weft tokenize --help tells what they mean")
    for name in VALUES:
        handed_on.add_argument(name, metavar="VALUE")
    for name in FLAGS:
        handed_on.add_argument(name, action="store_true")
    return made


def command_of(options: argparse.Namespace) -> list[str]:
    given = {name: getattr(options, name[2:].replace("-", "_")) for name in (*VALUES, *FLAGS)}
    command = [program_of(options.program), "tokenize", "-"]
    for name, value in [*given.items(), ("--output", options.output)]:
        if value is True:
            command.append(name)
        elif value not in (None, False):
            command.append(f"{name}={value}")
    return command


def main(arguments: Optional[Sequence[str]] = None) -> int:
    options = parser().parse_args(arguments)
    try:
        if options.limit is not None and options.limit < 1:
            raise Refused(f"--limit {options.limit}", "at least 1 record", "--limit 1000")
        command = command_of(options)
        sources = [records_of(source, options.config, options.split) for source in options.sources]
        return stream(itertools.chain.from_iterable(sources), command, options.limit)
    except Refused as refused:
        print(refused, file=sys.stderr)
        return 2


def run() -> NoReturn:
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    run()
