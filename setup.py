"""Compiles the hot files with mypyc. Without mypyc or a C compiler the same files run as Python."""

from __future__ import annotations

import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from setuptools import setup
from setuptools.command.build_ext import build_ext

ROOT: Final = Path(__file__).resolve().parent / "src" / "dally"

# Compiled are the files of these folders: runs spend their time in them. A file that takes 0.2 % of a run as plain
# Python (scripts/compiled_shares.py tells) may take a tenth of it when all around it is compiled ...
FOLDERS: Final = (
    "cluster/*.py", "cluster/feasibility/*.py", "engine/*.py", "metrics/bounds/*.py", "perf/*.py",
    "policies/**/*.py",
)  # fmt: skip
ALSO: Final = (
    "heap.py", "live/job_lines.py", "metrics/jobs_csv.py", "metrics/summary.py", "metrics/usage.py",
    "metrics/user_fairness.py", "model.py", "report/explanation/waiting.py", "sizes.py",
)  # fmt: skip
# ... but not in these: they read, declare, or do something once a run.
PLAIN: Final = {
    "cluster/delta.py", "cluster/feasibility/permission.py", "cluster/feasibility/shape.py",
    "cluster/feasibility/statement.py", "cluster/outline.py", "cluster/partitions.py", "cluster/presets.py",
    "cluster/recorded_place.py", "cluster/spec.py", "engine/consent_rules.py", "engine/handover.py",
    "engine/health_watch.py", "engine/link_evidence.py", "engine/machine_swap.py", "perf/link_effects.py",
    "engine/snapshot.py", "perf/queries.py", "perf/catalogue.py", "perf/gpu_types.py", "perf/profiles.py",
    "perf/recorded_work.py", "policies/choices/model_file.py", "policies/combinations.py",
    "policies/dally/declared.py", "policies/declaration.py", "policies/gate/pooled.py",
    "policies/gavel_types.py", "policies/here.py", "policies/paper_dally_variants.py",
    "policies/prediction/forest.py", "policies/prediction/learned.py", "policies/prediction/named.py",
    "policies/registry.py", "policies/settings.py", "policies/user_file.py",
}  # fmt: skip
# -O2 is for what is met at every event; for the rest -O1 takes a third less time to compile, and runs as fast.
HOT: Final = (
    *ALSO, "cluster/", "engine/", "metrics/", "perf/", "policies/backfill.py", "policies/consolidating.py",
    "policies/choices/", "policies/gate/", "policies/prediction/hazard.py", "policies/queue.py", "policies/slurm/",
)  # fmt: skip

ASKS_ONLY: Final = {"egg_info", "dist_info"}  # commands that build nothing: pip gives one of them first

# Types of what is not compiled, and packages that an isolated build does not have, are not looked into:
# to read those of a full virtual environment would take a minute, and change nothing.
MYPY: Final = (
    "--config-file=", "--explicit-package-bases", "--follow-imports=silent", "--ignore-missing-imports",
    "--no-site-packages",
)  # fmt: skip

# Nobody debugs the generated C, or reads it: writing down where each line went takes long, and so does to look
# whether 400,000 lines are well indented.
QUICKLY: Final = ("-g0", "-Wno-misleading-indentation")


def compiled() -> list[str]:
    """The files to compile, seen from the package."""
    found = {str(path.relative_to(ROOT)) for pattern in FOLDERS for path in ROOT.glob(pattern)}
    return [*ALSO, *sorted(name for name in found - PLAIN if not name.endswith("__init__.py"))]


def sources() -> list[str]:
    """The same, seen from the repository."""
    return [f"src/dally/{name}" for name in compiled()]


def has_compiler() -> bool:
    """Whether there is a C compiler: without one there is no need to let mypyc work for a minute."""
    from distutils.ccompiler import new_compiler  # of setuptools, where Python has none any more
    from distutils.sysconfig import customize_compiler

    compiler = new_compiler()
    customize_compiler(compiler)
    return shutil.which(getattr(compiler, "compiler", ["cc"])[0]) is not None


def extensions() -> list[Any]:
    """What to build: nothing where that cannot be done, or is not wanted."""
    if os.environ.get("DALLY_COMPILE") == "0" or ASKS_ONLY & set(sys.argv):
        return []
    if not has_compiler():
        print("no C compiler: dally will run as plain Python", file=sys.stderr)
        return []
    try:
        from mypyc.build import mypycify
    except ImportError:
        print("mypyc is not installed: dally will run as plain Python", file=sys.stderr)
        return []
    os.environ["MYPYPATH"] = "src"
    found = mypycify(
        [*MYPY, *sources()],
        opt_level="2",  # -O3 takes two minutes longer and gains 2 %
        group_name="dally",
        multi_file=True,  # a file a module, for as many compilers as there are cores: as fast as all in one
    )
    for extension in found:
        extension.optional = True
        # A fused multiply-add rounds once instead of twice: results would differ from plain Python's.
        extension.extra_compile_args = [*extension.extra_compile_args, "-ffp-contract=off", *QUICKLY]
    return list(found)


def level(source: str) -> list[str]:
    """The option for a file that mypyc wrote, if it is not for -O2: `__native_dally___policies___gavel.c`."""
    module = Path(source).stem.removeprefix("__native_dally___").replace("___", "/") + ".py"
    return ["-O1"] if module in compiled() and not module.startswith(HOT) else []


class SideBySide(build_ext):  # type: ignore[misc]
    """Compiles the files of an extension on all cores: setuptools takes them one by one."""

    def build_extensions(self) -> None:
        in_turn = self.compiler.compile

        def compile_all(files: list[str], *, extra_postargs: list[str], **options: Any) -> list[str]:
            def one(file: str) -> list[str]:
                return list(in_turn([file], extra_postargs=[*extra_postargs, *level(file)], **options))

            with ThreadPoolExecutor(os.cpu_count()) as pool:
                return [made for many in pool.map(one, files) for made in many]

        self.compiler.compile = compile_all
        super().build_extensions()


if __name__ == "__main__":
    setup(
        ext_modules=extensions(),
        cmdclass={"build_ext": SideBySide},
        options={"build_ext": {"parallel": os.cpu_count()}},  # one small extension a module beside the large one
    )
