"""The image's stage `daemon` without a container builder: its files in a folder, run there as its user.

The wheel is installed as pip does it, beside the distributions that its extras ask for and no others, over a Python
like that of the image. The root is read-only, and nothing else of the tests' machine is in it but /usr.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

SITE = "opt/site"
SYSTEM = ("/usr", "/dev", "/proc", "/etc/ld.so.cache", "/etc/ssl")
MOUNT = """set -e
root=$1; writable=$2; user=$3; shift 3
mount --make-rprivate /
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
for one in $SYSTEM; do [ ! -e "$one" ] || mount --rbind "$one" "$root$one"; done
for one in $writable; do mount --bind "${one%%=*}" "$root${one#*=}"; done
exec chroot "$root" setpriv --reuid="${user%:*}" --regid="${user#*:}" --clear-groups --no-new-privs \\
    --inh-caps=-all --bounding-set=-all "$@"
"""


def missing() -> str:
    """What this needs and is not here; empty: nothing."""
    if os.geteuid() != 0:
        return "root, to change it"
    lacking = [name for name in ("unshare", "chroot", "setpriv") if shutil.which(name) is None]
    if lacking or subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode:
        return f"{' '.join(lacking) or 'the right to mount'}"
    return ""


def closure(names: Iterable[Requirement]) -> set[str]:
    """The distributions that these ask for, with all that those ask for."""
    result: set[str] = set()
    due = [(canonicalize_name(one.name), frozenset(one.extras)) for one in names]
    seen = set(due)
    while due:
        name, extras = due.pop()
        result.add(name)
        for text in importlib.metadata.requires(name) or ():
            one = Requirement(text)
            holds = one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in ("", *extras))
            row = (canonicalize_name(one.name), frozenset(one.extras))
            if holds and row not in seen:
                seen.add(row)
                due.append(row)
    return result


class Image:
    """Its files below `root`."""

    def __init__(self, folder: Path, wheel: Path, extras: set[str], user: str) -> None:
        self.root = folder / "root"
        self._user = user
        site = self.root / SITE
        for name in (
            SITE,
            "tmp",
            "var/lib/dally",
            "etc/dally",
            "var/run/secrets",
            "run",
            *(one[1:] for one in SYSTEM),
        ):
            path = self.root / name
            if Path("/", name).is_file():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
            else:
                path.mkdir(parents=True, exist_ok=True)
        for link in ("bin", "lib", "lib64"):
            (self.root / link).symlink_to(f"usr/{link}")
        (self.root / sys.base_prefix[1:]).mkdir(parents=True, exist_ok=True)
        words = ["--no-deps", "--no-index", "--no-compile", "--target", str(site), str(wheel)]
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *words], check=True, capture_output=True)
        (dist,) = importlib.metadata.distributions(name="dally", path=[str(site)])
        asked = [Requirement(text) for text in dist.requires or ()]
        wanted = [
            one for one in asked if one.marker is None or any(one.marker.evaluate({"extra": e}) for e in extras)
        ]
        for name in closure(wanted):
            _copy(name, site)
        script = site / "bin" / "dally"
        python = f"{sys.base_prefix}/bin/python3"
        script.write_text(re.sub(r"\A#!.*", f"#!{python}", script.read_text()))

    def command(self, words: list[str], writable: Mapping[str, Path]) -> list[str]:
        """What runs `dally` with these words in it, as its user; `writable`: folders by where they are in it."""
        mounts = " ".join(f"{path}={where}" for where, path in writable.items())
        arguments = [str(self.root), f"{sys.base_prefix}={sys.base_prefix} {mounts}", self._user]
        return ["unshare", "-m", "sh", "-c", MOUNT, "image", *arguments, f"/{SITE}/bin/dally", *words]

    def environment(self, given: Mapping[str, str]) -> dict[str, str]:
        """Of its processes."""
        return {"PATH": "/usr/sbin:/usr/bin", "PYTHONPATH": f"/{SITE}", "SYSTEM": " ".join(SYSTEM), **given}


def _copy(name: str, site: Path) -> None:
    dist = importlib.metadata.distribution(name)
    for file in dist.files or ():
        source, target = Path(str(dist.locate_file(file))), site / file
        if ".." in file.parts or not source.is_file() or source.suffix == ".pyc":
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(source, target)
        except OSError:
            shutil.copy2(source, target)
