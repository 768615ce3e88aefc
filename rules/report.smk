# One page about everything.


rule report:
    localrule: True
    input:
        report_inputs(),
    output:
        report("results/report.html", category="Report"),
    log:
        "results/logs/report.log",
    benchmark:
        "results/benchmarks/report.tsv"
    params:
        recipe_id=report_id(),
    threads: 1
    resources:
        mem_mb=step_resource("mix", "mem_mb"),
        runtime=step_resource("mix", "runtime_minutes"),
    conda:
        "../envs/laptop.yaml"
    message:
        "Write the report"
    shell:
        "zgcm report > {log} 2>&1"
