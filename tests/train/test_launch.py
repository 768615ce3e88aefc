"""What the trainer's processes inherit."""

from zgcm.config.stages import Resources
from zgcm.train.launch import ATTENTION_SWITCHES, environment


def test_the_recipe_alone_chooses_the_attention(monkeypatch):
    for name in ATTENTION_SWITCHES:
        monkeypatch.setenv(name, "1")
    assert not set(ATTENTION_SWITCHES) & set(environment(Resources()))


def test_one_process_is_alone_whatever_the_shell_says(monkeypatch):
    """It would wait for the other seven for two hours."""
    for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK"):
        monkeypatch.setenv(name, "8")
    assert environment(Resources())["WORLD_SIZE"] == "1"
    assert environment(Resources())["RANK"] == environment(Resources())["LOCAL_RANK"] == "0"


def test_the_users_environment_wins_over_our_wishes(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert environment(Resources())["OMP_NUM_THREADS"] == "7"
