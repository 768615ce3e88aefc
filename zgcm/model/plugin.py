"""Makes transformers and vLLM know the model. vLLM calls `register` in each of its processes."""

from zgcm.model.hf.configuration_zgcm import ZgcmConfig

ARCHITECTURE = "ZgcmForCausalLM"


def register_transformers() -> None:
    """Let the Auto classes build the model without remote code. Safe to call twice."""
    from transformers import AutoConfig, AutoModel, AutoModelForCausalLM

    from zgcm.model.hf.modeling_zgcm import ZgcmForCausalLM, ZgcmModel

    AutoConfig.register(ZgcmConfig.model_type, ZgcmConfig, exist_ok=True)
    AutoModel.register(ZgcmConfig, ZgcmModel, exist_ok=True)
    AutoModelForCausalLM.register(ZgcmConfig, ZgcmForCausalLM, exist_ok=True)


def register() -> None:
    """Both registries. vLLM gets a name, not the class: importing the class here would start its platform."""
    from vllm import ModelRegistry

    register_transformers()
    if ARCHITECTURE not in ModelRegistry.get_supported_archs():
        ModelRegistry.register_model(ARCHITECTURE, f"zgcm.model.vllm:{ARCHITECTURE}")
