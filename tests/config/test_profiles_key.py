"""The key `profile` of a source: names, files and modules of the user's, and what is refused at load."""

import pytest
import yaml

from zgcm.config import load, profiles
from zgcm.errors import ZgcmError
from zgcm.files.clean import CleanedLayout, CleanJob, clean_file, file_source
from zgcm.identity import basis, changed_keys, recipe_id

MINE = """
from zgcm.config.profiles import Profile

def shout(sample, settings):
    sample.data["text"] = sample.string("text").upper() + settings["notes_mark"]

steps = [shout]
odd = [str]
PROFILE = Profile(steps, stages=["pretrain"], categories=["general_text"], settings={"notes_mark": "!"})
"""


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    monkeypatch.setenv("ZGCM_CHECKOUT", str(tmp_path))
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "plugs_of_mine").mkdir()
    (tmp_path / "plugs_of_mine" / "notes.py").write_text(MINE)
    monkeypatch.setattr(profiles.sys, "path", list(profiles.sys.path))
    yield tmp_path
    for name in [name for name in profiles.sys.modules if name.startswith("plugs_of_mine")]:
        del profiles.sys.modules[name]


def recipe(profile, stage="pretrain", category="general_text"):
    data = yaml.safe_load((load.Path(__file__).parents[2] / "config" / "tiny.yaml").read_text())
    data["sources"]["notes"] = {
        "kind": "files", "files": ["notes.jsonl"], "stage": stage, "category": category, "profile": profile,
    }  # fmt: skip
    return load.validate_recipe(data, "test")


@pytest.mark.parametrize(
    "name",
    ["./mine.py", "mine.py:PROFILE", "./mine.py:steps", "plugs_of_mine.notes:steps", "plugs_of_mine.notes"],
)
def test_files_and_modules(checkout, name):
    assert recipe(name).sources["notes"].profile == name
    assert [step.__name__ for step in profiles.find_profile(name).steps] == ["shout"]


@pytest.mark.parametrize(
    ("name", "stage", "category", "message"),
    [
        (
            "olmocr",
            "pretrain",
            "web",
            r"sources\.notes\.profile: olmocr is for category pdf_ocr; found category: web",
        ),
        ("olmocr", "midtrain", "pdf_ocr", r"olmocr is for stage pretrain; found stage: midtrain"),
        ("./mine.py", "pretrain", "code", r"is for category general_text; found category: code"),
        ("olmoc", "pretrain", "pdf_ocr", r"sources\.notes\.profile: .*agent_coding.*did you mean olmocr"),
        ("./other.py", "pretrain", "web", r"No such profile file.*other\.py"),
        ("other.notes:steps", "pretrain", "web", r"No such module.*other/notes\.py below"),
        ("./mine.py:nothing", "pretrain", "web", r"mine\.py:nothing.*write \./mine\.py:PROFILE"),
        ("./mine.py:shout", "pretrain", "web", r"found: a function.*expected: a Profile of functions"),
        (
            "./mine.py:odd",
            "pretrain",
            "web",
            r"found: a step that is a type. expected: steps: a list of functions",
        ),
        ("./broken.py", "pretrain", "web", r"cannot be loaded.*broken\.py:2.*ZeroDivisionError"),
        ("./wrong.py", "pretrain", "web", r"cannot be loaded.*wrong\.py:1.*SyntaxError"),
    ],
)
def test_refused_when_the_recipe_is_loaded(checkout, name, stage, category, message):
    (checkout / "broken.py").write_text("\n1 / 0\n")
    (checkout / "wrong.py").write_text("def\n")
    with pytest.raises(ZgcmError, match=message):
        recipe(name, stage, category)


def test_the_content_of_a_profile_is_identity_and_its_place_is_not(checkout):
    first = recipe("./mine.py")
    ids = recipe_id(first, "clean", "notes")
    (checkout / "elsewhere").mkdir()
    (checkout / "mine.py").rename(checkout / "elsewhere" / "moved.py")
    assert recipe_id(recipe("./elsewhere/moved.py"), "clean", "notes") == ids
    (checkout / "mine.py").write_text(MINE.replace("upper", "lower"))
    second = recipe("./mine.py")
    assert recipe_id(second, "clean", "notes") != ids
    assert recipe_id(second, "raw", "notes") == recipe_id(first, "raw", "notes")
    before = basis(recipe("./elsewhere/moved.py"), "clean", "notes")
    assert changed_keys(before, basis(second, "clean", "notes")) == ["settings.profile.sha256"]


def test_a_changed_file_is_loaded_anew(checkout):
    assert profiles.find_profile("./mine.py").settings == {"notes_mark": "!"}
    (checkout / "mine.py").write_text(MINE.replace('"!"', '"?"'))
    assert profiles.find_profile("./mine.py").settings == {"notes_mark": "?"}


def test_a_file_in_our_folder_is_registered_by_its_name(tmp_path, monkeypatch):
    monkeypatch.setattr(profiles, "FOLDER", tmp_path)
    (tmp_path / "notes.py").write_text(MINE)
    assert profiles.registered() == ["notes"]
    assert profiles.profile_file("notes") == (tmp_path / "notes.py", "PROFILE")


POLICIES = {
    "keep_min: '1'": "number",
    "hard_error_max: 3": "go together",
    "{keep_min: 0.5, review_min: 0.8}": "none is for review",
    "min: 3": "unknown key",
}


@pytest.mark.parametrize("policy", POLICIES)
def test_quality_policies_are_checked_at_load(policy):
    data = yaml.safe_load((load.Path(__file__).parents[2] / "config" / "tiny.yaml").read_text())
    given = yaml.safe_load(policy)
    data["sources"]["demo_prose"]["cleaning"] = {"quality_policies": {"default": given}}
    with pytest.raises(
        ZgcmError, match=rf"sources\.demo_prose\.cleaning\.quality_policies\.default.*{POLICIES[policy]}"
    ):
        load.validate_recipe(data, "test")


def test_plain_files_are_cleaned_anew_when_their_profile_changes(checkout):
    (checkout / "raw.jsonl").write_text('{"text": "A sentence that is long enough to be kept."}\n')
    keys = {"stage": "pretrain", "category": "general_text", "profile": "./mine.py"}
    job = CleanJob(checkout / "raw.jsonl", "raw", CleanedLayout(checkout / "out"), keys)
    assert not clean_file(job).get("skipped")
    assert clean_file(job)["skipped"]
    (checkout / "mine.py").write_text(MINE.replace('"!"', '"?"'))
    assert not clean_file(job).get("skipped")
    with pytest.raises(ZgcmError, match="is for category general_text; found category: web"):
        file_source(job.path, {**keys, "category": "web"})


def test_a_step_that_fails_names_its_line_and_the_record(checkout):
    (checkout / "mine.py").write_text(MINE.replace('sample.string("text")', 'sample.data["texts"]'))
    (checkout / "raw.jsonl").write_text(
        '{"id": "r7", "text": "A sentence that is long enough to be kept."}\n'
    )
    keys = {"stage": "pretrain", "category": "general_text", "profile": "./mine.py"}
    with pytest.raises(
        ZgcmError, match=r"step shout fails.*mine\.py:5\. found: record r7: KeyError: 'texts'"
    ):
        clean_file(CleanJob(checkout / "raw.jsonl", "raw", CleanedLayout(checkout / "out"), keys))
    assert not any((checkout / "out").glob("raw*"))


STEP = "def step(sample, settings):\n    {}\n"
PROFILE = "from zgcm.config.profiles import Profile\n"


def cleaned_by(checkout, source):
    (checkout / "mine.py").write_text(source)
    (checkout / "notes.jsonl").write_text('{"text": "Words of a note that is long enough to be kept."}\n')
    keys = {"stage": "pretrain", "category": "general_text", "profile": "./mine.py"}
    file_source(checkout / "notes.jsonl", keys)
    return clean_file(CleanJob(checkout / "notes.jsonl", "notes", CleanedLayout(checkout / "out"), keys))


@pytest.mark.parametrize(
    "body",
    [
        *(
            "sample.data = None",
            "sample.data[1] = 2",
            "sample.data['x'] = {1, 2}",
            "sample.data['x'] = object()",
        ),
        *("sample.data['x'] = float('nan')", "sample.data['x'] = 10**30", "sample.data['x'] = chr(0xd800)"),
        *("sample.data['x'] = sample.data", "sample.decision = 'perhaps'", "sample.decision = []"),
        *("sample.reasons = None", "sample.drop(5)", "sample.flags = {1, 'a'}", "sample.buckets = None"),
        *(
            "sample.metrics['x'] = float('inf')",
            "sample.metrics['x'] = 'high'",
            "sample.text_fields = 'text'",
        ),
        *("sample.source_id = 7", "sample.mark('later', 'why')", "raise SystemExit(0)", "raise MemoryError"),
        "sample.data['x'] = __import__('datetime').date(2026, 1, 1)",
        "class Odd(Exception):\n        def __str__(self): raise ValueError\n    raise Odd",
    ],
)
def test_what_a_step_must_not_leave_names_the_step_and_the_record(checkout, body):
    """Sets were written in any order, NaN as null under a digest of NaN; an exit with 0 passed as success."""
    with pytest.raises(
        ZgcmError, match=r"The profile's step step fails on a record.*mine\.py.*record (notes:|7:)"
    ):
        cleaned_by(checkout, STEP.format(body) + "PROFILE = [step]\n")
    assert not list((checkout / "out").iterdir())


def test_a_misspelt_setting_is_no_fault_of_the_record(checkout):
    step = STEP.format("return settings['min_charz']") + "PROFILE = [step]\n"
    with pytest.raises(ZgcmError, match=r"asks for a setting.*mine\.py.*'min_charz'.*mean 'min_chars'"):
        cleaned_by(checkout, step)
    with pytest.raises(ZgcmError, match=r"fails on a record.*'titel'.*records may lack any field"):
        cleaned_by(checkout, STEP.format("return sample.data['titel']") + "PROFILE = [step]\n")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("PROFILE = Profile(s for s in [step])", "steps: a generator"),
        ("PROFILE = Profile(None)", "steps: a NoneType"),
        ("PROFILE = Profile([step], stages=5)", "stages: a int"),
        ("PROFILE = Profile([step], categories=None)", "categories: a NoneType"),
        ("PROFILE = Profile([step], settings=5)", "settings: 5"),
        ("def lazy(sample, settings):\n    yield\nPROFILE = Profile([lazy])", "lazy holds yield"),
        ("async def lazy(sample, settings): pass\nPROFILE = Profile([lazy])", "lazy holds yield or is async"),
        ("import sys\nsys.exit(0)", r"cannot be loaded.*mine\.py:5.*SystemExit: 0"),
        ("a = 1\0", "cannot be loaded.*null bytes"),
    ],
)
def test_profiles_that_would_do_nothing_or_end_the_program_are_refused(checkout, source, message):
    """Steps from a generator expression and steps with `yield` were silently passed over."""
    with pytest.raises(ZgcmError, match=message):
        cleaned_by(checkout, PROFILE + STEP.format("pass") + source)
