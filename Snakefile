# The map: from raw text to an RL-trained language model. See docs/architecture.md.
#   snakemake -n                          what would run, and why (in words: zgcm run -n)
#   snakemake --cores all                 the tiny recipe on this machine
#   snakemake results/sft/done --profile slurm --directory runs/7b
#                                         the 7B recipe on a Slurm cluster, up to SFT
import os
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.utils import min_version

from zgcm.errors import ZgcmError
from zgcm.layout import Layout
from zgcm.rundir.resolved import resolve
from zgcm.rundir.stamp import check_stamp, write_stamp

min_version("9.27")
CHECKOUT = Path(workflow.basedir)
RECIPE_FILES = [Path(file) for file in workflow.overwrite_configfiles] or [CHECKOUT / "config/tiny.yaml"]
if not workflow.overwrite_configfiles:  # testing `config` would break `--config key=value`

    configfile: str(RECIPE_FILES[0])


LAYOUT = Layout()
os.environ.update(ZGCM_CHECKOUT=str(CHECKOUT))  # profiles of the user's lie below it
try:
    RECIPE, RECIPE_FILE = resolve(config, CHECKOUT, LAYOUT.root, RECIPE_FILES)
    check_stamp(LAYOUT.stamp, RECIPE.name)
except ZgcmError as error:
    raise WorkflowError(error.paragraph())

# The rules call the verbs of this checkout's `zgcm`. Cluster jobs parse this file again, so it holds there too.
VERBS = str(Path(sys.executable).parent)
os.environ.update(ZGCM_RECIPE=str(RECIPE_FILE), PATH=os.pathsep.join([VERBS, os.environ.get("PATH", "")]))


include: "rules/common.smk"
include: "rules/corpus.smk"
include: "rules/tokens.smk"
include: "rules/train.smk"
include: "rules/export.smk"
include: "rules/rl.smk"
include: "rules/report.smk"


onstart:
    write_stamp(LAYOUT.stamp, RECIPE.name, RECIPE_FILE)
    pass_on()


rule all:
    default_target: True
    input:
        targets(),
    message:
        "Everything is made"
