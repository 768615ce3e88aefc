"""The command line: `zgcm VERB`. Importing it stays fast; verbs import their rooms when called."""

import json
import sys
from typing import NoReturn

from zgcm.cli.app import app
from zgcm.errors import ZgcmError
from zgcm.io import refused


def main() -> None:
    """Entry point. A ZgcmError becomes one paragraph on stderr (JSON with --json) and exit code 1; so does a
    file that the system refuses."""
    from zgcm.cli import verbs  # noqa: F401 - registers the verbs

    try:
        app()
    except ZgcmError as error:
        fail(error)
    except OSError as error:
        if (told := refused(error)) is None:
            raise
        fail(told)


def fail(error: ZgcmError) -> NoReturn:
    as_json = "--json" in sys.argv
    print(json.dumps(error.as_dict()) if as_json else f"zgcm: {error.paragraph()}", file=sys.stderr)
    sys.exit(1)
