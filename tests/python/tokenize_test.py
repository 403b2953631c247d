"""python -m weft.tokenize: what it writes equals what weft tokenize writes of the same records as JSON lines. Run with
PYTHONPATH=build/python."""

import datetime
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import pyarrow as pa
import pyarrow.parquet

import weft.tokenize

BUILD = pathlib.Path(weft.tokenize.__file__).resolve().parents[2]
RECORDS = [{"text": f"Zeile {i} é 漢\n", "day": datetime.date(2024, 1, 1 + i), "score": float("nan")} for i in range(9)]
CHATS = [{"messages": [{"role": "user", "content": f"code {i}?"}, {"role": "assistant", "content": str(i * i)}]}
         for i in range(5)]  # fmt: skip
HUB = """
def get_dataset_split_names(name, config):
    if name != "owner/chats":
        raise FileNotFoundError("no such data set")
    return ["train", "test"]

def load_dataset(name, config, split, streaming):
    assert streaming
    return ({"text": f"{name} {config} {split} {i}"} for i in range(10**9))
"""


def write_stream(path, records):
    table = pa.Table.from_pylist(records)
    with pa.ipc.new_stream(path, table.schema) as file:
        file.write_table(table, max_chunksize=4)


class Tokenize(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.answer = None

    def run_it(self, *arguments):
        command = [sys.executable, "-m", "weft.tokenize", *arguments]
        self.answer = subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=self.folder)
        return self.answer.returncode

    def digests(self, name):
        return [hashlib.sha256((self.folder / file).read_bytes()).hexdigest() for file in (name, name + ".json")]

    def expect_ids_of(self, records, *arguments, options=()):
        (self.folder / "lines.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
        wanted = [BUILD / "weft", "tokenize", "lines.jsonl", "-o", "wanted.bin", *options]
        subprocess.run(wanted, check=True, cwd=self.folder, capture_output=True, timeout=100)
        self.assertEqual(self.run_it(*arguments, "-o", "got.bin", *options), 0, self.answer)
        self.assertEqual(self.digests("got.bin"), self.digests("wanted.bin"))

    def expect_refused(self, *arguments, part):
        self.assertEqual(self.run_it(*arguments, "-o", "refused.bin"), 2, self.answer)
        self.assertIn(part, self.answer.stderr)
        self.assertEqual(list(self.folder.glob("refused.bin*")), [])

    def test_parquet_and_both_forms_of_arrow(self):
        texts = [{"text": record["text"]} for record in RECORDS]
        pa.parquet.write_table(pa.Table.from_pylist(RECORDS), self.folder / "a.parquet", row_group_size=2)
        self.expect_ids_of(texts, "a.parquet")
        self.expect_ids_of(texts[:4], "--limit", "4", "a.parquet")
        write_stream(self.folder / "b.arrow", RECORDS)
        self.expect_ids_of(texts + texts, "b.arrow", "a.parquet")
        table = pa.Table.from_pylist(RECORDS)
        with pa.ipc.new_file(self.folder / "c.arrow", table.schema) as file:
            file.write_table(table)
        self.expect_ids_of(texts, "c.arrow")

    def test_dialogues_by_their_template(self):
        pa.parquet.write_table(pa.Table.from_pylist(CHATS), self.folder / "chats.parquet")
        self.expect_ids_of(CHATS, "chats.parquet", options=("--chat-template", "chatml"))
        self.assertIn("ignored", json.loads((self.folder / "got.bin.json").read_text()))
        self.assertEqual(self.run_it("chats.parquet", "--chat-template=chatml", "--show", "2"), 0)
        self.assertIn("code 1?", self.answer.stdout)

    def test_columns_of_bytes_are_left_out(self):
        table = pa.table({"text": ["a", "b"], "image": [{"bytes": b"\xff\xd8", "path": "x.jpg"}] * 2})
        pa.parquet.write_table(table, self.folder / "a.parquet")
        self.expect_ids_of([{"text": "a"}, {"text": "b"}], "a.parquet")
        self.assertIn("image", self.answer.stderr)

    def test_folders_and_their_splits(self):
        saved = self.folder / "saved"
        for split, records in (("train", RECORDS), ("test", RECORDS[:2])):
            (saved / split).mkdir(parents=True)
            names = [f"data-{i:05}-of-00002.arrow" for i in range(2)]
            for i, name in enumerate(names):
                write_stream(saved / split / name, records[i::2])
            state = {"_data_files": [{"filename": name} for name in names]}
            (saved / split / "state.json").write_text(json.dumps(state))
        (saved / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
        texts = [{"text": record["text"]} for record in RECORDS]
        self.expect_ids_of(texts[0::2] + texts[1::2], "saved", "--split", "train")
        self.expect_ids_of([texts[0], texts[1]], "saved/test")
        self.expect_refused("saved", part="--split test")
        self.expect_refused("saved", "--split", "valid", part="'train'")
        (self.folder / "hub" / "data").mkdir(parents=True)
        for name in ("train-00000-of-00002", "train-00001-of-00002", "test-00000-of-00001"):
            table = pa.Table.from_pylist([{"text": name}])
            pa.parquet.write_table(table, self.folder / "hub" / "data" / f"{name}.parquet")
        self.expect_ids_of([{"text": "train-00000-of-00002"}, {"text": "train-00001-of-00002"}], "hub", "--split=train")

    def test_names_of_the_hub(self):
        (self.folder / "datasets.py").write_text(HUB)
        texts = [{"text": f"owner/chats de test {i}"} for i in range(3)]
        self.expect_ids_of(texts, "owner/chats", "--config", "de", "--split", "test", "--limit", "3")
        self.expect_refused("owner/chats", part="--split test")
        self.expect_refused("owner/other", part="no such data set")

    def test_refusals(self):
        pa.parquet.write_table(pa.Table.from_pylist(RECORDS * 100), self.folder / "whole.parquet", row_group_size=1)
        content = (self.folder / "whole.parquet").read_bytes()
        middle = len(content) // 3
        (self.folder / "damaged.parquet").write_bytes(content[:middle] + bytes(2000) + content[middle + 2000 :])
        self.expect_refused("damaged.parquet", part="damaged.parquet")
        self.expect_refused("whole.parquet", "--field", "body", part="line 1 has no text")
        self.expect_refused("whole.parquet", "--split", "train", part="--split train")
        self.expect_refused("whole.parquet", "--limit", "0", part="--limit 0")
        self.expect_refused("whole.parquet", "--program", "/nowhere/weft", part="/nowhere/weft")
        (self.folder / "a.txt").write_text("a text")
        self.expect_refused("a.txt", part="a.txt")
        (self.folder / "empty").mkdir()
        self.expect_refused("empty", part="empty")


if __name__ == "__main__":
    unittest.main()
