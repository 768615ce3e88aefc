"""The verbs on plain files when something is wrong: the user's words, no output in an input's place, no part
of a result under a final name, and after a kill the same bytes as without."""

import itertools
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from plain_texts import texts

from zgcm.errors import ZgcmError
from zgcm.files import mix, plain
from zgcm.records import read_records, write_records
from zgcm.records.rows import write_rows

CLEAN = ("--category", "general_text", "--stage", "pretrain")
VERBS = {
    "clean": ["one.jsonl", "two.jsonl", *CLEAN],
    "dedup": ["one.jsonl", "two.jsonl", "--near"],
    "decontaminate": ["one.jsonl", "two.jsonl", "--against", "exam.jsonl"],
    "mix": ["one.jsonl=2", "two.jsonl", "--shards", "2", "--tokenizer", "tokenizer"],
    "index": ["one.jsonl", "two.jsonl", "--tokenizer", "tokenizer"],
    "pack": ["talks.jsonl", "--seq-length", "128", "--tokenizer", "tokenizer"],
}
INNER = ("sources.", "mixes.", "decontaminate.", "SOURCE SHARD", "shard 00000", "Shard 00000", "source one")
"""What only the small recipe inside knows."""


@pytest.fixture
def place(tmp_path, tokenizer, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(tokenizer, "tokenizer")
    write_records(Path("one.jsonl"), [{"id": f"{n}", "text": text} for n, text in enumerate(texts(200))])
    write_records(Path("two.jsonl"), [{"text": text} for text in texts(120, seed=6)])
    write_records(Path("exam.jsonl"), [{"question": text} for text in texts(3)])
    said = [{"role": "user", "content": "How much?"}, {"role": "assistant", "content": "So much."}]
    write_records(Path("talks.jsonl"), [{"messages": said}] * 50)
    for name, content in (
        ("empty", ""),
        ("blank", "\n"),
        ("bad", '{"text": "x"}\n{"text"'),
        ("no", '{"a": 1}'),
    ):
        Path(f"{name}.jsonl").write_text(content)
    return tmp_path


def outputs(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()
    }


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["clean", "empty.jsonl", *CLEAN], "The file is empty"),
        (["clean", "blank.jsonl", *CLEAN], "There is no record to clean"),
        (["clean", "bad.jsonl", *CLEAN], "(--max-bad-fraction). .*raise --max-bad-fraction"),
        (["clean", "no.jsonl", *CLEAN], "name its field in --text-field"),
        (["clean", "cleaned/one.jsonl.zst", *CLEAN], "clean already. .*take them as they are"),
        (["clean", "one.jsonl", "--category", "web", "--stage", "x"], "--stage: found 'x'"),
        (["clean", "one.jsonl", *CLEAN, "--settings", "s.yaml"], "cleaning.settings.pdf_min: no step"),
        (["clean", "one.jsonl", *CLEAN, "--settings", "p.yaml"], "--shards-per-file: the command line says"),
        (["clean", "one.jsonl", *CLEAN, "--settings", "n.yaml"], "^No such profile file. at: .*nope.py"),
        (["mix", "one.jsonl", "--tokens", "99999", "--tokenizer", "tokenizer"], "lower --tokens"),
        (["mix", "one.jsonl", "--shards", "999", "--tokenizer", "tokenizer"], "at: --shards"),
        (["mix", "one.jsonl=-1", "--tokenizer", "tokenizer"], "weight of one: .*greater than or equal to 0"),
        (["mix", "one.jsonl=0", "--tokenizer", "tokenizer"], "All weights are 0"),
        (["mix", "one.jsonl=x", "--tokenizer", "tokenizer"], "A weight is a number. at: one.jsonl. found: x"),
        (["mix", "one.jsonl=", "--tokenizer", "tokenizer"], "A weight is a number. at: one.jsonl. found: no"),
        (["mix", "one.jsonl", "one.jsonl=2", "--tokenizer", "tokenizer"], "same output"),
        (["mix", "one.jsonl", "--seed", "-1", "--tokenizer", "tokenizer"], "--seed: "),
        (["pack", "talks.jsonl", "--seq-length", "3", "--tokenizer", "tokenizer"], "at: --seq-length"),
        (
            ["pack", "one.jsonl", "--seq-length", "4096", "--tokenizer", "tokenizer"],
            "at: one.jsonl. .*to do: bring conversations, [^,]*$",
        ),
        (["decontaminate", "one.jsonl", "--against", "blank.jsonl"], "evaluation file holds no text"),
        (["index", "one.jsonl", "--tokenizer", "broken"], "Not the files of a byte-level BPE tokenizer"),
        (["clean", "one.jsonl", *CLEAN, "--slurm", "time=1"], "--slurm needs --fanout slurm"),
    ],
)
def test_errors_are_told_in_the_words_of_the_verb(call, place, command, message):
    Path("s.yaml").write_text("cleaning: {settings: {pdf_min: 3}}")
    Path("n.yaml").write_text("profile: ./nope.py")
    Path("p.yaml").write_text("shards_per_file: 3")
    shutil.copytree("tokenizer", "broken")
    Path("broken/manifest.json").unlink()
    Path("broken/tokenizer.json").write_text('{"model": 1}')
    call("clean", "one.jsonl", *CLEAN, "--output", "cleaned")
    with pytest.raises(ZgcmError, match=message.replace("(", r"\(").replace(")", r"\)")) as caught:
        call(*command, "--output", "out")
    assert not [word for word in INNER if word in str(caught.value)]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("file", ["empty.jsonl", "blank.jsonl"])
def test_nothing_is_made_of_nothing(call, place, verb, file):
    options = itertools.dropwhile(lambda argument: ".jsonl" in argument, VERBS[verb])
    with pytest.raises(ZgcmError, match=r"There is no record|The file is empty") as caught:
        call(verb, file, *options, "--output", "out")
    assert file in caught.value.where and not outputs(Path("out"))


def test_one_file_may_be_empty(call, place):
    said = call("index", "empty.jsonl", "one.jsonl", "--tokenizer", "tokenizer", "--output", "both")
    assert "empty.jsonl: 0 documents" in said.stderr and "both: 200 documents" in said.stdout


@pytest.mark.parametrize("verb", ["dedup", "decontaminate"])
@pytest.mark.parametrize(
    ("line", "message"),
    [('{"n": 36893488147419103233, "text": "x"}', "64 bits"), ('{"text": "a", "text": "b"}', "twice")],
)
def test_a_record_that_would_be_another_when_written_is_refused(call, place, verb, line, message):
    Path("odd.jsonl").write_text(f'{{"text": "a"}}\n{line}\n')
    with pytest.raises(ZgcmError, match=rf"{message}.*odd\.jsonl:2"):
        call(verb, "one.jsonl", "odd.jsonl", *VERBS[verb][2:], "--output", "out")
    assert not Path("out/odd.jsonl.zst").exists()


@pytest.mark.parametrize("verb", ["clean", "dedup", "decontaminate"])
def test_an_output_never_takes_the_place_of_an_input(call, place, verb):
    write_records(Path("one.jsonl.zst"), read_records(Path("one.jsonl")))
    before = Path("one.jsonl.zst").read_bytes()
    with pytest.raises(ZgcmError, match=r"replace its input. at: one\.jsonl\.zst"):
        call(verb, "one.jsonl.zst", *VERBS[verb][2:], "--output", ".")
    assert Path("one.jsonl.zst").read_bytes() == before


@pytest.mark.parametrize(
    ("verb", "file"),
    [("clean", "one.rejected.jsonl"), ("decontaminate", "one.removed.jsonl"), ("dedup", "duplicates.parquet"),
     ("mix", "duplicates.parquet")],
)  # fmt: skip
def test_no_output_of_any_kind_takes_the_place_of_an_input(call, place, verb, file):
    (write_rows if file.endswith(".parquet") else write_records)(Path(file), read_records(Path("two.jsonl")))
    before = Path(file).read_bytes()
    with pytest.raises(ZgcmError, match=rf"replace its input. at: {file}"):
        call(verb, "one.jsonl", file, *VERBS[verb][2:], "--output", ".")
    assert Path(file).read_bytes() == before


@pytest.mark.parametrize("verb", ["dedup", "decontaminate"])
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "a", "n": 123456789012345678901234567890}', "more than 64 bits"),
        ('{"text": "a", "n": 1, "n": 2}', "has a key twice"),
        (f'{{"text": "a", "n": {"[" * 300}{"]" * 300}}}', "nested too deeply"),
    ],
)
def test_records_are_written_as_they_are_or_not_at_all(call, place, verb, line, message):
    """Both once wrote the number rounded and the last of the two keys, and ended in a traceback."""
    Path("odd.jsonl").write_text(f'{{"text": "b"}}\n{line}\n')
    with pytest.raises(ZgcmError, match=rf"{message}.*odd\.jsonl:2"):
        call(verb, "odd.jsonl", *VERBS[verb][2:], "--output", "out")
    assert not Path("out/odd.jsonl.zst").exists()


@pytest.mark.parametrize("verb", [*VERBS, "profile", "evaluation"])
def test_pipes_and_broken_links_are_told_apart_from_missing_files(call, place, verb):
    """A pipe can be read once, and these files are read twice: a verb would wait for its writer for ever."""
    os.mkfifo("pipe.jsonl")
    Path("link.jsonl").symlink_to("link.jsonl")
    for name, message in (("pipe", "Not a regular file"), ("link", "No such file|is missing")):
        file = f"{name}.jsonl"
        command = {
            "profile": ["profile", file],
            "evaluation": ["decontaminate", "one.jsonl", "--against", file, "--output", "out"],
        }.get(verb) or [verb, file, *VERBS[verb][1 if verb == "pack" else 2 :], "--output", "out"]
        with pytest.raises(ZgcmError, match=message):
            call(*command)


def test_files_called_like_what_lies_between_are_mixed_too(call, place, monkeypatch):
    """A file called kept lost its fingerprints to the mix's own, and a.index took the place of a's index."""
    names = ("kept", "plan", "selection", "index", "a", "a.index")
    for number, name in enumerate(names):
        write_records(Path(f"{name}.jsonl"), [{"text": text} for text in texts(20, seed=number)])
    command = ["mix", *(f"{name}.jsonl" for name in names), "--tokenizer", "tokenizer", "--output"]
    whole = json.loads(call(*command, "whole", "--json").stdout)
    assert all(whole["sources"][name]["documents"] for name in names)

    def killed(*_):
        raise RuntimeError("killed")

    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="killed"):
        patch.setattr(mix, "gather_shard", killed)
        call(*command, "again")
    call(*command, "again")
    assert outputs(place / "again") == outputs(place / "whole")


@pytest.mark.parametrize(("verb", "key"), [("clean", "in"), ("clean", "found"), ("decontaminate", "removed")])
@pytest.mark.parametrize("value", [None, "x", -1.5])
def test_a_summary_edited_by_hand_is_made_again(call, place, verb, key, value):
    call(verb, *VERBS[verb], "--output", "out")
    before = outputs(place / "out")
    summary = next(path for path in Path("out").glob("one.*.json"))
    summary.write_text(json.dumps({**json.loads(summary.read_text()), key: value}))
    call(verb, *VERBS[verb], "--output", "out")
    assert outputs(place / "out") == before


@pytest.mark.parametrize(
    ("verb", "file", "content"),
    [("dedup", "dedup.json", '{"files": 5}'), ("dedup", "dedup.json", '{"files": [{"file": 5}]}'),
     ("mix", "plan.json", '{"shards": null}'), ("mix", "plan.json", "[]")],
)  # fmt: skip
def test_a_damaged_summary_of_all_files_is_named(call, place, verb, file, content):
    Path("out").mkdir()
    Path("out", file).write_text(content)
    with pytest.raises(ZgcmError, match=rf"not what its name says.*out/{file}.*to do: restore it"):
        call(verb, *VERBS[verb][:2], *(VERBS[verb][4:] if verb == "mix" else ()), "--output", "out")


def test_results_of_other_files_are_not_left_among_new_ones(call, place):
    call("dedup", "one.jsonl", "two.jsonl", "--output", "out")
    with pytest.raises(ZgcmError, match=r"records of other files.*found: two\. expected: one"):
        call("dedup", "one.jsonl", "--output", "out")
    mix = ["mix", "one.jsonl", "--tokenizer", "tokenizer", "--output", "mixed"]
    call(*mix, "--shards", "2")
    with pytest.raises(ZgcmError, match=r"shards of another mix.*found: 00001"):
        call(*mix)


REPLACING = {"dedup": ("deduplicate", "dedup.json"), "mix": ("gather_shard", "plan.json"),
             "pack": ("pack_shard", "dataset.json")}  # fmt: skip
"""What replaces files of an earlier run, and the summary that describes them all."""


@pytest.mark.parametrize("verb", REPLACING)
def test_an_old_summary_never_describes_new_files(call, place, monkeypatch, verb):
    function, summary = REPLACING[verb]
    call(verb, *VERBS[verb], "--output", "out")
    assert Path("out", summary).exists()

    def stop(*arguments: object) -> None:
        assert not Path("out", summary).exists()
        raise ZgcmError("Stopped here")

    monkeypatch.setattr(f"zgcm.files.{verb}.{function}", stop)
    with pytest.raises(ZgcmError, match="Stopped here"):
        call(verb, *VERBS[verb], "--output", "out")


def test_a_directory_stands_for_its_records_alone(call, place):
    Path("data").mkdir()
    shutil.copy("one.jsonl", "data/one.jsonl")
    (Path("data") / "odd[1]*.jsonl").write_text(json.dumps({"text": "a text of its own"}))
    call("clean", "data", *CLEAN, "--output", "data/cleaned")
    Path("data/cleaned/.hidden").mkdir()
    Path("data/cleaned/.hidden/x.jsonl").write_text("nonsense")
    found = json.loads(call("dedup", "data/cleaned", "--output", "unique", "--json").stdout)
    assert [Path(file["file"]).name for file in found["files"]] == ["odd[1]*.jsonl.zst", "one.jsonl.zst"]
    assert call("dedup", "data/odd[1]*.jsonl", "--output", "odd").exit_code == 0


def test_totals_count_what_was_written_and_found(call, place):
    rows = [{"text": f"{text} write to jane.roe@example.com today"} for text in texts(5)]
    write_records(Path("mail.jsonl"), rows)
    Path("mail.jsonl").write_bytes(Path("mail.jsonl").read_bytes() + b"nonsense\n")
    command = ("clean", "one.jsonl", "mail.jsonl", *CLEAN, "--max-bad-fraction", "0.5", "--output", "out")
    total = json.loads(call(*command, "--json").stdout)
    assert total["written"] == total["kept"] + total["review"]
    assert (total["found"], total["rejected_reasons"]) == ({"email": 5}, {"not_json": 1})
    assert "1 rejected (not_json 1); found: email 5" in call(*command).stdout


KILLED_OFTEN = (("clean", 2), ("mix", 1))
"""Killed in the slow suite; the other verbs take minutes in all."""


def run(*arguments: object, **options: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "zgcm.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


@pytest.mark.parametrize(
    "verb",
    [
        "clean",
        "mix",
        *(pytest.param(verb, marks=pytest.mark.slow) for verb in ("dedup", "decontaminate", "pack")),
    ],
)
def test_a_file_that_may_not_grow_is_one_paragraph_and_leaves_nothing(place, verb):
    """RLIMIT_FSIZE stands for the full disk that a test cannot have: a write fails in the middle."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))

    done = run(verb, *VERBS[verb], "--output", "out", preexec_fn=limit)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr and "larger than allowed" in done.stderr
    left = {name: len(data) for name, data in outputs(place).items() if name.startswith("out")}
    assert not {name for name, size in left.items() if size and not name.endswith(".json")}


@pytest.mark.parametrize(
    ("verb", "jobs"),
    [
        pytest.param(verb, jobs, marks=pytest.mark.slow if (verb, jobs) in KILLED_OFTEN else pytest.mark.long)
        for verb in VERBS
        for jobs in (1, 2)
    ],
)
def test_killed_at_any_moment_and_repeated_gives_the_same_bytes(place, verb, jobs):
    command = [sys.executable, "-m", "zgcm.cli", verb, *VERBS[verb], "--jobs", str(jobs), "--output"]
    started = time.monotonic()
    (place / "whole").mkdir()
    subprocess.run([*command, "whole/x"], check=True, capture_output=True)
    seconds, want = time.monotonic() - started, outputs(place / "whole")
    chance = random.Random(f"{verb}{jobs}")
    (place / "killed").mkdir()
    for _ in range(3):
        process = subprocess.Popen([*command, "killed/x"], start_new_session=True, stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(0.3, 1) * seconds)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        found = outputs(place / "killed")
        assert not [name for name in found.keys() & want.keys() if found[name] != want[name]]
    subprocess.run([*command, "killed/x"], check=True, capture_output=True)
    assert outputs(place / "killed") == want


LOCKS = {"clean": "one", "decontaminate": "one", "dedup": "run", "mix": "run", "pack": "run"}


@pytest.mark.parametrize("verb", LOCKS)
def test_two_runs_never_write_the_same_at_once(call, place, monkeypatch, verb):
    """Two mixes of other weights into one directory would leave shards of one under the plan of the other."""
    monkeypatch.setattr(plain, "WAIT_SECONDS", 0.0)
    out = place / "out"
    with plain.alone(out, LOCKS[verb]), pytest.raises(ZgcmError, match="Another run writes there"):
        call(verb, *VERBS[verb], "--output", out)
    assert not [name for name in outputs(out) if "one" in name or "0000" in name]
    call(verb, *VERBS[verb], "--output", out)
    assert outputs(out) and not [name for name in outputs(out) if name.endswith(".lock")]


def test_who_waits_goes_on_when_the_other_run_ends(tmp_path):
    order = []

    def second() -> None:
        with plain.alone(tmp_path):
            order.append("second")

    thread = threading.Thread(target=second)
    with plain.alone(tmp_path):
        thread.start()
        time.sleep(0.3)
        order.append("first")
    thread.join()
    assert order == ["first", "second"] and not list(tmp_path.iterdir())
