"""The command line: `zgcm VERB`. Importing it stays fast; verbs import their rooms when called."""

import json
import sys
from typing import NoReturn

from zgcm.cli.app import app
from zgcm.errors import ZgcmError
from zgcm.io import refused
from zgcm.stopping import Interrupted, Stopped, end_in_order


def main() -> None:
    """Entry point. A ZgcmError becomes one paragraph on stderr (JSON with --json) and exit code 1; so does
    what the system refuses: a file, memory, handles. Stopped by a signal it ends with 128 and its number."""
    from zgcm.cli import verbs  # noqa: F401 - registers the verbs

    end_in_order()
    try:
        app()
    except Interrupted as stop:
        print(
            "\nzgcm: Stopped at your request; nothing half-made was left. The same command goes on.",
            file=sys.stderr,
        )
        sys.exit(stop.code)
    except Stopped as stop:
        fail(stop, stop.code)
    except ZgcmError as error:
        fail(error)
    except (OSError, MemoryError) as error:
        if (told := refused(error)) is None:
            raise
        fail(told)


def fail(error: ZgcmError, code: int = 1) -> NoReturn:
    as_json = "--json" in sys.argv
    print(json.dumps(error.as_dict()) if as_json else f"zgcm: {error.paragraph()}", file=sys.stderr)
    sys.exit(code)
