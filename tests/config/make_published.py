"""Write published.json: the numbers of the public ZGCM-1 configurations, from a JSON of its settings files.

python tests/config/make_published.py CONFIGS_JSON     (only when that file itself changes)
"""

import json
import sys
from pathlib import Path

STAGES = (
    *("pretrain_s1", "pretrain_s2", "midtrain_16k", "midtrain_64k", "midtrain_256k"),
    *("sft", "sft_runtime", "rl_math", "rl_code", "rl_if"),
)


def main(source: Path) -> None:
    configs = json.loads(source.read_text())
    published = {stage: configs[stage] for stage in STAGES}
    published["launcher"] = configs["_meta"]["fixed_launcher_flags_pretrain_midtrain"]
    published["sft_runner"] = configs["_meta"]["fixed_runner_flags_sft"]
    published["derived"] = configs["_derived"]
    target = Path(__file__).with_name("published.json")
    target.write_text(json.dumps(published, indent=1, ensure_ascii=False) + "\n")
    print(f"{target}: {sum(map(len, published.values()))} values")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
