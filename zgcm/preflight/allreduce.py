"""Part `allreduce`: bandwidth of all-reduce between the recipe's processes, and whether their machines agree.

On several nodes the processes are started as for training, within the Slurm job.
"""

import json
import subprocess
from typing import Any

from zgcm.config.recipe import Recipe
from zgcm.config.resources import Resources
from zgcm.identity import changed_keys
from zgcm.io import read_json, write_json
from zgcm.preflight.answer import Answer, Task, failed, not_applicable, ran
from zgcm.preflight.trial import error_line
from zgcm.train.launch import command, environment, kill

MODULE = "zgcm.preflight.allreduce_process"
MIB = 1 << 20
GPU_SIZES = [MIB, 16 * MIB, 128 * MIB, 1024 * MIB]
CPU_SIZES = [MIB // 16, MIB, 16 * MIB]
TIMEOUT = 1200  # seconds; a fabric that needs longer for these sizes does not work


def check(task: Task) -> Answer:
    needs = processes(task.recipe)
    if needs.world_size == 1:
        return not_applicable("one GPU alone reduces nothing")
    settings = task.work / "allreduce.json"
    sizes = GPU_SIZES if needs.gpus_per_node else CPU_SIZES
    result = task.work / "result.json"
    write_json(settings, {"sizes": sizes, "result": str(result)})
    task.logs.mkdir(parents=True, exist_ok=True)
    log_file = task.logs / "allreduce.log"
    with log_file.open("w") as log:
        process = subprocess.Popen(
            command(needs, settings, log_file.with_suffix(""), MODULE),
            env=environment(needs),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            code = process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            return failed(f"{needs.world_size} processes did not finish within {TIMEOUT} s")
        finally:
            kill(process)
            process.wait()
    if code:
        return failed(f"exit code {code}: {error_line(log_file)} ({log_file})")
    return judge(read_json(result))


def judge(found: dict[str, Any]) -> Answer:
    """`found` is what rank 0 of the processes wrote."""
    hosts = found["hosts"]
    first = next(iter(hosts))
    differing = {host: changed_keys(hosts[first], facts) for host, facts in hosts.items() if host != first}
    differing = {host: keys for host, keys in differing.items() if keys}
    figures = {**found, "hosts": sorted(hosts)}
    if found["wrong"]:
        return failed(f"a wrong sum at {json.dumps(found['wrong'])} bytes", **figures)
    if differing:
        told = "; ".join(f"{host}: {', '.join(keys)}" for host, keys in differing.items())
        return failed(f"these nodes differ from {first} in {told}", **figures)
    rows = [f"{row['bytes'] / MIB:g} MiB {row['bus_gb_s']:.3g} GB/s" for row in found["bandwidth"]]
    who = f"{found['backend']}, {found['processes']} processes on {len(hosts)} node" + "s" * (len(hosts) > 1)
    return ran(f"{who}, bus bandwidth " + ", ".join(rows), **figures)


def processes(recipe: Recipe) -> Resources:
    """Of the stage with most processes; on CPUs at least two, over the loopback device."""
    stages = [stage.resources for stage in recipe.train_stages().values()]
    most = max(stages, key=lambda needs: needs.world_size, default=Resources())
    if most.world_size == 1 and not most.gpus_per_node:
        return Resources(processes_per_node=2, cpus_per_process=most.cpus_per_process)
    return most
