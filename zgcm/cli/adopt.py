"""`zgcm adopt`: take what exists already into the results, checked, in place of building it."""

from typing import Annotated

import typer

from zgcm.cli.opened import Opened, recipe_verb, refuse_unknown
from zgcm.errors import ZgcmError


@recipe_verb()
def adopt(
    opened: Opened,
    name: Annotated[str, typer.Argument(metavar="STAGE | MIX", help="See above.")],
    shard: Annotated[
        str | None, typer.Argument(metavar="SHARD", help="Of a mix, for instance 00000.")
    ] = None,
) -> None:
    """Adopt weights as a stage, or token files as a mix, instead of making them.

    zgcm adopt STAGE: a stage with `kind: adopted`. Hugging Face weights in the published layout are compared
    with the recipe's model and tokenizer and converted; a Megatron checkpoint is compared and linked. Prints
    the digest of the weights, which stages.STAGE.weights_digest may pin.

    zgcm adopt MIX SHARD: a mix with `prefixes`. The Megatron .bin and .idx files are read through, checked,
    hashed and linked.

    Cleaned files are adopted by their source: `cleaned: true`. See docs/start-anywhere.md.
    """
    from zgcm.layout import mix_shards

    mixes = [mix for mix, section in opened.recipe.mixes.items() if section.prefixes]
    if shard is None and name in mixes and name not in opened.recipe.stages:
        raise ZgcmError(
            "A mix is adopted shard by shard",
            found=f"zgcm adopt {name}",
            expected=f"a shard too: {', '.join(mix_shards(opened.recipe, name))}",
        )
    if shard is None:
        from zgcm.train.adopt import adopt_weights

        done = adopt_weights(opened.recipe, opened.layout, name)
        state = "with optimizer state" if done["adopted"]["optimizer"] else "weights only"
        opened.say(
            done,
            f"{name}: adopted, {state}, {done['adopted']['dtype']}, in "
            f"{opened.results / done['checkpoint']}; weights_digest {done['weights_digest']}",
        )
        return
    from zgcm.tokens.adopt import adopt_tokens

    refuse_unknown("mix with `prefixes`", name, mixes)
    refuse_unknown("shard", shard, mix_shards(opened.recipe, name))
    facts = adopt_tokens(opened.recipe, opened.layout, name, shard)
    opened.say(
        facts, f"{name}/{shard}: adopted, {facts['documents']:,} documents, {facts['tokens']:,} tokens"
    )
