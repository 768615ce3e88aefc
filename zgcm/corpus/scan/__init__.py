"""Credentials and personal data in text: found, counted, and replaced by typed placeholders.

    scan("write to li.lei@mail.cn")  ->  (Finding("email", 9, 23, "email"),)

Two passes. `candidates` asks Hyperscan which of all detectors could match anywhere (gigabytes a second, and
never a miss: its prefilter mode accepts what the pattern accepts, and more). `findings` runs only those
detectors' own patterns over the text and verifies each match: check digits, numbering plans, address ranges.
"""
