"""Environment variables of the actors' processes; they must be set before vLLM or torch is imported."""

_OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "TOKENIZERS_PARALLELISM": "false"}

ENVIRONMENT = _OFFLINE | {
    # the engine in the actor's own process: 3 to 5 s to start on a CPU instead of 39
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_DO_NOT_TRACK": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_PLUGINS": "zgcm",
}

CPU_ENVIRONMENT = {
    # vLLM must not pin its threads to cores that others use, and compiling costs more than it saves
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "TORCHDYNAMO_DISABLE": "1",
    "OMP_NUM_THREADS": "1",
}

LEARNER_ENVIRONMENT = _OFFLINE | {"OMP_NUM_THREADS": "1"}
