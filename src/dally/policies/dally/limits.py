"""The constants of the policy, each of which `--set` changes."""

from __future__ import annotations

from typing import Final, NamedTuple

DAY_S: Final = 86400.0
SLACK: Final = 5e-4  # prices are rounded


class Limits(NamedTuple):
    """What the policy puts up with. Prices are slowdowns against the best the job can hope for."""

    # Phase 1, then phase 2 for those passed over: at the closest tier a gang fits into, and farther away.
    near_price: float = 1.02
    far_price: float = 1.0  # only where the network does not feel it
    leftover_near_price: float = 2.0
    leftover_far_price: float = 1.01
    patient_price: float = 1.1  # phase 2, once the wait has paid for it
    domains: int = 5  # asked for a price at each tier
    scatter: bool = True
    inflicted: bool = True
    # Who may be stopped.
    preemption: bool = True
    stick: float = 0.7  # a running job's rank counts so many times
    # No job is preempted for one of its size until one has lived so many times as long as another.
    alike: float = 0.0
    least_hold_s: float = 60.0  # for which a job keeps what it got,
    hold: float = 4.0  # at least so many restarts,
    wide_hold: float = 5.0  # or these if it takes most of the cluster, where such gangs do much of the work
    # Moves to a faster place.
    migration: bool = True
    least_excess: float = 1.02  # slowdown over the best from which on a gang may move
    least_saving_s: float = 60.0  # that a move must bring,
    saving: float = 2.0  # at least so many restarts
    most_moves: int = 12  # tried per pass
    move_domains: int = 4  # asked for a price at each tier
    # Moves out of somebody's way.
    compaction: bool = True
    clear_domains: int = 8  # tried
    clear_free: float = 0.25  # share of the gang for which a domain must have room already
    clear_worth: float = 2.0  # times its cost that a clearing must bring
    mixing: bool = True
    # Domains drained for wide gangs.
    idle_worth: float = 0.1  # GPU-seconds that must have stood idle for one taken from a better-ranked job,
    idle_power: float = 4.0  # for a gang of the whole cluster; smaller ones pay (cluster ÷ gang) to this power more
    quantum: float = 10.0  # the gang keeps it until others have waited, in all, so many times its restart
    quantum_s: float = 600.0  # and these seconds
    finish_share: float = 0.75  # a gang of this share of the cluster also gets its domain
    finish_gain: float = 2.0  # where it promises so many times as many finishes as the jobs that lose it
    # Probes of young jobs.
    probe_stretch: float = 5.0  # a young job waits at most so many times as long as it has worked,
    probe_least_s: float = 10.0  # and as this,
    probe_s: float = 600.0  # before it runs until it has worked for so long,
    probe_odds: float = 0.1  # where at least this share of such jobs ends in a probe,
    probe_again_s: float = 60.0  # one that found no room is tried again after so long, if not at the next pass,
    probe_share: float = 0.2  # as long as such jobs hold no more than this share of the GPUs, or it is the only one
    # Sizes of elastic jobs.
    elastic: bool = True
    dearest: float = 1.5  # GPU time per work of a larger size's last step, against the size that a job asks for
    idle_reserve: float = 0.02  # share of the GPUs that no job grows into,
    quiet_s: float = 3600.0  # unless no job has come for so long
    smaller_stick: float = 0.7  # to preempt, a job that could start smaller must rank so many times as far ahead
    loan_s: float = 3600.0  # for which a larger size counts at most while somebody waits
    # Safety.
    most_slowdown: float = 1.5  # of all that runs, above which nobody is scattered
    churn: float = 0.05  # share of GPU time that may go into restarts,
    churn_window_s: float = DAY_S  # over so long
    moves_per_h: int = 6  # of one job
    patience_s: float = 21.0 * DAY_S  # a job waits at most so long,
    patience: float = 8.0  # and so many times as long as it has run,
    stretch_s: float = 0.25 * DAY_S  # before it gets this long for sure,
    reserved: float = 0.1  # as long as such jobs hold no more than this share of the GPUs
    # Where all jobs take about equally long, nobody gains by another's wait: patience is short.
    alike_times: float = 0.0  # they do if 99 % of them end before so many times as long as half of them take
    alike_patience: float = 2.0  # a job then waits at most so many times as long as the longest,
    alike_reserved: float = 0.5  # as long as such jobs hold no more than this share of the GPUs
    most_candidates: int = 2048  # running jobs, the worst-ranked, that are looked at for one gang,
    most_domains: int = 256  # and domains that could be cleared of them
    most_prices: int = 20000  # asked for in one pass
    wake_s: float = 300.0  # between two passes while somebody waits
