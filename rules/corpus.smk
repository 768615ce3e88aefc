# Raw text to cleaned shards with fingerprints.


rule raw:
    wildcard_constraints:
        suffix=r"[a-z0-9.]+",
    output:
        "results/raw/{source}/{shard}.{suffix}",
    log:
        "results/logs/raw/{source}/{shard}.{suffix}.log",
    benchmark:
        "results/benchmarks/raw/{source}/{shard}.{suffix}.tsv"
    params:
        recipe_id=source_id("raw"),
    threads: 1
    resources:
        mem_mb=step_resource("clean", "mem_mb"),
        runtime=step_resource("clean", "runtime_minutes"),
        slurm_partition=step_partition("clean"),
    conda:
        "../envs/laptop.yaml"
    message:
        "Get raw shard {wildcards.shard} of {wildcards.source}"
    shell:
        "zgcm raw {wildcards.source} {wildcards.shard} > {log} 2>&1"


rule clean:
    input:
        raw_shard,
    output:
        records="results/corpus/{source}/{shard}.jsonl.zst",
        summary="results/corpus/{source}/{shard}.summary.json",
        rejected="results/corpus/{source}/{shard}.rejected.jsonl",
    log:
        "results/logs/clean/{source}/{shard}.log",
    benchmark:
        "results/benchmarks/clean/{source}/{shard}.tsv"
    params:
        recipe_id=source_id("clean"),
    threads: step_threads("clean")
    resources:
        mem_mb=step_resource("clean", "mem_mb"),
        runtime=step_resource("clean", "runtime_minutes"),
        slurm_partition=step_partition("clean"),
    conda:
        "../envs/laptop.yaml"
    message:
        "Clean shard {wildcards.shard} of {wildcards.source}"
    shell:
        "zgcm clean {wildcards.source} {wildcards.shard} > {log} 2>&1"


rule fingerprint:
    input:
        "results/corpus/{source}/{shard}.jsonl.zst",
    output:
        "results/corpus/{source}/{shard}.fingerprints",
    log:
        "results/logs/fingerprint/{source}/{shard}.log",
    benchmark:
        "results/benchmarks/fingerprint/{source}/{shard}.tsv"
    params:
        recipe_id=source_id("fingerprint"),
    threads: step_threads("clean")
    resources:
        mem_mb=step_resource("clean", "mem_mb"),
        runtime=step_resource("clean", "runtime_minutes"),
        slurm_partition=step_partition("clean"),
    conda:
        "../envs/laptop.yaml"
    message:
        "Fingerprint shard {wildcards.shard} of {wildcards.source}"
    shell:
        "zgcm fingerprint {wildcards.source} {wildcards.shard} > {log} 2>&1"


rule minhash:
    input:
        "results/corpus/{source}/{shard}.jsonl.zst",
    output:
        "results/corpus/{source}/{shard}.{scheme}.minhash",
    log:
        "results/logs/minhash/{source}/{shard}.{scheme}.log",
    benchmark:
        "results/benchmarks/minhash/{source}/{shard}.{scheme}.tsv"
    params:
        recipe_id=source_id("minhash"),
    threads: step_threads("clean")
    resources:
        mem_mb=step_resource("clean", "mem_mb"),
        runtime=step_resource("clean", "runtime_minutes"),
        slurm_partition=step_partition("clean"),
    conda:
        "../envs/laptop.yaml"
    message:
        "Hash shard {wildcards.shard} of {wildcards.source} into MinHash bands"
    shell:
        "zgcm minhash {wildcards.source} {wildcards.shard} --scheme {wildcards.scheme} > {log} 2>&1"


rule contamination:
    input:
        "results/corpus/{source}/{shard}.jsonl.zst",
    output:
        "results/corpus/{source}/{shard}.{evaluations}.contamination",
    log:
        "results/logs/contamination/{source}/{shard}.{evaluations}.log",
    benchmark:
        "results/benchmarks/contamination/{source}/{shard}.{evaluations}.tsv"
    params:
        mix=evaluated_mix,
        recipe_id=source_id("decontaminate"),
    threads: step_threads("clean")
    resources:
        mem_mb=step_resource("clean", "mem_mb"),
        runtime=step_resource("clean", "runtime_minutes"),
        slurm_partition=step_partition("clean"),
    conda:
        "../envs/laptop.yaml"
    message:
        "Compare shard {wildcards.shard} of {wildcards.source} with evaluation files"
    shell:
        "zgcm contamination {params.mix} {wildcards.source} {wildcards.shard} > {log} 2>&1"
