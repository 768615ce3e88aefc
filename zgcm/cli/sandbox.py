"""`zgcm sandbox serve|attest`: the service that judges programs, and the proof that it holds."""

import asyncio
import json
import os
from pathlib import Path
from typing import Annotated

import typer

from zgcm.cli.app import JsonOption, app

sandbox_app = typer.Typer(no_args_is_help=True, help="Run generated programs where they can do no harm.")
app.add_typer(sandbox_app, name="sandbox")


@sandbox_app.command()
def attest(as_json: JsonOption = False) -> None:
    """Start a jail, look for ways out from within, and list what holds. Fails with what does not."""
    from zgcm.rl.sandbox.attest import attest as prove
    from zgcm.rl.sandbox.image import image
    from zgcm.rl.sandbox.jail import Limits, jail
    from zgcm.terminal import wrapped

    with image() as parts:
        found = prove(jail(parts, Limits()))
    if as_json:
        typer.echo(json.dumps(found, sort_keys=True))
        return
    held = ", ".join(name for name, value in found.items() if value)
    typer.echo("\n".join(wrapped(f"The sandbox holds: {held}")))
    if not found["cgroup"]:
        typer.echo("Without a control group: memory is limited for each process, not for the jail.", err=True)


@sandbox_app.command()
def serve(
    assets: Annotated[Path, typer.Option("--assets", help="Tests, as `zgcm prompts convert` writes them.")],
    token_file: Annotated[
        Path | None,
        typer.Option(help="File of mode 0600 with the token.", show_default="$ZGCM_CODE_SANDBOX_TOKEN"),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8719,
    slots: Annotated[
        int | None, typer.Option(min=1, max=256, help="Programs at a time.", show_default="cores, at most 32")
    ] = None,
    queue: Annotated[int, typer.Option(min=1, help="Requests that may wait or run; more get 503.")] = 256,
    memory_mb: Annotated[int, typer.Option(min=64, help="MiB that a program's process may take.")] = 1024,
    until_stdin_ends: Annotated[
        bool,
        typer.Option("--until-stdin-ends", help="Live as long as whoever holds stdin, and ignore signals."),
    ] = False,
) -> None:
    """Judge programs over HTTP until SIGTERM or ctrl-C; what is queued is still answered.

    The sandbox is attested first. docs/sandbox.md has the protocol.
    """
    import signal
    import sys
    from concurrent.futures import ThreadPoolExecutor

    from zgcm.rl.sandbox import assets as tests
    from zgcm.rl.sandbox import token as tokens
    from zgcm.rl.sandbox.attest import attested_sandbox
    from zgcm.rl.sandbox.jail import Limits
    from zgcm.rl.sandbox.server import Server
    from zgcm.rl.sandbox.server import serve as listen
    from zgcm.rl.sandbox.service import MOST_SLOTS

    tests.check(assets, {})
    token = tokens.read(token_file)
    at_a_time = slots or min(MOST_SLOTS, len(os.sched_getaffinity(0)))
    secrets = tuple(path.resolve() for path in (assets, token_file) if path)
    if until_stdin_ends:  # jails inherit this: a scheduler's signal to every process fails no program
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    limits = Limits(memory_bytes=memory_mb << 20)
    with (
        attested_sandbox(at_a_time, limits, secrets) as (judge, found),
        ThreadPoolExecutor(queue) as threads,
    ):
        server = Server(judge, assets, token, found, queue, threads)
        parent = sys.stdin.buffer if until_stdin_ends else None
        asyncio.run(listen(server, host, port, typer.echo, parent))
