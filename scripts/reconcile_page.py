"""Prints docs/reconcile.md: the table of transitions by which the daemon reconciles jobs with the cluster.

usage: python scripts/reconcile_page.py > docs/reconcile.md
"""

from __future__ import annotations

from dally.live.reconcile.reconciler import LONGEST_RETRY_S, MOST_ATTEMPTS, RETRY_S, START_WITHIN_S
from dally.live.reconcile.transitions import TABLES, Row

HEAD = f"""# Reconcile table

In every cycle the daemon brings three things together: what it decided and is not so yet (*desired*), what the
backend reports (*observed*), and the engine's *status* of the job. The first row that fits a job counts. Its
events go to the engine before the policy is asked; its order says what becomes of the pending order. This page is
written by `make docs` from `src/dally/live/reconcile/transitions.py`: change the table, not the page.

- Desired: `none` (nothing is pending), `run` (on given GPUs), `stop`, `blocked` (wait, and try again later), `keep`
  (the backend would not stop it: it is non-preemptible for a while).
- Observed: the states of a backend, and `absent` if it does not report the job.
- Status: `unknown` (not taken in yet), `waiting`, `running`, `held` (it waits and is offered no GPUs).
- Order: `drop` (nothing is pending any more), `stop`, `block`, `keep`, `postpone` (leave it alone for a while); of
  requests, what is sent.

A pending order is in the store before anything is sent, with how often and when it was sent, and the backend's
answer after. A daemon that was killed in between sends the request again: backends take the same request twice. A
start is given up after {MOST_ATTEMPTS} refusals or {START_WITHIN_S:g} s. A blocked job is tried again after
{RETRY_S:g} s, then ever more seldom, at least every {LONGEST_RETRY_S / 60:g} minutes, and when a job of its user or
account has ended. Before a preemption is sent, the daemon looks the job up again: a job that has ended is never
requeued. Nor is one that has ended by the store and runs again by the backend, which has forgotten the end (a
killed slurmctld forgets its last seconds): it is not preempted, and the problem is reported.
"""
ABOUT = {
    "Admission": "Which jobs are taken in. After these rows come those of *Jobs*.",
    "Jobs": "What happened to a job since the last cycle, before the policy is asked.",
    "Holds": "What an operator's hold asks of a job, after the policy was asked.",
    "Requests": "What is sent to the backend at the end. A request that it took is not repeated for 20 s.",
}


def section(name: str, rows: tuple[Row, ...]) -> str:
    """One table in Markdown."""
    lines = ["| desired | observed | status | if | events | order | meaning |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        where = (row.desired, row.observed, row.status)
        cells = [text.replace("*", "any").replace("|", ", ") for text in where]
        cells += [row.guard.replace("_", " "), ", ".join(row.events), row.order, f"`{row.id}`: {row.meaning}"]
        lines.append(f"| {' | '.join(cells)} |")
    return f"\n## {name}\n\n{ABOUT[name]}\n\n" + "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(HEAD + "".join(section(name, rows) for name, rows in TABLES.items()), end="")
