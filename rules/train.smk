# One rule for every stage that megatron-core trains: pretraining, mid-training, SFT.
#
# `done` is the only output. Checkpoints lie in results/{stage}/runs/ and are no output: Snakemake deletes the
# outputs of a failed job, and a resumed one needs its checkpoints. Retries are the cluster profile's business:
# on one machine a failing stage stops at once.


rule train:
    wildcard_constraints:
        stage=one_of(RECIPE.train_stages()),
    input:
        data=stage_data,
        tokenizer="results/tokenizer/manifest.json",
        init=stage_init,
    output:
        "results/{stage}/done",
    log:
        "results/logs/train/{stage}.log",
    benchmark:
        "results/benchmarks/train/{stage}.tsv"
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
        "../envs/megatron.yaml"
    container:
        container_image("megatron")
    message:
        "Train {wildcards.stage}"
    shell:
        "zgcm train {wildcards.stage} 2>&1 | (trap '' INT TERM; tee {log})"


# Weights of the user's in place of a trained stage. Their path is a param, no input: a dry run must work where they
# are not there yet, and what counts is their content, which the verb reads.
rule adopt:
    wildcard_constraints:
        stage=one_of(RECIPE.adopted_stages()),
    input:
        tokenizer="results/tokenizer/manifest.json",
    output:
        "results/{stage}/done",
    log:
        "results/logs/adopt/{stage}.log",
    benchmark:
        "results/benchmarks/adopt/{stage}.tsv"
    params:
        recipe_id=stage_id,
        path=adopted_path,
        weights_digest=pinned_digest,
    threads: stage_threads
    resources:
        mem_mb=stage_resource("mem_mb"),
        runtime=stage_resource("runtime_minutes"),
        slurm_partition=stage_partition,
    conda:
        "../envs/laptop.yaml"
    message:
        "Adopt {wildcards.stage}: weights of {params.path}"
    shell:
        "zgcm adopt {wildcards.stage} 2>&1 | (trap '' INT TERM; tee {log})"


# Asked for by name (`snakemake results/preflight.json`), never an input: training itself looks at the file where the
# recipe says `preflight: true`.
rule preflight:
    output:
        "results/preflight.json",
    log:
        "results/logs/preflight/preflight.log",
    benchmark:
        "results/benchmarks/preflight/preflight.tsv"
    params:
        recipe_id=needs_id(RECIPE),
    threads: WIDEST.cores_per_node
    resources:
        mem_mb=WIDEST.mem_mb,
        runtime=60,
        nodes=WIDEST.nodes,
        tasks=WIDEST.nodes,
        mpi=mpi(WIDEST),
        slurm_partition=partition(WIDEST),
        slurm_extra=slurm_extra(WIDEST),
    conda:
        "../envs/megatron.yaml"
    container:
        container_image("megatron")
    message:
        "Check what this machine can do"
    shell:
        "zgcm preflight 2>&1 | (trap '' INT TERM; tee {log})"
