"""The scripts of Vega, Vega-Lite and Vega-Embed, which draw the charts of a page offline."""

from __future__ import annotations

import contextlib
import os
from functools import cache
from importlib.metadata import version
from pathlib import Path

from search_spaces.common.durable import write_atomically


@cache
def vega_script() -> str:
    """Return a script that defines ``vegaEmbed``, for one ``<script>`` element of a page.

    The scripts are part of the package vl-convert. Bundling them takes seconds, so the result is kept in
    ``$XDG_CACHE_HOME/sweeper/vega``. Without a cache that can be written, each process bundles them once.
    """
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sweeper" / "vega"
    path = folder / f"{version('vl-convert-python')}.js"
    with contextlib.suppress(OSError, UnicodeError):
        return path.read_text(encoding="utf-8")
    import vl_convert

    # A function keeps the names of the bundle apart from those of the page.
    script = f"(() => {{{vl_convert.javascript_bundle('window.vegaEmbed = vegaEmbed;')}}})();"
    # These texts mean the end of an element to a reader of HTML. The escaped forms mean the same to JavaScript.
    script = script.replace("</script", r"<\/script").replace("</body", r"<\/body").replace("<!--", r"<\!--")
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(path, script)
    return script
