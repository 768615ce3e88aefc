"""What the trainer's processes inherit."""

from zgcm.config.stages import Resources
from zgcm.train.launch import ATTENTION_SWITCHES, environment


def test_the_recipe_alone_chooses_the_attention(monkeypatch):
    for name in ATTENTION_SWITCHES:
        monkeypatch.setenv(name, "1")
    assert not set(ATTENTION_SWITCHES) & set(environment(Resources()))


def test_the_users_environment_wins_over_our_wishes(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert environment(Resources())["OMP_NUM_THREADS"] == "7"
