"""What is read of an answer: of a box, of the last line, and of a sentence without a box."""

import pytest

from zgcm.rl.rewards.math import candidate, equal


@pytest.mark.parametrize(
    "text", ["答案是8", "答案为：8", "答：8", "The answer is 8", "Answer: 8", "the answer is: 8"]
)
def test_a_box_may_introduce_its_answer(text: str) -> None:
    assert candidate(rf"\boxed{{{text}}}") == "8"


@pytest.mark.parametrize(
    "text", ["答案不是8", "The answer is not 8", "The answer isn't 8", "答案是9而不是8", "the answer is"]
)
def test_what_introduces_no_answer_is_none(text: str) -> None:
    assert not equal(candidate(rf"\boxed{{{text}}}"), "8")


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("It costs 5 cents a day.", "5 cents"),
        ("It costs $5 a day.", r"\$5"),
        ("It takes 5 in all.", "5"),
        ("面积是36平方厘米。", "36平方厘米"),
        ("她还剩9页没有看。", "9"),
        ("It is 5 °C outside.", "5 °C"),
        ("It costs £5 now.", "£5"),
        ("He earns $5 per hour.", r"\$5 per hour"),
        ("It is 5 m long.", "5 m"),
        ("It is 5ft long.", "5 ft"),
        ("The area is $5$ cm^2.", "5 cm^2"),
        ("He has 5 in the bank.", "5"),
        ("She is a 5-year-old.", "5"),
        ("一共5元2角。", "5元2角"),
        ("速度是60千米/小时", "60千米/小时"),
        ("He has 6 cookies, and 2 hours 15 minutes", "2 hours 15 minutes"),
        ("1 hour and 5 apples", "5"),
    ],
)
def test_a_number_of_the_last_line_keeps_its_unit(answer: str, found: str) -> None:
    assert candidate(answer) == found


@pytest.mark.parametrize(
    "value",
    [
        *("5 m^2", "5 cm^3", "5 cm²", "5 m**2", "60 km/h", "9.8 m/s^2", "2.7 g/cm^3", "60 miles per hour"),
        *("5 square feet", "5 sq ft", "2^10", "x^2", "6x^3", "x^2 + 5", "3:4", "3 : 4", "7 / 8", "2-3"),
        *("10_2", "5 x 10^3", "3 1/2", "10^{-3}", r"\frac{1}{2}", r"\sqrt{3}", "√3", "2π", "x > 5", "(3, 5)"),
        *("[0, 5)", "3 and 4", "2, 5 or 7", "x = 3 or x = 4", "{1, 2}", "3 + 4i", "|−5|", "3:30 pm"),
        "1 hour 30 minutes",
    ],
)
def test_a_part_of_a_number_is_never_the_answer(value: str) -> None:
    """Its last digits alone would be a wrong answer that earns a reward wherever the label is 2 or 3."""
    for frame in ("The result is {} here", "So it has {}.", "**We find {}**", "Wir haben {}"):
        found = candidate(frame.format(value))
        assert equal(found, value.replace("5 x ", r"5 \times ")), found
        wrong = [str(number) for number in (2, 3, 4, 7, 10, 30) if value[0] != str(number)[0]]
        assert not any(equal(found, number) for number in wrong), found


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("It is sin 30 here.", "sin 30"),
        ("It is log_2 8 here.", "log_2 8"),
        ("It is 5 mod 7 here.", "5 mod 7"),
        ("It is ±5 here.", "±5"),
        ("It is 5 ± 2 here.", "5 ± 2"),
        ("There are 10 choose 3 of them.", "10 choose 3"),
        ("It is 3 out of 5 here.", "3 out of 5"),
        ("It is 8 minus 5 here.", "8 minus 5"),
        ("The ratio of boys to girls is 3 to 4.", "3:4"),
        ("The price went from 10 to 4.", "4"),
        ("It is 3 squared here.", "3 squared"),
        ("It is 3 thirds here.", "3 thirds"),
        ("It is 5 below zero.", "5 below"),
        ("It is 5 million dollars here.", r"5 million\text{ dollars}"),
        ("She has 2 dozen eggs.", "2 dozen"),
        ("It is 3 √ 2 here.", "3 √ 2"),
        ("It is 1 000 000 m long.", "1000000 m"),
        ("It is minus 5 here.", "-5"),
        ("It is - 2/3 here.", "-2/3"),
        ("It is n! / 2 here.", "n! / 2"),
        ("It is 4 pi here.", "4 pi"),
        ("It is 4π cm² here.", r"4π\text{ cm}^{2}"),
        ("It is 1.5 × 10^5 m here.", r"1.5 × 10^5\text{ m}"),
        ("It is 101 in base 2.", "101_2"),
        ("He is 5'3\" tall.", "5'3"),
        ("She makes 9 * 2 = $18 a day.", r"\$18"),
        ("That is 5% of 20, so 1.", "1"),
        ("There are 2 sets of 18 cards.", "18"),
    ],
)
def test_what_stands_beside_a_number_and_makes_another_one_of_it(answer: str, found: str) -> None:
    assert candidate(answer) == found
