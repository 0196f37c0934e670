"""Who is slow: for each machine and link the probability that it explains jobs slower than they should be.

Group testing by Bayes: a job is a test of all its members. A suspect is judged by all jobs on it, slow or not,
against the chance that each slow job is slow by itself. One suspect after the other is named and its jobs
explained, so that several faults are told apart.

A job's usual speed comes first from itself at this place, then from other jobs of its kind elsewhere; with neither,
little can be said, so a model that is slow by itself accuses nobody. What all jobs have in common is taken off: if
everything is slow, no machine is to blame.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from math import exp, log, log1p, pi, sqrt
from statistics import median
from typing import Final, NamedTuple

from dally.health.speed_history import SpeedSegment

LINK_FACTORS: Final = (1.2, 1.5, 2.0, 3.0, 5.0)  # for which a member may state its shifts
FACTORS: Final = (1.05, 1.1, 1.15, 1.2, 1.3, 1.4, 1.5, 1.7, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0)
SLOW: Final = 0.02  # share of machines and links that is slow at any moment, before anything is seen
GOES_ON: Final = 0.3  # the same of one that was named at the look before
BY_ITSELF: Final = 0.002  # share of jobs that become slow by themselves, by any factor,
BY_KIND: Final = 0.005  # of kinds that are on one place and not on the other,
BY_MODEL: Final = 0.1  # and of kinds that are from the beginning
ELEVATED: Final = 0.04  # a job is slow from here on, in logarithms
NAMED: Final = 0.8  # probability from which a suspect is named
SAME_PLACE: Final = 0.015  # standard deviation of a sound job's speed against itself at the same place,
SAME_KIND: Final = 0.05  # against others of its kind,
ANY: Final = (0.05, 0.25)  # and against the model alone, least and most: by how much it is off with most kinds
UNSURE: Final = 0.1  # of a shift: what a slow member makes of a step is known no better
EXPLAINED: Final = 0.25  # of a shift: how well it is known what one that is named explains
LEAST_SHIFT: Final = 0.01
LEAST_WEIGHT: Final = 0.05  # against the likeliest, of who else may be meant
MOST_KINDS: Final = 2000  # that are remembered
LEAST_COMMON: Final = 5  # jobs from which on one speaks of all


class Member(NamedTuple):
    """A machine or link of a job's place, and the share of the job's step that it stretches when it is slow.

    `place`: the machine that is taken out for it, so that a machine and its NICs are one; by itself its own.
    `shifts`: what a step becomes at each of LINK_FACTORS, in logarithms, where a model says that; below 0 of a job
    that does not cross the link and is faster for it.
    """

    name: str
    share: float
    place: str = ""
    shifts: tuple[float, ...] = ()

    @property
    def slows(self) -> bool:
        """Whether the job is slower if it is slow."""
        return max(self.shifts) > LEAST_SHIFT if self.shifts else self.share > 0.0

    def shift(self, factor: float) -> float:
        """What the job's step becomes, in logarithms."""
        if self.shifts and factor in LINK_FACTORS:
            return self.shifts[LINK_FACTORS.index(factor)]
        return log1p(self.share * (factor - 1.0))


class PlacedSpeed(NamedTuple):
    """A job at a place: its speed now, and before it last changed there."""

    job: str
    kind: str  # jobs of one kind run the same model in the same way, as far as is known
    members: tuple[Member, ...]
    now: SpeedSegment
    before: SpeedSegment | None = None
    running: bool = True


class Suspect(NamedTuple):
    """Who is held to be slow: one machine or link, or one of several that the jobs do not tell apart."""

    names: tuple[str, ...]  # likeliest first; of a place its likeliest member
    places: tuple[str, ...]
    factor: float  # how many times as long it takes, if it is the first
    probability: float  # that it is one of them
    jobs: tuple[str, ...]  # the slow jobs that speak against it
    kinds: int  # of these

    @property
    def name(self) -> str:
        """The likeliest."""
        return self.names[0]

    @property
    def sure(self) -> bool:
        """Whether it is that one."""
        return len(self.places) == 1


class _Test(NamedTuple):
    """A job's speed beside its usual one."""

    observation: PlacedSpeed
    excess: float  # above what is usual, in logarithms
    error: float
    by_itself: float  # the probability that it is not because of its place
    known: bool = True  # from itself or from its kind

    @property
    def elevated(self) -> bool:
        return self.excess > max(ELEVATED, 2.0 * self.error)


def suspects(
    observations: Sequence[PlacedSpeed],
    named: float = NAMED,
    errors: ModelErrors | None = None,
    known: Collection[str] = (),
) -> list[Suspect]:
    """Machines and links to blame, each with probability `named` at least; first those that are sure.

    `known`: the names of those that were to blame at the look before.
    """
    errors = errors or ModelErrors()
    errors.learn(observations)
    tests = _tests(observations, errors.usual())
    result: list[Suspect] = []
    explained: dict[str, float] = {}  # by sure suspect: its factor
    unsure: set[str] = set()  # jobs of suspects that are not
    for _ in range(len(tests)):
        suspect = _likeliest(tests, explained, unsure, named, known)
        if suspect is None:
            break
        result.append(suspect)
        if suspect.sure:
            explained[suspect.name] = suspect.factor
        unsure.update(suspect.jobs)
    return result


def _tests(observations: Sequence[PlacedSpeed], off: tuple[float, float]) -> list[_Test]:
    """Each job's speed against its usual one, less what all have in common."""
    kinds: dict[str, list[PlacedSpeed]] = defaultdict(list)
    for observation in observations:
        kinds[observation.kind].append(observation)
    raw = [_against_usual(observation, kinds[observation.kind], off) for observation in observations]
    live = sorted(test.excess for test in raw if test.observation.running and test.known)
    common = live[len(live) // 4] if len(live) >= LEAST_COMMON else 0.0  # three of four jobs are slower still
    if common < ELEVATED / 2.0:
        common = 0.0  # if jobs become faster again, the others are not slow
    return [test._replace(excess=test.excess - common) if test.known else test for test in raw]


class ModelErrors:
    """How far the speed model is off with kinds of jobs, learnt from all that were seen."""

    def __init__(self) -> None:
        self._kinds: dict[str, float] = {}

    def learn(self, observations: Iterable[PlacedSpeed]) -> None:
        """Take note of the least that each kind was off by: what is more may be its place's doing."""
        for observation in observations:
            before = observation.before
            mean = observation.now.mean if before is None else min(before.mean, observation.now.mean)
            known = self._kinds.get(observation.kind, mean)
            self._kinds[observation.kind] = min(known, mean)
            if len(self._kinds) > MOST_KINDS:
                del self._kinds[next(iter(self._kinds))]

    def usual(self) -> tuple[float, float]:
        """The deviation of a kind of which nothing is known, and the probability that it is far off."""
        count = len(self._kinds)
        if count < 2 * LEAST_COMMON:
            return ANY[1], BY_MODEL
        deviation = min(ANY[1], max(ANY[0], 1.5 * median(abs(mean) for mean in self._kinds.values())))
        far = sum(mean > 2.0 * deviation for mean in self._kinds.values())
        return deviation, (10.0 * BY_MODEL + far) / (10.0 + count)


def _against_usual(observation: PlacedSpeed, alike: Iterable[PlacedSpeed], off: tuple[float, float]) -> _Test:
    now, before = observation.now, observation.before
    if before is not None:
        error = (now.error**2 + before.error**2 + SAME_PLACE**2 + _helped(before, off[0])) ** 0.5
        return _Test(observation, now.mean - max(before.mean, -off[0]), error, BY_ITSELF)
    others = [other for other in alike if other is not observation and _apart(observation, other)]
    if others:
        # The fastest are sound: one that is slow elsewhere must not hide what is slow here.
        speeds = [other.now if other.before is None else min(other.now, other.before) for other in others]
        usual = min(speeds, key=lambda speed: speed.mean + 2.0 * speed.error)
        error = (now.error**2 + usual.error**2 + SAME_KIND**2 + _helped(usual, off[0])) ** 0.5
        return _Test(observation, now.mean - max(usual.mean, -off[0]), error, BY_KIND)
    return _Test(observation, now.mean, (now.error**2 + off[0] ** 2) ** 0.5, off[1], known=False)


def _helped(usual: SpeedSegment, off: float) -> float:
    """The variance of what is usual, of a job faster than the model allows: then it is the model's word.

    Another's trouble left it more of its links, and may have passed.
    """
    return off * off if usual.mean < -off else 0.0


def _apart(one: PlacedSpeed, other: PlacedSpeed) -> bool:
    """Whether they share no machine and no link."""
    return not {member.name for member in one.members} & {member.name for member in other.members}


class _Evidence(NamedTuple):
    """Against one member: log-odds that it is slow, its best factor, and the slow jobs on it."""

    odds: float
    factor: float
    against: tuple[_Test, ...]


def _likeliest(
    tests: Sequence[_Test], explained: dict[str, float], unsure: set[str], named: float, known: Collection[str]
) -> Suspect | None:
    """The suspect of the fewest places that explains a slow job with that probability."""
    left = [_left_of(test, explained) for test in tests]
    slow = [test for test in left if test.elevated]
    accused = {member.name for test in slow for member in test.observation.members if member.slows}
    accused -= explained.keys()
    by_member: dict[str, list[tuple[_Test, Member]]] = defaultdict(list)
    for test in left:
        for member in test.observation.members:
            if member.name in accused:
                by_member[member.name].append((test, member))
    evidence = {name: _evidence(rows, GOES_ON if name in known else SLOW) for name, rows in by_member.items()}
    best: Suspect | None = None
    for test in slow:
        if test.observation.job not in unsure:
            suspect = _of_job(test, evidence, named)
            if suspect is not None and (best is None or _order(suspect) < _order(best)):
                best = suspect
    return best


def _order(suspect: Suspect) -> tuple[int, float, str]:
    return len(suspect.places), -suspect.probability, suspect.name


def _of_job(test: _Test, evidence: dict[str, _Evidence], named: float) -> Suspect | None:
    """The place of the job that is slow with that probability, or all that may be; None: it may be the job."""
    members: dict[str, list[str]] = defaultdict(list)
    for member in test.observation.members:
        if member.name in evidence and member.slows:
            members[member.place or member.name].append(member.name)
    for names in members.values():
        names.sort(key=lambda name: (-evidence[name].odds, name))
    odds = {place: [min(600.0, evidence[name].odds) for name in names] for place, names in members.items()}
    weights = {place: sum(exp(value) for value in values) for place, values in odds.items()}
    whole = 1.0 + sum(weights.values())
    ranked = sorted(weights, key=lambda place: (-weights[place], place))
    first = ranked[0]
    places = (
        [first]
        if weights[first] / whole >= named
        else [place for place in ranked if weights[place] >= weights[first] * LEAST_WEIGHT]
    )
    share = sum(weights[place] for place in places) / whole
    if share < named:
        return None
    likeliest = evidence[members[first][0]]
    against = {row.observation.job: row.observation.kind for row in likeliest.against}
    likely_names = tuple(members[place][0] for place in places)
    return Suspect(
        likely_names, tuple(places), likeliest.factor, share, tuple(sorted(against)), len({*against.values()})
    )


def _left_of(test: _Test, explained: dict[str, float]) -> _Test:
    """What those named already do not explain of it."""
    members = [member for member in test.observation.members if member.name in explained]
    if not members:
        return test
    shifts = [member.shift(explained[member.name]) for member in members]
    slowest = max(shifts)  # the slowest member holds it up
    shift = slowest if slowest > 0.0 else min(shifts)
    error = sqrt(test.error**2 + (EXPLAINED * shift) ** 2)
    return test._replace(excess=test.excess - shift, error=error)


def _evidence(rows: Sequence[tuple[_Test, Member]], prior: float) -> _Evidence:
    """At the factor that fits best among those tried."""
    likelihoods: list[float] = []
    factors = LINK_FACTORS if any(member.shifts for _, member in rows) else FACTORS
    for factor in factors:
        unknown: dict[str, float] = {}  # kinds of which nothing is known count once, by their weakest job
        total = 0.0
        for test, member in rows:
            ratio = _ratio(test, member.shift(factor))
            if test.known:
                total += ratio
            else:
                kind = test.observation.kind
                unknown[kind] = min(unknown.get(kind, ratio), ratio)
        likelihoods.append(total + sum(unknown.values()))
    best = max(range(len(factors)), key=likelihoods.__getitem__)
    whole = sum(exp(value - likelihoods[best]) for value in likelihoods) / len(factors)
    odds = log(prior / (1.0 - prior)) + likelihoods[best] + log(whole)
    against = tuple(test for test, member in rows if test.elevated and member.slows)
    return _Evidence(odds, factors[best], against)


def _ratio(test: _Test, shift: float) -> float:
    """How much likelier the job's speed is with that shift than without, as a logarithm.

    Either way it may be slow, or fast, by itself.
    """
    usual = 1.0 - test.by_itself
    by_itself = test.by_itself * _density(test.excess, 0.5)
    sound = usual * _density(test.excess, test.error) + by_itself
    error = sqrt(test.error**2 + (UNSURE * shift) ** 2)
    return log((usual * _density(test.excess - shift, error) + by_itself) / sound)


def _density(value: float, deviation: float) -> float:
    distance = value / deviation
    return exp(-0.5 * distance * distance) / (deviation * sqrt(2.0 * pi))
