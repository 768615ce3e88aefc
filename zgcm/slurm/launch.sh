#!/bin/bash
# One launcher process on every node of the current Slurm job.
#
#   scripts/launch.sh NODES GPUS_PER_NODE CPUS_PER_NODE LOG COMMAND...
#
# Runs COMMAND once a node, with a rendezvous in its environment: PET_NODE_RANK, PET_MASTER_ADDR and PET_MASTER_PORT,
# which torch.distributed.run reads by itself. Each node writes LOG.node_RANK.log; shown are the first node's output and
# the others' lines that begin with "zgcm".
# SIGTERM, SIGUSR1 and SIGUSR2 (scancel, time limit, preemption) reach COMMAND as SIGTERM, which trainers answer by
# saving; zgcm.train.agent passes it on to them. They may take as long as Slurm lets them.
# SIGQUIT kills them at once.
# When one COMMAND fails, the others are stopped; the exit code is that of the first one that failed, and the end of
# its log is printed. A job with another number of nodes is refused (exit code 78).
set -euo pipefail

if [ "${1:-}" = --on-node ]; then # what srun starts: COMMAND with its place, its log, and its failure on record
	log=$2 code=0
	shift 2
	export PET_NODE_RANK=$SLURM_PROCID
	[ "$SLURM_PROCID" != 0 ] || echo "$SLURM_JOB_ID.$SLURM_STEP_ID" >"$log.step"
	trap '' TERM USR1 USR2 # inherited by COMMAND, until a trainer sets its own handler
	own=$log.node_$SLURM_PROCID.log
	if [ "$SLURM_PROCID" = 0 ]; then
		exec {output}> >(exec tee "$own")
	else
		exec {output}> >(tee "$own" | grep --line-buffered '^zgcm')
	fi
	writer=$!
	"$@" >&"$output" 2>&1 {output}>&- &
	child=$!
	exec {output}>&-
	trap 'kill -TERM "$child" || true' USR1 USR2 # TERM Slurm sends to every process itself
	while kill -0 "$child" 2>/dev/null; do # a trapped signal ends `wait`, not the command
		wait "$child" || true
	done
	wait "$child" || code=$?
	for _ in $(seq 50); do # the last lines; but a stray process that keeps the output open is not waited for
		kill -0 "$writer" 2>/dev/null || break
		sleep 0.1
	done
	[ "$code" = 0 ] || (set -C && echo "$SLURM_PROCID $code" >"$log.first_failed") 2>/dev/null || true
	exit "$code"
fi

[ $# -ge 5 ] || {
	sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0" >&2
	exit 2
}
nodes=$1 gpus=$2 cpus=$3 log=$4
shift 4
[ -n "${SLURM_JOB_ID:-}" ] || {
	echo "launch.sh: no Slurm job here; $nodes nodes need one (sbatch, salloc, snakemake --profile slurm)" >&2
	exit 78
}

# Whoever called us (sbatch, srun, Snakemake) left defaults for srun in the environment; only the job itself counts.
for variable in $(compgen -e | grep -E '^(SLURM|SRUN|SBATCH)_' |
	grep -vE '^SLURM_(JOB_ID|JOBID|CONF|CLUSTER_NAME|SUBMIT_DIR|RESTART_COUNT)$'); do
	unset "$variable"
done
read -r found list < <(squeue -h -j "$SLURM_JOB_ID" -o '%D %N')
[ "$found" = "$nodes" ] || {
	echo "launch.sh: job $SLURM_JOB_ID has $found nodes, $nodes are needed" >&2
	exit 78
}
first=$(scontrol show hostnames "$list" | head -n 1)
PET_MASTER_ADDR=$(scontrol --oneliner show node "$first" | grep -oP '(?<=NodeAddr=)\S+') # names need not resolve
# Below the kernel's ephemeral ports, another one for each job of a shared node, and one at which nobody listens.
PET_MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
while (exec 3<>"/dev/tcp/$PET_MASTER_ADDR/$PET_MASTER_PORT") 2>/dev/null; do PET_MASTER_PORT=$((PET_MASTER_PORT + 1)); done
export PET_MASTER_ADDR PET_MASTER_PORT

mkdir -p "$(dirname "$log")"
rm -f "$log.first_failed" "$log.step"
gpus_option=()
[ "$gpus" = 0 ] || gpus_option=(--gpus-per-node="$gpus")
srun --overlap --nodes="$nodes" --ntasks="$nodes" --ntasks-per-node=1 "${gpus_option[@]}" --cpus-per-task="$cpus" \
	--kill-on-bad-exit=1 --wait=60 --immediate=600 "$(realpath "$0")" --on-node "$log" "$@" &
step=$!
# srun itself would answer SIGTERM by killing the step.
trap 'scancel --signal=TERM "$(cat "$log.step")" || true' TERM USR1 USR2
trap 'scancel --signal=KILL "$(cat "$log.step")" || true' QUIT
code=0
while kill -0 "$step" 2>/dev/null; do
	wait "$step" || true
done
wait "$step" || code=$?
if [ "$code" != 0 ] && [ -s "$log.first_failed" ]; then
	read -r rank code <"$log.first_failed"
	echo "launch.sh: node $rank failed first, with exit code $code; the end of $log.node_$rank.log:"
	tail -n 20 "$log.node_$rank.log"
fi
exit "$code"
