"""Hub sources against a local server that speaks the hub's protocol: lock, fetch, and what goes wrong."""

import hashlib
import http.server
import json
import re
import threading

import pytest
from support import recipe_with

from zgcm.corpus.clean import clean_shard
from zgcm.corpus.locking import lock_source
from zgcm.corpus.raw import make_raw
from zgcm.errors import ZgcmError
from zgcm.io import read_json, write_json
from zgcm.layout import Layout, source_shards

COMMIT = "a" * 40
ROWS = b'{"id": "1", "text": "A text that is long enough to keep."}\n'
CARD = {"configs": [{"config_name": "web", "data_files": [{"split": "train", "path": "web/*.jsonl"}]}]}


class Hub:
    """The state of the pretended hub: files, who may read, what it answers."""

    def __init__(self) -> None:
        self.files = {f"web/{name}.jsonl": ROWS * (number + 1) for number, name in enumerate("ab")}
        self.files |= {"math/c.jsonl": ROWS, "README.md": b"# data"}
        self.small: set[str] = set()
        self.refuse: tuple[int, str] | None = None
        self.served: dict[str, bytes] = {}
        self.tokens: set[str | None] = set()

    def info(self) -> bytes:
        siblings = [
            {"rfilename": name, "size": len(data), "blobId": "0" * 40}
            | (
                {}
                if name in self.small
                else {"lfs": {"size": len(data), "sha256": _sha(data), "pointerSize": 9}}
            )
            for name, data in self.files.items()
        ]
        return json.dumps({"id": "me/data", "sha": COMMIT, "siblings": siblings, "cardData": CARD}).encode()

    def large(self, name: str) -> dict:
        """What the hub says about files in its large file storage, and does not about those in git."""
        if name in self.small:
            return {}
        return {"lfs": {"size": len(self.files[name]), "sha256": _sha(self.files[name]), "pointerSize": 9}}


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def hub(monkeypatch):
    state = Hub()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if "me/data" in self.path:
                state.tokens.add(self.headers.get("Authorization"))
            if state.refuse is not None:
                self.reply(state.refuse[0], b"{}", {"X-Error-Code": state.refuse[1]})
            elif re.fullmatch(r"/api/datasets/me/data/revision/\w+", self.path.split("?")[0]):
                self.reply(200, state.info(), {})
            elif match := re.fullmatch(rf"/datasets/me/data/resolve/{COMMIT}/(.*)", self.path):
                data = state.served.get(match[1], state.files[match[1]])
                self.reply(200, data, {"ETag": f'"{_sha(data)}"', "X-Repo-Commit": COMMIT})
            else:
                self.reply(404, b"{}", {"X-Error-Code": "RepoNotFound"})

        do_HEAD = do_GET

        def reply(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            """Quiet."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    yield state
    server.shutdown()
    server.server_close()


@pytest.fixture
def recipe(tmp_path):
    return hub_recipe(tmp_path)


def hub_recipe(tmp_path, **more):
    return recipe_with(
        {"kind": "hub", "repo": "me/data", "revision": COMMIT, "subset": "web", "patterns": ["**/*.jsonl"],
         "lock": str(tmp_path / "mine.lock"), "stage": "pretrain", "category": "general_text", **more}
    )  # fmt: skip


def test_lock_fetch_clean(hub, recipe, tmp_path):
    hub.small.add("web/b.jsonl")
    path, lock = lock_source(recipe, "mine", [])
    assert read_json(path) == lock
    assert (lock["repo"], lock["revision"], lock["assumed"]) == ("me/data", COMMIT, False)
    assert lock["files"] == [
        {"path": name, "bytes": len(hub.files[name]), "sha256": _sha(hub.files[name])}
        for name in ("web/a.jsonl", "web/b.jsonl")
    ]
    layout = Layout(tmp_path / "results")
    assert source_shards(recipe, "mine") == ["00000", "00001"]
    for shard, name in (("00000", "web/a.jsonl"), ("00001", "web/b.jsonl")):
        assert make_raw(recipe, layout, "mine", shard).read_bytes() == hub.files[name]
    assert sorted(path.name for path in (tmp_path / "results/raw/mine").iterdir()) == [
        "00000.jsonl",
        "00001.jsonl",
    ]
    assert clean_shard(recipe, layout, "mine", "00001")["kept"] == 2
    assert hub.tokens == {"Bearer hf_secret"}


def test_a_subset_limits_the_files(hub, tmp_path):
    def locked(**more):
        return [file["path"] for file in lock_source(hub_recipe(tmp_path, **more), "mine", [])[1]["files"]]

    assert locked(subset=None) == ["math/c.jsonl", "web/a.jsonl", "web/b.jsonl"]
    assert locked(patterns=["web/b*"]) == ["web/b.jsonl"]
    with pytest.raises(ZgcmError, match=r"no such configuration.*expected: web"):
        locked(subset="code")
    with pytest.raises(ZgcmError, match="No file of the dataset matches"):
        locked(patterns=["**/*.parquet"])


def test_a_moving_revision_is_refused_and_the_commit_told(hub, tmp_path):
    with pytest.raises(ZgcmError, match=f"commit {COMMIT}") as caught:
        lock_source(hub_recipe(tmp_path, revision="main"), "mine", [])
    assert caught.value.where == "sources.mine.revision"
    assert not (tmp_path / "mine.lock").exists()


@pytest.mark.parametrize(
    ("refuse", "message"),
    [
        ((403, "GatedRepo"), "gated dataset.*HF_TOKEN"),
        ((401, "RepoNotFound"), "no such dataset"),
        ((404, "RevisionNotFound"), "no such revision"),
        ((403, ""), "refused the request"),
    ],
)
def test_refusals_are_explained(hub, recipe, tmp_path, refuse, message):
    lock_source(recipe, "mine", [])
    hub.refuse = refuse
    with pytest.raises(ZgcmError, match=message):
        lock_source(recipe, "mine", [])
    layout = Layout(tmp_path / "results")
    with pytest.raises(ZgcmError, match=message):
        make_raw(recipe, layout, "mine", "00000")
    assert not [path for path in layout.root.rglob("0*") if path.is_file()]


def test_other_bytes_than_locked_are_refused(hub, recipe, tmp_path):
    lock_source(recipe, "mine", [])
    layout = Layout(tmp_path / "results")
    for data, found in ((ROWS.replace(b"text", b"TEXT"), "sha256"), (b"{}\n", "3 bytes")):
        hub.served["web/a.jsonl"] = data
        with pytest.raises(ZgcmError, match="not the one that was locked") as caught:
            make_raw(recipe, layout, "mine", "00000")
        assert found in caught.value.found
        assert not list((tmp_path / "results/raw/mine").iterdir())


def test_an_unreachable_hub(hub, recipe, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ZgcmError, match=r"cannot be reached.*HF_ENDPOINT"):
        lock_source(recipe, "mine", [])


def test_assumed_and_foreign_locks_are_refused(hub, recipe, tmp_path):
    path, lock = lock_source(recipe, "mine", [])
    layout = Layout(tmp_path / "results")
    write_json(path, {**lock, "revision": "b" * 40})
    with pytest.raises(ZgcmError, match="another dataset or revision"):
        make_raw(recipe, layout, "mine", "00000")
    write_json(path, {**lock, "assumed": True})
    with pytest.raises(ZgcmError, match=r"assumed, not known.*zgcm sources lock mine"):
        make_raw(recipe, layout, "mine", "00000")
    with pytest.raises(ZgcmError, match="put the patterns into the recipe"):
        lock_source(recipe, "mine", ["x.jsonl"])
