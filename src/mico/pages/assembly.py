"""A page in one file: its style, its script and its data inside, and a policy that lets it load nothing else."""

import base64
import hashlib
import html
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from string import Template
from typing import Any, Literal

import numpy as np
from jaxtyping import Float


def assembled(
    name: str, scripts: Sequence[str], data: Mapping[str, Any], *, title: str, kind: str, **parts: str
) -> str:
    """The page `name` of its own files and those that all pages share; `parts` are the HTML that its template takes."""
    style = stored("page.css") + stored(f"{name}.css")
    script = "\n".join(map(stored, ("page.js", *scripts)))
    held = json.dumps(data, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    sources = f"style-src {_digest(style)}; script-src {_digest(script)}; img-src data:"
    return Template(stored("page.html")).substitute(
        title=html.escape(title),
        kind=kind,
        heading=kind.capitalize(),
        about=parts.pop("about", ""),
        policy=f"default-src 'none'; {sources}; base-uri 'none'",
        style=style,
        content=Template(stored(f"{name}.html")).substitute(parts),
        data=held,
        script=script,
    )


def packed(array: Float[np.ndarray, "..."], kind: Literal["<f4", "<f8"] = "<f4") -> str:
    """The numbers in single or double precision, least significant byte first, in base64."""
    return base64.b64encode(np.ascontiguousarray(array, dtype=kind).tobytes()).decode()


def stored(name: str) -> str:
    """A file of this package."""
    return resources.files("mico.pages").joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
