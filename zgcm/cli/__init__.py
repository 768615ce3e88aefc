"""The command line: `zgcm VERB`. Importing it stays fast; verbs import their rooms when called."""

import json
import sys
from typing import NoReturn

from zgcm.cli.app import app
from zgcm.errors import ZgcmError
from zgcm.io import refused
from zgcm.stopping import Interrupted, Stopped, end_in_order, received


def main() -> None:
    """Entry point. A ZgcmError becomes one paragraph on stderr (JSON with --json) and exit code 1; so does
    what the system refuses: a file, memory, handles. Stopped by a signal it ends with 128 and its number."""
    from zgcm.cli import verbs  # noqa: F401 - registers the verbs

    end_in_order()
    try:
        app()
    except Interrupted as stop:
        interrupted(int(stop.code or 0))
    except Stopped as stop:
        fail(stop, stop.code)
    except ZgcmError as error:
        fail(error)
    except (OSError, MemoryError) as error:
        if (told := refused(error)) is None:
            raise
        fail(told)
    except Exception:
        if not received:
            raise
        interrupted(128 + received[0])  # of which a library made an error: duckdb says "Query interrupted"


def interrupted(code: int) -> NoReturn:
    print(
        "\nzgcm: Stopped at your request; nothing half-made was left. The same command goes on.",
        file=sys.stderr,
    )
    sys.exit(code)


def fail(error: ZgcmError, code: int = 1) -> NoReturn:
    as_json = "--json" in sys.argv
    print(json.dumps(error.as_dict()) if as_json else f"zgcm: {error.paragraph()}", file=sys.stderr)
    sys.exit(code)
