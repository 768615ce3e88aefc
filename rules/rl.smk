# Pass rates of the initial policy choose the prompts of stages that ask for it; then GRPO.


rule pass_rates:
    input:
        policy_init,
    output:
        "results/{stage}/difficulty/{shard}-of-{shards}.parquet",
    log:
        "results/logs/pass_rates/{stage}/{shard}-of-{shards}.log",
    benchmark:
        "results/benchmarks/pass_rates/{stage}/{shard}-of-{shards}.tsv"
    params:
        recipe_id=stage_step_id("pass_rates"),
    threads: difficulty_resource("cores_per_node")
    resources:
        mem_mb=difficulty_resource("mem_mb"),
        runtime=difficulty_resource("runtime_minutes"),
        slurm_partition=difficulty_partition,
        slurm_extra=difficulty_slurm_extra,
    conda:
        "../envs/rollout.yaml"
    container:
        container_image("rollout")
    message:
        "Measure pass rates of prompts shard {wildcards.shard} of {wildcards.stage}"
    shell:
        "zgcm pass-rates {wildcards.stage} {wildcards.shard} 2>&1 | (trap '' INT TERM; tee {log})"


rule difficulty:
    input:
        policy=policy_init,
        rates=pass_rate_shards,
    output:
        table="results/{stage}/difficulty.parquet",
        prompts="results/{stage}/prompts.jsonl",
    log:
        "results/logs/difficulty/{stage}.log",
    benchmark:
        "results/benchmarks/difficulty/{stage}.tsv"
    params:
        recipe_id=stage_step_id("difficulty"),
    threads: 1
    resources:
        mem_mb=step_resource("mix", "mem_mb"),
        runtime=step_resource("mix", "runtime_minutes"),
        slurm_partition=step_partition("mix"),
    conda:
        "../envs/rollout.yaml"
    container:
        container_image("rollout")
    message:
        "Choose the prompts of {wildcards.stage} by their pass rates"
    shell:
        "zgcm difficulty {wildcards.stage} > {log} 2>&1"


# The markers are one output, a directory: a file each would make other outputs of a changed recipe, and of outputs that
# were never there Snakemake knows no older recipe. Asked for `done` alone it would find nothing to do.
rule rl:
    wildcard_constraints:
        stage=one_of(RECIPE.rl_stages()),
    input:
        policy=policy_init,
        prompts=chosen_prompts,
    output:
        done="results/{stage}/done",
        evaluations=directory("results/{stage}/evaluations"),
    log:
        "results/logs/rl/{stage}.log",
    benchmark:
        "results/benchmarks/rl/{stage}.tsv"
    params:
        recipe_id=stage_id,
    threads: stage_threads
    resources:
        mem_mb=stage_resource("mem_mb"),
        runtime=stage_resource("runtime_minutes"),
        nodes=stage_resource("nodes"),
        tasks=stage_resource("nodes"),
        mpi=stage_mpi,
        slurm_partition=stage_partition,
        slurm_extra=stage_slurm_extra,
    conda:
        "../envs/rollout.yaml"
    container:
        container_image("rollout")
    message:
        "Train {wildcards.stage} by reinforcement"
    shell:
        "zgcm rl {wildcards.stage} 2>&1 | (trap '' INT TERM; tee {log})"
