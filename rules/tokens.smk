# Cleaned shards to the token files that training reads.


rule tokenizer:
    input:
        tokenizer_corpus,
    output:
        "results/tokenizer/tokenizer.json",
        "results/tokenizer/tokenizer_config.json",
        "results/tokenizer/chat_template.jinja",
        manifest="results/tokenizer/manifest.json",
    log:
        "results/logs/tokenizer.log",
    benchmark:
        "results/benchmarks/tokenizer.tsv"
    params:
        recipe_id=recipe_id("tokenizer"),
        path=tokenizer_path(),
    threads: step_threads("tokenizer")
    resources:
        mem_mb=step_resource("tokenizer", "mem_mb"),
        runtime=step_resource("tokenizer", "runtime_minutes"),
        slurm_partition=step_partition("tokenizer"),
    conda:
        "../envs/laptop.yaml"
    message:
        "Make the tokenizer"
    shell:
        "zgcm tokenizer > {log} 2>&1"


rule index:
    input:
        records="results/corpus/{source}/{shard}.jsonl.zst",
        tokenizer="results/tokenizer/manifest.json",
    output:
        bin="results/tokens/{source}/{shard}_text_document.bin",
        idx="results/tokens/{source}/{shard}_text_document.idx",
        facts="results/tokens/{source}/{shard}.documents.parquet",
        report="results/tokens/{source}/{shard}.index.json",
    log:
        "results/logs/index/{source}/{shard}.log",
    benchmark:
        "results/benchmarks/index/{source}/{shard}.tsv"
    params:
        recipe_id=source_id("index"),
    threads: step_threads("index")
    resources:
        mem_mb=step_resource("index", "mem_mb"),
        runtime=step_resource("index", "runtime_minutes"),
        slurm_partition=step_partition("index"),
    conda:
        "../envs/laptop.yaml"
    message:
        "Tokenize shard {wildcards.shard} of {wildcards.source}"
    shell:
        "zgcm index {wildcards.source} {wildcards.shard} > {log} 2>&1"


rule dedup:
    input:
        fingerprints=of_the_mix(LAYOUT.fingerprints),
        contamination=contamination_of_the_mix,
        near_duplicates=near_duplicate_inputs,
        earlier=kept_by_earlier_mixes,
    output:
        "results/mixes/{mix}/duplicates.parquet",
    log:
        "results/logs/dedup/{mix}.log",
    benchmark:
        "results/benchmarks/dedup/{mix}.tsv"
    params:
        recipe_id=mix_id,
    threads: step_threads("mix")
    resources:
        mem_mb=step_resource("mix", "mem_mb"),
        runtime=step_resource("mix", "runtime_minutes"),
        slurm_partition=step_partition("mix"),
    conda:
        "../envs/laptop.yaml"
    message:
        "Find the duplicates of mix {wildcards.mix}"
    shell:
        "zgcm dedup {wildcards.mix} > {log} 2>&1"


# One rule for each mix, since the number of its output shards is its own. Its files are spelled out: with a wildcard
# in hundreds of selections, Snakemake would try every one of them for every file it looks for.
for mix in made(RECIPE.mixes):

    rule:
        name:
            f"mix_{mix}"
        input:
            duplicates=f"results/mixes/{mix}/duplicates.parquet",
            fingerprints=of_mix(mix, LAYOUT.fingerprints),
            facts=of_mix(mix, LAYOUT.index_facts),
            reports=of_mix(mix, LAYOUT.index_report),
            tokens=of_mix(mix, index_bin),
            indexes=of_mix(mix, index_idx),
        output:
            selections(mix),
            plan=f"results/mixes/{mix}/plan.json",
            kept=f"results/mixes/{mix}/kept.fingerprints",
        log:
            f"results/logs/mix/{mix}.log",
        benchmark:
            f"results/benchmarks/mix/{mix}.tsv"
        params:
            mix=mix,
            recipe_id=recipe_id("mix", mix),
        threads: step_threads("mix")
        resources:
            mem_mb=step_resource("mix", "mem_mb"),
            runtime=step_resource("mix", "runtime_minutes"),
            slurm_partition=step_partition("mix"),
        conda:
            "../envs/laptop.yaml"
        message:
            "Choose and order the documents of mix {params.mix}"
        shell:
            "zgcm mix {params.mix} > {log} 2>&1"


# The token files themselves are inputs of the mix: listed here once more they would make every dry run of the 7B
# recipe, with its 896 gathered shards, 8 s slower.
rule gather:
    wildcard_constraints:
        mix=one_of(made(DOCUMENT_MIXES)),
    input:
        plan="results/mixes/{mix}/plan.json",
        selection="results/mixes/{mix}/selection/{shard}.parquet",
    output:
        bin="results/mixes/{mix}/{shard}_text_document.bin",
        idx="results/mixes/{mix}/{shard}_text_document.idx",
        manifest="results/mixes/{mix}/{shard}.json",
    log:
        "results/logs/gather/{mix}/{shard}.log",
    benchmark:
        "results/benchmarks/gather/{mix}/{shard}.tsv"
    params:
        recipe_id=mix_id,
    threads: step_threads("mix")
    resources:
        mem_mb=step_resource("mix", "mem_mb"),
        runtime=step_resource("mix", "runtime_minutes"),
        slurm_partition=step_partition("mix"),
    conda:
        "../envs/laptop.yaml"
    message:
        "Gather the tokens of shard {wildcards.shard} of mix {wildcards.mix}"
    shell:
        "zgcm gather {wildcards.mix} {wildcards.shard} > {log} 2>&1"


rule pack:
    wildcard_constraints:
        mix=one_of(made(PACKED_MIXES)),
    input:
        plan="results/mixes/{mix}/plan.json",
        selection="results/mixes/{mix}/selection/{shard}.parquet",
        tokens=of_the_mix(index_bin),
        indexes=of_the_mix(index_idx),
        facts=of_the_mix(LAYOUT.index_facts),
    output:
        expand("results/mixes/{{mix}}/{{shard}}_{part}", part=PACKED_FILES),
        manifest="results/mixes/{mix}/{shard}.json",
    log:
        "results/logs/pack/{mix}/{shard}.log",
    benchmark:
        "results/benchmarks/pack/{mix}/{shard}.tsv"
    params:
        recipe_id=mix_id,
    threads: step_threads("mix")
    resources:
        mem_mb=step_resource("mix", "mem_mb"),
        runtime=step_resource("mix", "runtime_minutes"),
        slurm_partition=step_partition("mix"),
    conda:
        "../envs/laptop.yaml"
    message:
        "Pack the conversations of shard {wildcards.shard} of mix {wildcards.mix}"
    shell:
        "zgcm pack {wildcards.mix} {wildcards.shard} > {log} 2>&1"


# Token files of the user's as a mix. The links beside the manifest are no outputs: Snakemake would touch what they
# point to.
rule adopt_tokens:
    wildcard_constraints:
        mix=one_of(ADOPTED_MIXES),
    input:
        tokenizer="results/tokenizer/manifest.json",
    output:
        "results/mixes/{mix}/{shard}.json",
    log:
        "results/logs/adopt_tokens/{mix}/{shard}.log",
    benchmark:
        "results/benchmarks/adopt_tokens/{mix}/{shard}.tsv"
    params:
        recipe_id=mix_id,
        prefix=adopted_prefix,
    threads: step_threads("index")
    resources:
        mem_mb=step_resource("index", "mem_mb"),
        runtime=step_resource("index", "runtime_minutes"),
        slurm_partition=step_partition("index"),
    conda:
        "../envs/laptop.yaml"
    message:
        "Adopt shard {wildcards.shard} of mix {wildcards.mix}: tokens of {params.prefix}"
    shell:
        "zgcm adopt {wildcards.mix} {wildcards.shard} > {log} 2>&1"


rule pack_summary:
    localrule: True
    wildcard_constraints:
        mix=one_of(PACKED_MIXES),
    input:
        packed_manifests,
    output:
        "results/mixes/{mix}/dataset.json",
    log:
        "results/logs/pack_summary/{mix}.log",
    benchmark:
        "results/benchmarks/pack_summary/{mix}.tsv"
    params:
        recipe_id=mix_id,
    threads: 1
    resources:
        mem_mb=step_resource("mix", "mem_mb"),
        runtime=step_resource("mix", "runtime_minutes"),
    conda:
        "../envs/laptop.yaml"
    message:
        "Count the packed sequences of mix {wildcards.mix}"
    shell:
        "zgcm pack-summary {wildcards.mix} > {log} 2>&1"
