# Weights of a stage to a Hugging Face directory.


rule export:
    input:
        done="results/{stage}/done",
        tokenizer="results/tokenizer/manifest.json",
    output:
        "results/export/{stage}/manifest.json",
    log:
        "results/logs/export/{stage}.log",
    benchmark:
        "results/benchmarks/export/{stage}.tsv"
    params:
        recipe_id=stage_step_id("export"),
    threads: step_threads("export")
    resources:
        mem_mb=step_resource("export", "mem_mb"),
        runtime=step_resource("export", "runtime_minutes"),
        slurm_partition=step_partition("export"),
    conda:
        "../envs/laptop.yaml"
    message:
        "Export {wildcards.stage} to Hugging Face format"
    shell:
        "zgcm export {wildcards.stage} > {log} 2>&1"
