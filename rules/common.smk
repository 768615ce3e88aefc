"""Helpers of the rules, no rules. RECIPE and LAYOUT come from the Snakefile.

`params: recipe_id=...` is what makes a changed recipe rerun a step and all that is built on it; threads, resources
and code never do.
"""

from operator import attrgetter

from snakemake.logging import logger

from zgcm import identity
from zgcm.layout import (
    PACKED_PARTS,
    compared_shards,
    mix_shards,
    raw_input,
    shard_name,
    source_shards,
    used_shards,
)
from zgcm.preflight.needs import needs_id
from zgcm.report.recipe import assumptions
from zgcm.rundir.owner import live_job
from zgcm.stopping import pass_on, was_requested  # the former for the Snakefile's `onstart`

DOCUMENT_MIXES = [name for name, mix in RECIPE.mixes.items() if mix.kind == "documents"]
PACKED_MIXES = [name for name, mix in RECIPE.mixes.items() if mix.kind == "packed"]
ADOPTED_MIXES = [name for name, mix in RECIPE.mixes.items() if mix.prefixes]
PACKED_FILES = [f"{part}.{suffix}" for part in PACKED_PARTS for suffix in ("bin", "idx")]
# Mixes with the same evaluation files share the shards' contamination; any of them names it to the verb.
EVALUATIONS = {
    identity.evaluation_set(mix.decontaminate): name
    for name, mix in RECIPE.mixes.items()
    if mix.decontaminate is not None
}


def one_of(names):
    """A wildcard constraint: exactly these names, or nothing at all when there are none."""
    return "|".join(names) or "(?!)"


wildcard_constraints:
    source=one_of(RECIPE.sources),
    mix=one_of(RECIPE.mixes),
    stage=one_of(RECIPE.stages),
    shard=r"\d{5}",
    shards=r"\d{5}",
    scheme=r"\d+x\d+x\d+",
    evaluations=one_of(EVALUATIONS),


# Ctrl-C and Slurm's SIGTERM reach a job's shell too: it waits for its verb, which saves or tidies up.
shell.prefix("set -euo pipefail; trap : INT TERM; ")


onerror:
    if was_requested():
        logger.info("Stopped at your request. The same command goes on from what is finished or saved.")


if workflow.is_main_process:
    logger.info(f"{RECIPE.name}: {LAYOUT.root.absolute()}, recipe {', '.join(map(str, RECIPE_FILES))}")
    for assumption in assumptions(RECIPE):
        logger.info(assumption)


# --- identity -----------------------------------------------------------------------------------------------


def recipe_id(step, name=""):
    return identity.recipe_id(RECIPE, step, name)


def source_id(step):
    """The recipe_id of a step of the job's source, as a params function."""

    def of_job(wildcards):
        return recipe_id(step, wildcards.source)

    return of_job


def mix_id(wildcards):
    return recipe_id("mix", wildcards.mix)


def stage_id(wildcards):
    return recipe_id(identity.stage_step(RECIPE, wildcards.stage), wildcards.stage)


def stage_step_id(step):
    """The recipe_id of a step beside the job's stage, as a params function."""

    def of_job(wildcards):
        return recipe_id(step, wildcards.stage)

    return of_job


def report_id():
    """The report shows every stage, so it is stale with any of them."""
    return identity.digest(
        {stage: recipe_id(identity.stage_step(RECIPE, stage), stage) for stage in RECIPE.stages}
    )


# --- inputs -------------------------------------------------------------------------------------------------


def raw_shard(wildcards):
    return str(raw_input(RECIPE, LAYOUT, wildcards.source, wildcards.shard))


def of_shards(sources, path):
    """`path(source, shard)` of every shard of the sources."""
    return [str(path(source, shard)) for source in sources for shard in source_shards(RECIPE, source)]


def tokenizer_corpus(wildcards):
    return of_shards(RECIPE.tokenizer.sources, LAYOUT.cleaned) if RECIPE.tokenizer.kind == "train" else []


def tokenizer_path():
    """Of an imported one: a param, so that another directory is looked at again."""
    return getattr(RECIPE.tokenizer, "path", "")


def of_mix(mix, path):
    """`path(source, shard)` of every shard of the mix's sources."""
    return of_shards(RECIPE.mixes[mix].sources, path)


def of_the_mix(path):
    """The same for the job's mix, as an input function."""

    def of_job(wildcards):
        return of_mix(wildcards.mix, path)

    return of_job


def index_bin(source, shard):
    return f"{LAYOUT.index_prefix(source, shard)}.bin"


def index_idx(source, shard):
    return f"{LAYOUT.index_prefix(source, shard)}.idx"


def kept_by_earlier_mixes(wildcards):
    return [str(LAYOUT.kept(mix)) for mix in RECIPE.mixes[wildcards.mix].exclude]


def evaluated_mix(wildcards):
    return EVALUATIONS[wildcards.evaluations]


def contamination_of_the_mix(wildcards):
    section = RECIPE.mixes[wildcards.mix].decontaminate
    if section is None:
        return []
    evaluations = identity.evaluation_set(section)
    return [str(LAYOUT.contamination(*place, evaluations)) for place in used_shards(RECIPE, wildcards.mix)]


def near_duplicate_inputs(wildcards):
    """What near-duplicates are sought with: bands, fingerprints and texts of the mix's shards and of those that its
    excluded mixes drew from, and what these selected."""
    mix = RECIPE.mixes[wildcards.mix]
    if mix.near_duplicates is None:
        return []
    found = []
    for place in compared_shards(RECIPE, wildcards.mix):
        found += [LAYOUT.minhash(*place, mix.near_duplicates.scheme)]
        found += [LAYOUT.fingerprints(*place), LAYOUT.cleaned(*place)]
    return [*map(str, found), *(path for other in mix.exclude for path in selections(other))]


def selections(mix):
    return [str(LAYOUT.selection(mix, shard)) for shard in mix_shards(RECIPE, mix)]


def packed_manifests(wildcards):
    return [
        f"{LAYOUT.packed_prefix(wildcards.mix, shard)}.json" for shard in mix_shards(RECIPE, wildcards.mix)
    ]


def training_files(mix):
    """What a stage waits for: the manifest of each shard, written after the shard's other files."""
    manifests = [str(LAYOUT.mix(mix) / f"{shard}.json") for shard in mix_shards(RECIPE, mix)]
    return manifests if mix in DOCUMENT_MIXES else [*manifests, str(LAYOUT.dataset(mix))]


def stage_data(wildcards):
    return [file for mix in RECIPE.stages[wildcards.stage].mix for file in training_files(mix)]


def stage_init(wildcards):
    init = RECIPE.stages[wildcards.stage].init
    return [str(LAYOUT.done(init))] if init else []


def adopted_path(wildcards):
    return RECIPE.stages[wildcards.stage].path


def pinned_digest(wildcards):
    return RECIPE.stages[wildcards.stage].weights_digest


def adopted_prefix(wildcards):
    return RECIPE.mixes[wildcards.mix].prefixes[int(wildcards.shard)]


def made(mixes):
    """Those that are made here, not adopted."""
    return [mix for mix in mixes if mix not in ADOPTED_MIXES]


def policy_init(wildcards):
    return str(LAYOUT.export_manifest(RECIPE.stages[wildcards.stage].init))


def pass_rate_shards(wildcards):
    shards = RECIPE.stages[wildcards.stage].difficulty.shards
    names = map(shard_name, range(shards))
    return [str(LAYOUT.pass_rates(wildcards.stage, name, shards)) for name in names]


def chosen_prompts(wildcards):
    stage = wildcards.stage
    if RECIPE.stages[stage].difficulty is None:
        return []
    return [str(LAYOUT.difficulty(stage)), str(LAYOUT.kept_prompts(stage))]


# --- resources ----------------------------------------------------------------------------------------------


def profile_partition():
    """Of the profile's default-resources, which Snakemake leaves out where a rule names the resource."""
    named = (workflow.resource_settings.default_resources or {}).get("slurm_partition")
    return named.raw if named else None


def partition(needs):
    return needs.partition or profile_partition()


def step_resource(step, name):
    return getattr(getattr(RECIPE.step_resources, step), name)


def step_partition(step):
    return partition(getattr(RECIPE.step_resources, step))


def step_threads(step):
    return step_resource(step, "cores_per_node")


def stage_resource(name):
    """A resource of the job's stage, as a resources function."""

    def of_job(wildcards):
        return getattr(RECIPE.stages[wildcards.stage].resources, name)

    return of_job


def stage_partition(wildcards):
    return partition(RECIPE.stages[wildcards.stage].resources)


def stage_threads(wildcards):
    """Cores of one node: Slurm gets one task a node, and the launcher starts the node's processes."""
    return RECIPE.stages[wildcards.stage].resources.cores_per_node


def difficulty_needs(wildcards):
    return RECIPE.stages[wildcards.stage].difficulty.resources


def difficulty_resource(name):
    """A resource of one job of the stage's difficulty, as a resources function."""

    def of_job(wildcards):
        return getattr(difficulty_needs(wildcards), name)

    return of_job


def difficulty_partition(wildcards):
    return partition(difficulty_needs(wildcards))


def difficulty_slurm_extra(wildcards):
    return slurm_extra(difficulty_needs(wildcards))


def stage_mpi(wildcards):
    return mpi(RECIPE.stages[wildcards.stage].resources)


def stage_slurm_extra(wildcards):
    """A workflow that died may have left a job behind: the next one's job starts when that has ended, so that no
    nodes wait for it and nobody else writes its checkpoints."""
    job = live_job(LAYOUT.runs(wildcards.stage), stage_id(wildcards))
    after = f" --dependency=afterany:{job}" if job else ""
    return slurm_extra(RECIPE.stages[wildcards.stage].resources) + after


def mpi(needs):
    """`mpi` switches the executor's single-task srun off; it is refused where there is one task."""
    return "srun" if needs.nodes > 1 else None


def slurm_extra(needs):
    gpus = f"--gpus-per-node={needs.gpus_per_node} " if needs.gpus_per_node else ""
    return f"{gpus}--ntasks-per-node=1"


# What the training stage with most processes asks for: the preflight runs where it would.
WIDEST = max(
    [stage.resources for stage in RECIPE.train_stages().values()],
    key=attrgetter("world_size"),
    default=RECIPE.step_resources.mix,
)


def container_image(environment):
    """Used with `--sdm apptainer` only; built once from envs/{environment}.def (see docs/environments.md)."""
    return str(CHECKOUT / "envs" / f"{environment}.sif")


# --- targets ------------------------------------------------------------------------------------------------


def exported_stages():
    """SFT and RL stages end in a model that users load; the stages before them are steps on the way."""
    return [name for name, stage in RECIPE.stages.items() if stage.kind in ("sft", "rl")]


def targets():
    exports = [str(LAYOUT.export_manifest(stage)) for stage in exported_stages()]
    return [*(str(LAYOUT.done(stage)) for stage in RECIPE.stages), *exports, str(LAYOUT.report)]


def report_inputs():
    """Everything the report shows."""
    sources = sorted({source for mix in RECIPE.mixes.values() for source in mix.sources})
    summaries = of_shards(sources, LAYOUT.cleaning_summary)
    mixes = [str(LAYOUT.plan(mix)) for mix in made(RECIPE.mixes)]
    mixes += [str(LAYOUT.dataset(mix)) for mix in PACKED_MIXES]
    mixes += [file for mix in ADOPTED_MIXES for file in training_files(mix)]
    markers = [str(LAYOUT.evaluations(stage)) for stage in RECIPE.rl_stages()]
    return [*summaries, *mixes, *markers, *targets()[:-1]]
