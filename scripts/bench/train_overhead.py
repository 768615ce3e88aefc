"""Overhead: the tiny recipe's pretrain_1t by `zgcm train` against a bare megatron-core loop.

    .venv/bin/python scripts/bench/train_overhead.py [--alternations 5] [--steps 60]

Both train the same model with the same options on the same data behind the same CPU layer; the bare loop
has megatron-core's own log and checkpoints only: no loss log, no manifests, no owner, no verb in front. They
alternate, and so does who goes first. The mix is made-up text in a temporary directory.

One JSON line: `step` is the ratio of the median seconds of a step, `startup` that of the seconds from the
command to the first step, ours by bare; each with `_cpu` for processor seconds, which a busy machine blurs
less. Steps that save are left out of `step`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
STAGE = "pretrain_1t"
SKIPPED = 5  # first steps, which warm up


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--alternations", type=int, default=5)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(*options.child)
    else:
        bench(options.alternations, options.steps)


def bench(alternations: int, steps: int) -> None:
    found: dict[str, list[dict[str, float]]] = {"ours": [], "bare": []}
    with tempfile.TemporaryDirectory(prefix="bench-overhead-") as directory:
        work = Path(directory)
        recipe = write_inputs(work, steps)
        for number in range(alternations):
            for name in sorted(found, reverse=bool(number % 2)):
                found[name].append(measure(name, work / f"{name}_{number}", work, recipe))
                print(f"{number + 1}/{alternations} {name}: {json.dumps(found[name][-1])}", file=sys.stderr)
    line: dict[str, Any] = {"bench": "train_overhead", "alternations": alternations, "steps": steps}
    for key in found["ours"][0]:
        ours, bare = (statistics.median(run[key] for run in found[name]) for name in ("ours", "bare"))
        line |= {key: round(ours / bare, 3), f"{key}_ours": round(ours, 4), f"{key}_bare": round(bare, 4)}
    print(json.dumps(line))


def write_inputs(work: Path, steps: int) -> Path:
    """The mix shards and the tokenizer that the stage looks for. Returns the recipe's path."""
    import yaml

    from zgcm.config.load import load_recipe, read_mapping
    from zgcm.config.recipe import deep_merge
    from zgcm.io import sha256_file, write_json
    from zgcm.layout import Layout, mix_shards
    from zgcm.preflight.text import EOD, write_text
    from zgcm.rundir.manifest import write_manifest
    from zgcm.tokens.indexed import data_path, index_path
    from zgcm.train.inputs import EOD as EOD_TOKEN

    path = work / "recipe.yaml"
    change = {"stages": {STAGE: {"schedule": {"train_iters": steps}}}}
    path.write_text(
        yaml.safe_dump(deep_merge(read_mapping(ROOT / "config/tiny.yaml"), change), sort_keys=False)
    )
    recipe, layout = load_recipe([path]), Layout(work / "inputs")
    for mix in recipe.train_stages()[STAGE].mix:
        for shard in mix_shards(recipe, mix):
            prefix = layout.mix_prefix(mix, shard)
            write_text(prefix, recipe.tokenizer.vocab_size, 50_000)
            parts = {
                "bin_sha256": sha256_file(data_path(prefix)),
                "idx_sha256": sha256_file(index_path(prefix)),
            }
            write_json(layout.mix(mix) / f"{shard}.json", {"tokens": 50_000, **parts})
    layout.tokenizer.mkdir()
    write_json(layout.tokenizer / "tokenizer.json", {"added_tokens": [{"content": EOD_TOKEN, "id": EOD}]})
    write_manifest(layout.tokenizer)
    return path


def measure(name: str, run: Path, work: Path, recipe: Path) -> dict[str, float]:
    """Seconds and processor seconds of a step and of the start, from one process of its own."""
    run.mkdir()
    results = run / "results"
    results.mkdir()
    for part in ("mixes", "tokenizer"):
        (results / part).symlink_to(work / "inputs" / part)
    record = run / "record.json"
    environment = {**os.environ, "BENCH_RECIPE": str(recipe), "BENCH_DIRECTORY": str(run)}
    environment |= {"BENCH_RECORD": str(record), "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
    if name == "bare":
        prepare_bare(run, recipe, results)
    began = time.time()
    with (run / "log").open("w") as log:
        command = [sys.executable, __file__, "--child", f"{name}-start", str(run / "trainer.json")]
        ended = subprocess.run(command, env=environment, stdout=log, stderr=log)
    if ended.returncode:
        sys.exit(f"{name} failed:\n" + (run / "log").read_text()[-3000:])
    marks = json.loads(record.read_text())
    gaps = list(zip(marks["steps"], marks["steps"][1:], strict=False))[SKIPPED:]
    gaps = [(a, b) for a, b in gaps if a["saves"] == b["saves"]]
    return {
        "step": statistics.median(b["wall"] - a["wall"] for a, b in gaps),
        "step_cpu": statistics.median(b["cpu"] - a["cpu"] for a, b in gaps),
        "startup": marks["steps"][0]["wall"] - began,
        "startup_cpu": marks["steps"][0]["cpu"] + marks["before_cpu"],
    }


def prepare_bare(run: Path, recipe_path: Path, results: Path) -> None:
    """What a user of megatron-core would have in a shell script: the same options, and the data's place."""
    from zgcm.config.load import load_recipe
    from zgcm.io import write_json
    from zgcm.layout import Layout
    from zgcm.train.arguments import megatron_argv, plan
    from zgcm.train.inputs import gather

    recipe, layout = load_recipe([recipe_path]), Layout(results)
    options = megatron_argv(recipe, layout, STAGE, run / "bare", plan(recipe, layout, STAGE))
    stage = recipe.train_stages()[STAGE]
    settings = {
        "argv": [part for option in options for part in option],
        "prefixes": gather(recipe, layout, STAGE).prefixes,
        "seq_length": stage.seq_length,
        "gate": recipe.model.attention_output_gate,
    }
    (run / "bare/checkpoints").mkdir(parents=True)
    write_json(run / "trainer.json", settings)


def child(name: str, settings: str) -> None:
    """`ours-start` is `zgcm train`, which starts `ours`; `bare-start` is the bare trainer itself."""
    if name == "ours-start":
        from zgcm.cli import main as zgcm
        from zgcm.train import launch

        def command(resources: Any, file: Path, *_: Any) -> list[str]:
            os.environ["BENCH_BEFORE_CPU"] = str(time.process_time())
            return [sys.executable, __file__, "--child", "ours", str(file)]

        upstream_environment = launch.environment
        launch.command = command
        launch.environment = lambda resources: {
            **upstream_environment(resources),
            "BENCH_BEFORE_CPU": os.environ["BENCH_BEFORE_CPU"],
        }
        place = ["--recipe", os.environ["BENCH_RECIPE"], "--directory", os.environ["BENCH_DIRECTORY"]]
        sys.argv = ["zgcm", "train", STAGE, *place]
        zgcm()
    elif name == "ours":
        from zgcm.train import cpu, entry

        cpu.install()
        with recording():
            entry.main(settings)
    else:
        os.environ |= {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1"}
        os.environ |= {"MASTER_PORT": "0", "CUDA_DEVICE_MAX_CONNECTIONS": "1"}
        from zgcm.train import cpu

        cpu.install()
        with recording():
            bare(json.loads(Path(settings).read_text()))


def bare(settings: dict[str, Any]) -> None:
    """megatron-core's loop with our layer spec, Muon's splits and our data, and nothing else of ours."""
    from functools import partial

    import torch
    from megatron.core.datasets import utils as dataset_utils
    from megatron.core.enums import ModelType
    from megatron.training import pretrain
    from megatron.training.argument_utils import gpt_config_from_args, pretrain_cfg_container_from_args
    from megatron.training.arguments import parse_and_validate_args

    from zgcm.model.megatron import block_spec
    from zgcm.train import muon
    from zgcm.train.datasets import TokenStream

    torch.set_num_threads(1)
    dataset_utils.compile_helpers = lambda: None
    muon.install()
    sys.argv = ["bare", *settings["argv"]]
    args = parse_and_validate_args()
    model = gpt_config_from_args(args)
    model.transformer_layer_spec = lambda config, vp_stage=None: block_spec(
        config.transformer, settings["gate"], vp_stage
    )

    def datasets(samples: tuple[int, int, int]) -> Any:
        return TokenStream(settings["prefixes"], settings["seq_length"], samples[0]), None, None

    def forward_step(batches: Any, model: Any) -> Any:
        batch = next(batches)
        losses = model(batch["tokens"], None, None, labels=batch["labels"])
        return losses, partial(reduce_losses, batch["loss_mask"])

    def reduce_losses(mask: Any, losses: Any) -> Any:
        loss, tokens = (losses.view(-1).float() * mask.view(-1)).sum(), mask.sum().to(torch.int)
        return loss, tokens, {"lm loss": torch.stack([loss.detach(), tokens.to(loss.dtype)])}

    datasets.is_distributed = True  # type: ignore[attr-defined]
    container = pretrain_cfg_container_from_args(args, model)
    pretrain(container, datasets, ModelType.encoder_or_decoder, forward_step)


class recording:
    """Note wall and processor time at the beginning of every step, and how many saves there were so far."""

    def __enter__(self) -> None:
        from megatron.core import dist_checkpointing
        from megatron.training import training

        self.steps: list[dict[str, float]] = []
        self.saves = 0
        train_step, save = training.train_step, dist_checkpointing.save

        def timed(*args: Any, **kwargs: Any) -> Any:
            now = {"wall": time.time(), "cpu": time.process_time(), "saves": self.saves}
            self.steps.append(now)
            return train_step(*args, **kwargs)

        def counted(*args: Any, **kwargs: Any) -> Any:
            self.saves += 1
            return save(*args, **kwargs)

        training.train_step, dist_checkpointing.save = timed, counted

    def __exit__(self, *error: Any) -> None:
        marks = {"steps": self.steps, "before_cpu": float(os.environ.get("BENCH_BEFORE_CPU", "0"))}
        Path(os.environ["BENCH_RECORD"]).write_text(json.dumps(marks))


if __name__ == "__main__":
    main()
