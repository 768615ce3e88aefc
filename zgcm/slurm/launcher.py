"""Several nodes: the command that runs a command once on each node of the current Slurm job.

The job's own script, on its first node, owns the run and calls launch.sh, which starts one process a node and
gives each the rendezvous that torch.distributed.run reads. See launch.sh for signals, logs and exit codes.
"""

import os
from pathlib import Path

from zgcm.config.resources import Resources
from zgcm.errors import ZgcmError

SCRIPT = Path(__file__).with_name("launch.sh")


def on_every_node(resources: Resources, log: Path, command: list[str]) -> list[str]:
    """`command` on all nodes of this job, with node N's output in `{log}.node_N.log`. Raises ZgcmError."""
    require_job(resources.nodes)
    needs = [resources.nodes, resources.gpus_per_node, resources.cores_per_node]
    return [str(SCRIPT), *map(str, needs), str(log), *command]


def require_job(nodes: int) -> None:
    """Several nodes need a Slurm job: nobody else can start a process on the others. Raises ZgcmError."""
    if nodes > 1 and "SLURM_JOB_ID" not in os.environ:
        raise ZgcmError(
            f"{nodes} nodes are asked for, and this is one machine without a Slurm job",
            expected="a Slurm job of as many nodes, or resources.nodes: 1",
            hint="on a cluster: snakemake --profile slurm results/STAGE/done, or the same command within "
            f"salloc --nodes={nodes}",
        )
