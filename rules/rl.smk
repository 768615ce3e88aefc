# GRPO: one rule for each RL stage, since the versions it evaluates are its own.
for stage in RECIPE.rl_stages():

    rule:
        name:
            stage
        wildcard_constraints:
            stage=stage,
        input:
            policy=policy_init,
        output:
            done="results/{stage}/done",
            evaluations=evaluations(stage),
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
        message:
            "Train {wildcards.stage} by reinforcement"
        shell:
            "zgcm rl {wildcards.stage} 2>&1 | (trap '' INT TERM; tee {log})"
