"""Training prompts that repeat evaluation prompts: found by content, named with both rows."""

import pytest

from zgcm.errors import ZgcmError
from zgcm.rl.disjoint import check_disjoint, overlaps
from zgcm.rl.prompts import Prompt

TEMPLATE = "Solve the problem below step by step and put the final answer at the very end: "
STORY = "a farmer sells three brown cows and buys five white geese at the market in Lund"


def asked(name: str, text: str, domain: str = "math") -> Prompt:
    messages = [{"role": "user", "content": text}]
    return Prompt(name, messages, ["2"], "", [0], domain=domain, where=f"{name[0]}.jsonl:{name[1:]}")


def test_the_same_question_under_another_name_is_told_with_both_rows() -> None:
    train = [asked("t1", "1+2"), asked("t2", "What is  1+1?"), asked("t3", "what is 1+1?")]
    with pytest.raises(ZgcmError, match="training set") as caught:
        check_disjoint(train, [asked("v7", "What is 1+1?")])
    assert caught.value.where == "v.jsonl:7 (sample_id v7)"
    assert "t.jsonl:2 (sample_id t2)" in caught.value.found and "2 training prompts" in caught.value.found
    check_disjoint(train, [asked("v7", "What is 1-1?")])


def test_a_system_prompt_makes_no_other_question() -> None:
    system = {"role": "system", "content": "Be brief."}
    valid = asked("v1", "What is 1+1?")
    valid.messages.insert(0, system)
    assert [found.run for found in overlaps([asked("t1", "What is 1+1?")], [valid])] == [""]


def test_runs_of_words_count_but_not_the_template() -> None:
    train = [asked(f"t{i}", TEMPLATE + f"what is {i} times {i}") for i in range(4)]
    valid = [asked(f"v{i}", TEMPLATE + f"what is {i} plus {i}") for i in range(4)]
    check_disjoint(train, valid)
    told = asked("t4", "Once " + STORY.replace(" and", ",  AND"))
    (found,) = overlaps([*train, told], [*valid, asked("v4", f"Today {STORY}.")])
    assert (found.train.sample_id, found.valid.sample_id) == ("t4", "v4")
    assert found.run == " ".join(STORY.split()[:13])
    assert not overlaps([*train, told], [*valid, asked("v4", "Today " + " ".join(STORY.split()[:12]))])


def test_a_template_of_one_domain_is_one_though_others_are_more() -> None:
    def side(name: str) -> list[Prompt]:
        code = [asked(f"{name}{i}", TEMPLATE + f"{name} {i}", "code") for i in range(4)]
        return code + [asked(f"{name}{i}", f"{name} {i}") for i in range(4, 20)]

    assert not overlaps(side("t"), side("v"))


def test_a_run_of_one_repeated_word_proves_nothing() -> None:
    assert not overlaps([asked("t1", "a" + " 0" * 20)], [asked("v1", "b" + " 0" * 20)])
