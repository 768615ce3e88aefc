"""Part `sandbox`: does the sandbox hold in which stages of code and mixed prompts judge programs.

These stages come last, after all the pretraining, and refuse to start where it does not.
"""

from zgcm.preflight.answer import Answer, Task, not_applicable, ran
from zgcm.preflight.needs import sandboxed
from zgcm.rl.sandbox.attest import attest
from zgcm.rl.sandbox.image import image
from zgcm.rl.sandbox.jail import Limits, jail


def check(task: Task) -> Answer:
    """Attests one jail with each stage's limits. What does not hold is the ZgcmError of `attest`."""
    stages = sandboxed(task.recipe)
    if not stages:
        return not_applicable("no stage of the recipe has a sandbox of its own")
    figures = {}
    with image() as parts:
        for memory_mb in sorted(set(stages.values())):
            figures[f"{memory_mb} MiB"] = attest(jail(parts, Limits(memory_bytes=memory_mb << 20)))
    properties = next(iter(figures.values()))
    limited = "the jail" if properties["cgroup"] else "each process, not for the jail"
    held = sum(value is True for name, value in properties.items() if name != "cgroup")
    line = f"{', '.join(stages)}: {held} properties hold; memory is limited for {limited}"
    return ran(line, stages=stages, properties=figures)
