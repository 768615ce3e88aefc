"""`zgcm report`: one page about everything."""

from zgcm.cli.opened import Opened, recipe_verb


@recipe_verb()
def report(opened: Opened) -> None:
    """Write results/report.html: pipeline, losses, reward, data counts, manifests, on one page.

    The page needs no network and no other file. An unfinished run gives a page too: it says what is missing.
    """
    from zgcm.report.page import write_report
    from zgcm.rundir.stamp import check_stamp

    check_stamp(opened.layout.stamp, opened.recipe.name)
    path = write_report(opened.recipe, opened.layout)
    size = path.stat().st_size
    opened.say({"report": str(path), "bytes": size}, f"Wrote {path} ({size / 1e3:,.0f} kB)")
