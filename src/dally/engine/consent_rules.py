"""Who may be preempted or moved, as operators and users state it: by partition, by account or queue, by job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from dally.errors import InputError, unknown
from dally.job_spec import PREEMPT_CHOICES as CHOICES
from dally.model import Job
from dally.parsed_text import ACCEPTED, is_on
from dally.traces.times import span_s

YES: Final = "yes"  # as the policy decides
PRICED: Final = "priced"  # a job that states no checkpoint only for a gain that its lost work pays for
NO: Final = "no"  # never
AFTER_S: Final = 900.0  # from when on work without a checkpoint counts, unless stated otherwise
FIELDS: Final = ("usual", "after", "jobs", "partition.NAME", "account.NAME")


class Rule(NamedTuple):
    """What holds for a job, and whose choice that is."""

    choice: str
    chosen_by: str  # the job, account NAME, partition NAME; empty: nobody in particular


class ConsentRules(NamedTuple):
    """All that is stated; the narrower statement counts: job, account or queue, partition, the usual."""

    usual: str = YES
    after_s: float = AFTER_S
    jobs: bool = True  # whether what a job states itself counts
    partitions: Mapping[str, str] = {}
    accounts: Mapping[str, str] = {}  # and queues

    def of(self, job: Job) -> Rule:
        """What holds for the job."""
        spec = job.spec
        stated: str = spec.preempt
        if self.jobs and stated in CHOICES:
            return Rule(stated, "the job")
        for name in (spec.account, spec.queue):
            if name and name in self.accounts:
                return Rule(self.accounts[name], f"account {name}")
        named = [name for name in str(spec.partition).split(",") if name in self.partitions]
        if named:
            strictest = max(named, key=lambda name: CHOICES.index(self.partitions[name]))
            return Rule(self.partitions[strictest], f"partition {strictest}")
        return Rule(self.usual, "")


def read_rules(shown: str, table: Mapping[str, str]) -> ConsentRules | None:
    """The rules of a table of texts, which people call `shown`; None: nothing is stated."""
    if not table:
        return None
    partitions, accounts = dict(_choices_of("partition", shown, table)), dict(_choices_of("account", shown, table))
    for key in table:
        if key not in FIELDS and key.partition(".")[0] not in ("partition", "account"):
            raise InputError(f"{shown}: {unknown('field', key, list(FIELDS))}")
    after_s = span_s(f"{shown} after", table["after"]) if "after" in table else AFTER_S
    if not 0.0 <= after_s < float("inf"):
        raise InputError(f"{shown} after={table['after']}: must be a length of time such as 900, 15m or 2h")
    try:
        jobs = is_on(table.get("jobs", "on"))
    except ValueError:
        raise InputError(f"{shown} jobs={table['jobs']}: must be {ACCEPTED}") from None
    return ConsentRules(_choice(shown, "usual", table.get("usual", YES)), after_s, jobs, partitions, accounts)


def _choices_of(kind: str, shown: str, table: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for key, text in table.items():
        table_name, dot, name = key.partition(".")
        if table_name == kind and dot and name:
            yield name, _choice(shown, key, text)


def _choice(shown: str, key: str, text: str) -> str:
    text = {"on": YES, "off": NO, "true": YES, "false": NO}.get(text.lower(), text.lower())  # TOML's true and false
    if text not in CHOICES:
        raise InputError(f"{shown} {key}={text}: must be one of {', '.join(CHOICES)}")
    return text
