"""References for publications."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from importlib import resources

from conche import _conche


def cite(*names: str) -> str:
    """Returns BibTeX entries of conche, and of the named papers and controllers.

        print(conche.cite("anrw18", "cocoa"))

    A controller's entry is that of its paper; for a draft or program, the entry's note names it.
    Raises ValueError if a name is unknown.
    """
    text = resources.files("conche").joinpath("references.bib").read_text(encoding="utf-8")
    text = text.replace("{VERSION}", f"{{{_conche.__version__}}}")
    entries = {entry[entry.index("{") + 1 : entry.index(",")]: entry.strip() for entry in text.split("\n\n")}
    sources = dict(_conche.controllers())
    cited = [entries["conche"]]
    for name in names:
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"cite() takes names, such as cite(\"anrw18\", \"cocoa\"), not {name!r}")
        controller = name.partition(":")[0]
        if name not in entries and controller not in sources:
            known = list(dict.fromkeys([*entries, *sources]))
            near = get_close_matches(name, known, 1)
            hint = f"did you mean `{near[0]}`?" if near else f"names are {', '.join(known)}"
            raise ValueError(f"no paper or controller is called `{name}`; {hint}")
        cited += [entries[controller]] if controller in entries else _of_controller(controller, sources[controller], entries)
    return "\n\n".join(dict.fromkeys(cited))


def _of_controller(name: str, source: str, entries: dict[str, str]) -> Iterator[str]:
    if source == "conche":
        return
    # Names of papers such as ETFA'14.
    papers = [key for key in (paper.lower().replace("'", "") for paper in re.findall(r"\w+'\d\d", source)) if key in entries]
    yield from (entries[key] for key in papers)
    if not papers:
        yield f"@misc{{{name},\n  title = {{{name}}},\n  note = {{{source}}}\n}}"
