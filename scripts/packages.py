"""The packages that Cargo builds warpkov from, and their licences."""

import json
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = "x86_64-unknown-linux-gnu"


def cargo(*arguments):
    command = ["cargo", *arguments, "--locked"]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def metadata(workspace=".", *options):
    """All packages that the Cargo.lock of a workspace names."""
    manifest = str(ROOT / workspace / "Cargo.toml")
    return json.loads(cargo("metadata", "--format-version=1", "--manifest-path", manifest, *options))


def linked(*roots, tests=False):
    """Names and versions of the packages whose code a build of the `roots` for TARGET contains, themselves and, with `tests`, what their
    tests use included."""
    edges = f"normal,no-proc-macro{',dev' * tests}"
    named = [argument for root in roots for argument in ("--package", root)]
    tree = cargo("tree", *named, "--edges", edges, "--target", TARGET, "--prefix", "none", "--format", "{p}")
    return {(name, version.removeprefix("v")) for name, version, *_ in map(str.split, filter(None, tree.splitlines()))}


def expression(package):
    """The SPDX expression of a package. Some have the older form `MIT/Apache-2.0`."""
    return (package["license"] or "").replace("/", " OR ")


def texts(package):
    """The files with licences and notices in the sources of a package, sorted by name."""
    folder = Path(package["manifest_path"]).parent
    names = re.compile(r"(un)?licen[cs]e|copy(ing|right)|notice", re.IGNORECASE)
    found = {path for path in folder.iterdir() if path.is_file() and names.match(path.name)}
    if package["license_file"]:
        found.add(folder / package["license_file"])
    return sorted(found)


def allows(expression, allowed):
    """Whether the allowed licences satisfy an SPDX expression. Precedence: WITH before AND before OR."""
    tokens = re.findall(r"[()]|[^\s()]+", expression)

    def alternatives():
        met = conjunction()
        while tokens and tokens[0] == "OR":
            tokens.pop(0)
            met = conjunction() or met
        return met

    def conjunction():
        met = term()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            met = term() and met
        return met

    def term():
        name = tokens.pop(0)
        if name == "(":
            met = alternatives()
            if tokens.pop(0) != ")":
                raise ValueError("unclosed parenthesis")
            return met
        if tokens and tokens[0] == "WITH":
            tokens.pop(0)
            name = f"{name} WITH {tokens.pop(0)}"
        return name in allowed

    met = alternatives()
    if tokens:
        raise ValueError(f"unexpected {tokens[0]}")
    return met
