"""Texts with one planted credential or piece of personal data each, from a seed: true check digits, English
and Chinese surroundings."""

import base64
import json
import random
import string
from typing import NamedTuple

from stdnum import luhn
from stdnum.cn import ric


class Case(NamedTuple):
    kind: str
    value: str
    text: str


ENGLISH = ["Please write to {} before Friday.", "Contact: {}", "It was {}, she said, and nothing else.",
           "We logged it ({}) at noon.", "See\n{}\nfor more.", 'The field holds "{}".',
           "old,{},new"]  # fmt: skip
CHINESE = ["请在周五之前联系{}，谢谢。", "联系方式：{}", "他说是{}，没有别的。", "记录（{}）如下。",
           "见下\n{}\n以上。", "字段里写着“{}”。", "登记为{}的用户"]  # fmt: skip
ALPHANUMERIC = string.ascii_letters + string.digits


def planted_cases(seed: int, rounds: int) -> list[Case]:
    """`rounds` of every kind of value, in surroundings of both languages by turns."""
    random_ = random.Random(seed)
    cases = []
    for number in range(rounds):
        for index, (kind, make) in enumerate(MAKERS):
            value = make(random_)
            frames = (ENGLISH, CHINESE)[(number + index) % 2]
            cases.append(Case(kind, value, random_.choice(frames).replace("{}", value)))
    return cases


def letters(random_: random.Random, count: int, alphabet: str = ALPHANUMERIC) -> str:
    return "".join(random_.choices(alphabet, k=count))


def email(random_: random.Random) -> str:
    name = letters(random_, 1, string.ascii_lowercase) + letters(
        random_, random_.randint(2, 9), "abcdefgh._-12"
    )
    domain = random_.choice(
        ["example.com", "mail.org", "163.com", "qq.com", "uni.edu.cn", "firm.co.uk", "x-y.de"]
    )
    return f"{name.rstrip('._-')}@{domain}"


def chinese_mobile(random_: random.Random) -> str:
    digits = random_.choice(["138", "139", "159", "186", "188"]) + letters(random_, 8, string.digits)
    separator = random_.choice(["", " ", "-"])
    number = separator.join([digits[:3], digits[3:7], digits[7:]])
    return random_.choice(["", "+86 "]) + number


def landline(random_: random.Random) -> str:
    return random_.choice(["010-6", "021-5", "(020)8", "0755-2"]) + letters(random_, 7, "1234567")


def american_phone(random_: random.Random) -> str:
    area = random_.choice(["212", "415", "312", "617"])
    tail = f"{letters(random_, 1, '23456789')}{letters(random_, 1, '2345')}{letters(random_, 1, '2345')}"
    line = letters(random_, 4, string.digits)
    return random_.choice([f"({area}) {tail}-{line}", f"{area}-{tail}-{line}", f"+1 {area} {tail} {line}"])


def ipv4(random_: random.Random) -> str:
    return f"{random_.choice([8, 45, 101, 139, 203])}." + ".".join(
        str(random_.randint(1, 254)) for _ in range(3)
    )


def ipv6(random_: random.Random) -> str:
    groups = [f"{random_.randint(0, 65535):x}" for _ in range(6)]
    return random_.choice(
        [f"2001:db8:{':'.join(groups)}", f"2400:3200::{groups[0]}", f"2606:4700:{groups[0]}::1"]
    )


def chinese_id(random_: random.Random) -> str:
    place = random_.choice(["110101", "310104", "440305", "510107"])
    birth = f"{random_.randint(1950, 2005)}{random_.randint(1, 12):02}{random_.randint(1, 28):02}"
    body = place + birth + letters(random_, 3, string.digits)
    return body + ric.calc_check_digit(body + "0")


def ssn(random_: random.Random) -> str:
    return f"{random_.randint(100, 600)}-{random_.randint(10, 99)}-{random_.randint(1000, 8999)}"


def card(random_: random.Random) -> str:
    prefix, length = random_.choice(
        [("4", 16), ("51", 16), ("37", 15), ("6011", 16), ("622202", 19), ("6217", 16)]
    )
    body = prefix + letters(random_, length - len(prefix) - 1, string.digits)
    digits = body + luhn.calc_check_digit(body)
    separator = random_.choice(["", " ", "-"])
    if length == 15:
        return separator.join([digits[:4], digits[4:10], digits[10:]])
    return separator.join(digits[start : start + 4] for start in range(0, length, 4))


def iban(random_: random.Random) -> str:
    from stdnum import iban as iban_

    body = letters(random_, 18, string.digits)
    number = f"DE{iban_.calc_check_digits(f'DE00{body}')}{body}"
    return random_.choice([number, iban_.format(number)])


def jwt(random_: random.Random) -> str:
    parts = [
        {"alg": "HS256", "typ": "JWT"},
        {"sub": letters(random_, 9), "iat": random_.randint(10**9, 2 * 10**9)},
    ]
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*encoded, letters(random_, 43)])


def private_key(random_: random.Random) -> str:
    kind = random_.choice(["RSA ", "EC ", "OPENSSH ", ""])
    body = "\n".join(letters(random_, 64) for _ in range(4))
    return f"-----BEGIN {kind}PRIVATE KEY-----\n{body}\n-----END {kind}PRIVATE KEY-----"


TOKENS = {
    "aws": lambda r: "AKIA" + letters(r, 16, string.ascii_uppercase + string.digits),
    "github": lambda r: "ghp_" + letters(r, 36),
    "gitlab": lambda r: "glpat-" + letters(r, 20),
    "slack": lambda r: f"xoxb-{letters(r, 12, string.digits)}-{letters(r, 24, string.ascii_lowercase)}",
    "stripe": lambda r: "sk_live_" + letters(r, 24),
    "openai": lambda r: f"sk-{letters(r, 20)}T3BlbkFJ{letters(r, 20)}",
    "sendgrid": lambda r: f"SG.{letters(r, 22)}.{letters(r, 43)}",
    "discord": lambda r: f"M{letters(r, 23)}.{letters(r, 6)}.{letters(r, 27)}",
    "telegram": lambda r: f"{letters(r, 9, '123456789')}:{letters(r, 35)}",
    "pypi": lambda r: "pypi-AgEIcHlwaS5vcmc" + letters(r, 80),
    "jwt": jwt,
    "private_key": private_key,
    "basic_auth": lambda r: f"https://user:{letters(r, 14)}@host.org/path",
    "password": lambda r: f'password = "{letters(r, 16)}"',
    "api_key": lambda r: f"API_KEY: {letters(r, 24)}",
    "json_secret": lambda r: json.dumps({"user": "x", "secret": letters(r, 20)}),
    "chinese_password": lambda r: (
        f"密码：{letters(r, 9, string.ascii_letters)}7{letters(r, 2, string.digits)}"
    ),
}
MAKERS = [
    ("email", email), ("phone", chinese_mobile), ("phone", landline), ("phone", american_phone), ("ip", ipv4),
    ("ip", ipv6), ("id_card", chinese_id), ("id_card", ssn), ("bank_card", card), ("bank_card", iban),
    *(("secret", make) for make in TOKENS.values()),
]  # fmt: skip
