"""What the steps of a recipe ask of the scheduler: nodes, GPUs, processes, cores, memory, time.

`zgcm.config.crosscheck_machines` says whether it suffices for what a stage starts there.
"""

from pydantic import PositiveInt

from zgcm.config.base import Count, Section, execution


class Resources(Section):
    """What one job of a step asks the scheduler for. Never identity."""

    nodes: Count = execution(1)
    """Machines."""
    gpus_per_node: int = execution(0, ge=0, le=1024)
    """GPUs of each; 0: CPU only."""
    processes_per_node: Count = execution(1)
    """Trainer processes on a node: its GPUs, or CPU ranks on a laptop."""
    cpus_per_process: Count = execution(1)
    """CPU cores of each process."""
    mem_mb: PositiveInt = execution(2000)
    """Memory of a node."""
    runtime_minutes: PositiveInt = execution(60)
    """Time limit of one attempt; the next attempt resumes."""
    partition: str | None = execution(None)
    """Slurm partition; absent: the profile's."""

    @property
    def world_size(self) -> int:
        """Trainer processes of all nodes."""
        return self.nodes * self.processes_per_node

    @property
    def gpus(self) -> int:
        """Of all nodes."""
        return self.nodes * self.gpus_per_node

    @property
    def on_cpu(self) -> bool:
        return self.gpus_per_node == 0

    @property
    def cores_per_node(self) -> int:
        return self.processes_per_node * self.cpus_per_process


class StepResources(Section):
    """What the steps that are not stages ask the scheduler for."""

    clean: Resources = execution(Resources())
    """Of fetching, cleaning and fingerprinting one shard."""
    tokenizer: Resources = execution(Resources())
    """Of training or importing the tokenizer."""
    index: Resources = execution(Resources())
    """Of tokenizing one shard, and of gathering or packing one shard of a mix."""
    mix: Resources = execution(Resources())
    """Of deduplicating and planning one mix."""
    export: Resources = execution(Resources(mem_mb=4000))
    """Of exporting one stage."""
