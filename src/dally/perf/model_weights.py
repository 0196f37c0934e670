"""Which models of the catalogue a job may be like, learnt from how its steps slow down from place to place.

A job's own weights are those of its like before it came, times how well each model explains its steps. Its seconds
per step at the closest placement are not known, so only their ratios count, and those of earlier jobs of that name.
"""

from __future__ import annotations

from math import exp, log
from typing import Any, Final

from mypy_extensions import i64

from dally.model import Job
from dally.perf.alike import MOST_TEXTS, TextIndex
from dally.pickles import picklable

ERROR: Final = 0.07  # of ln seconds per step: of the measurement, the speed model and its neighbours
MOST_OFF: Final = 6.0  # such errors; a step that is off by more says no more against a model
ALIKE: Final = 0.05  # by which the steps of jobs of one name and size differ, likewise
PRIOR_JOBS: Final = 4.0  # that the wider class counts for in a narrower one,
NAMED_PRIOR_JOBS: Final = 0.3  # and in the class of a name, whose jobs are mostly the same again,
ALIKE_PRIOR_JOBS: Final = 0.3  # and among those whose names and commands are like its own
MOST_ALIKE: Final = 10  # texts that count for a job, each by its likeness to this power:
ALIKE_POWER: Final = 2.0
AGAIN: Final = 1.05  # growth of the texts after which what is alike is looked up anew
LEAST_GAIN: Final = 1e-3  # of information; a job that taught less does not count


LEAST_SEEN: Final = 0.2  # jobs in a class, for it to be named as the origin of what another is taken for
NAMED: Final = "earlier jobs of its user, name and size"
WIDER: Final = ("all jobs", "jobs of its size", "jobs of its user and size")
TEXT: Final = "\n"  # what the class of a text begins with


class AlikeClasses:
    """What was alike a text when so many texts were known: their classes and how much each counts."""

    __slots__ = ("known", "names", "shares")

    def __init__(self, known: i64, names: list[str], shares: list[float]) -> None:
        self.known: i64 = known
        self.names: list[str] = names
        self.shares: list[float] = shares


picklable(AlikeClasses, 0, [], [])


class Seen:
    """What jobs of a class were like: how many for each model, and their seconds per step if they were that."""

    __slots__ = ("counts", "jobs", "steps", "total")

    def __init__(self, models: i64) -> None:
        self.counts: list[float] = [0.0] * int(models)
        self.total: float = 0.0
        self.steps: list[float] = [0.0] * int(models)  # Σ ln seconds per step at the closest placement
        self.jobs: i64 = 0  # that these are of

    def add(self, weights: list[float], times: float) -> None:
        """A job with these weights counts so many times more."""
        for place in range(len(weights)):
            self.counts[place] += times * weights[place]
        self.total += times


picklable(Seen, 0)


class StepEvidence:
    """One job's steps so far: for each model the errors it leaves, and the weights that follow."""

    __slots__ = ("chain", "count", "gain", "squares", "sums", "weights")

    def __init__(self, chain: list[str], models: i64) -> None:
        self.chain: list[str] = chain  # its classes, the widest first
        self.count: i64 = 0  # measurements
        self.sums: list[float] = [0.0] * int(models)  # Σ (ln seconds per step - ln slowdown)
        self.squares: list[float] = [0.0] * int(models)
        self.weights: list[float] = []
        self.gain: float = 0.0  # for how much of a job it counts in its classes

    def mean(self, place: i64) -> float:
        """ln of its seconds per step at the closest placement if it is like that model."""
        return self.sums[place] / float(self.count)


picklable(StepEvidence, [], 0)


def chain_of(job: Job) -> list[str]:
    """The classes of a job, from all jobs to those of its user, name and size.

    The last but one is its name and command: jobs of any user and size whose texts are alike belong to it in part.
    """
    size: i64 = 1
    while size < job.gpus and size < 128:
        size *= 2
    chain = ["", f"{int(size)}"]
    if job.user or job.name:
        chain.append(f"{int(size)}\t{job.user}")
    text = f"{job.name} {job.spec.command_line}".strip()
    if text:
        chain.append(TEXT + text)
    if job.name:
        chain.append(f"{int(job.gpus)}\t{job.user}\t{job.name}")
    return chain


def is_named(chain: list[str]) -> bool:
    """Whether the narrowest class is that of a user, name and size."""
    return len(chain) > 3 and not chain[-1].startswith(TEXT)


class ModelWeights:
    """Weights of all models, by class of jobs and by job."""

    __slots__ = ("_alike_classes", "_texts", "classes", "evidence", "learnt", "models")

    def __init__(self, models: i64) -> None:
        self._texts: TextIndex = TextIndex()
        self._alike_classes: dict[str, AlikeClasses] = {}
        self.models: i64 = models
        self.classes: dict[str, Seen] = {}
        self.evidence: dict[int, StepEvidence] = {}  # of jobs that are there, by index
        self.learnt: float = 0.0  # jobs that taught anything

    def prior(self, chain: list[str]) -> list[float]:
        """What jobs of these classes are like as far as others show."""
        weights = [1.0 / float(self.models)] * int(self.models)
        for depth in range(len(chain)):
            if chain[depth].startswith(TEXT):
                _shrink(weights, self._alike(chain[depth]), ALIKE_PRIOR_JOBS)
                continue
            seen = self.classes.get(chain[depth])
            if seen is not None and seen.total > 0.0:
                named = depth == len(chain) - 1 and is_named(chain)
                _shrink(weights, seen, NAMED_PRIOR_JOBS if named else PRIOR_JOBS)
        return weights

    def _alike(self, name: str) -> Seen:
        """What jobs were like whose texts are like this one, each as far as it is."""
        result = self._alike_classes.get(name)
        if result is None or len(self._texts) > AGAIN * float(result.known):
            rows = self._texts.nearest(name, MOST_ALIKE)
            shares = [min(1.0, row.similarity) ** ALIKE_POWER for row in rows]
            result = AlikeClasses(len(self._texts), [row.text for row in rows], shares)
            if len(self._alike_classes) > MOST_TEXTS:
                self._alike_classes.clear()
            self._alike_classes[name] = result
        alike = Seen(self.models)
        for place in range(len(result.names)):
            seen = self.classes.get(result.names[place])
            if seen is not None and seen.total > 0.0:
                alike.add(
                    [count / seen.total for count in seen.counts], result.shares[place] * min(1.0, seen.total)
                )
        return alike

    def of(self, job: Job) -> list[float]:
        """What the job is like as far as its own steps and other jobs show."""
        evidence = self.evidence.get(int(job.index))
        if evidence is not None and len(evidence.weights) > 0:
            return evidence.weights
        return self.prior(chain_of(job))

    def origin_of(self, job: Job) -> str:
        """The narrowest that says what the job is like."""
        evidence = self.evidence.get(int(job.index))
        if evidence is not None and evidence.gain > 0.0:
            return f"its own steps, measured {int(evidence.count)} times"
        chain = chain_of(job)
        for back in range(len(chain)):
            depth = len(chain) - 1 - back
            is_text = chain[depth].startswith(TEXT)
            seen = self._alike(chain[depth]) if is_text else self.classes.get(chain[depth])
            if seen is None or seen.total < LEAST_SEEN:
                continue
            if is_text:
                return "jobs with names and commands like its own"
            return NAMED if back == 0 and is_named(chain) else WIDER[int(depth)]
        return "the catalogue: no job has shown yet what it is like"

    def state(self, job: Job, place: i64) -> None:
        """The job names its model: others of its like may be that too."""
        weights = [0.0] * int(self.models)
        weights[place] = 1.0
        for name in chain_of(job):
            self._class(name).add(weights, 1.0)
        self.learnt += 1.0

    def measure(self, job: Job, ln_step_s: float, ln_slowdowns: list[float]) -> None:
        """At its place the job takes so long for a step, where each model would have this slowdown."""
        evidence = self.evidence.get(int(job.index))
        if evidence is None:
            evidence = StepEvidence(chain_of(job), self.models)
            self.evidence[int(job.index)] = evidence
        for place in range(len(ln_slowdowns)):
            error = self._bounded(evidence, place, ln_step_s - ln_slowdowns[place])
            evidence.sums[place] += error
            evidence.squares[place] += error * error
        evidence.count += 1
        self._settle(evidence)

    def forget(self, job: Job) -> None:
        """The job ended: from here on its class knows its seconds per step."""
        evidence = self.evidence.pop(int(job.index), None)
        if evidence is None or evidence.count == 0 or not is_named(evidence.chain):
            return
        seen = self._class(evidence.chain[-1])
        seen.jobs += 1
        for place in range(len(seen.steps)):
            seen.steps[place] += evidence.mean(place)

    def saved(self) -> dict[str, Any]:
        """All classes as plain values, without what jobs taught that are still there: they teach it again."""
        left = {name: [*seen.counts] for name, seen in self.classes.items()}
        totals = {name: seen.total for name, seen in self.classes.items()}
        for evidence in self.evidence.values():
            for name in evidence.chain if evidence.gain > 0.0 else []:
                if name not in left:  # a text that is known no more
                    continue
                totals[name] -= evidence.gain
                for place in range(len(evidence.weights)):
                    left[name][place] -= evidence.gain * evidence.weights[place]
        rows: dict[str, dict[str, Any]] = {}
        for name, seen in self.classes.items():
            if name.startswith(TEXT):  # many, of which little is needed
                rows[name] = {"counts": [round(count, 3) for count in left[name]]}
            else:
                rows[name] = {
                    "counts": left[name], "total": totals[name], "steps": seen.steps, "jobs": int(seen.jobs)
                }  # fmt: skip
        return {"classes": rows}

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on with what `saved` gave."""
        for name, row in saved["classes"].items():
            seen = self._class(name)
            seen.counts = [max(0.0, float(count)) for count in row["counts"]]
            seen.total = sum(seen.counts)
            if "steps" in row:
                seen.steps = [float(value) for value in row["steps"]]
                seen.jobs = int(row["jobs"])
            self.learnt += seen.total if name == "" else 0.0

    def _bounded(self, evidence: StepEvidence, place: i64, error: float) -> float:
        """No single measurement speaks for or against a model beyond measure."""
        if evidence.count == 0:
            return error
        mean = evidence.mean(place)
        most = MOST_OFF * ERROR
        return mean + max(-most, min(most, error - mean))

    def _settle(self, evidence: StepEvidence) -> None:
        """Work out the job's weights anew, and what its classes learn from it."""
        for name in evidence.chain:
            if evidence.gain > 0.0:
                self._class(name).add(evidence.weights, -evidence.gain)
        before = self.prior(evidence.chain)
        logs = [log(before[place] + 1e-12) + self._likelihood(evidence, place) for place in range(len(before))]
        most = max(logs)
        weights = [exp(value - most) for value in logs]
        whole = sum(weights)
        information = 0.0
        for place in range(len(weights)):
            weights[place] /= whole
            if weights[place] > 0.0:
                information += weights[place] * log(weights[place] / (before[place] + 1e-12))
        gain = 1.0 - exp(-information) if information > LEAST_GAIN else 0.0
        self.learnt += gain - evidence.gain
        evidence.weights = weights
        evidence.gain = gain
        if gain > 0.0:
            for name in evidence.chain:
                self._class(name).add(weights, gain)

    def _likelihood(self, evidence: StepEvidence, place: i64) -> float:
        """ln of how likely the steps are, whatever the seconds per step at the closest placement are."""
        count = float(evidence.count)
        total = evidence.sums[place]
        precision = 1.0 / (ERROR * ERROR)
        seen = self.classes.get(evidence.chain[-1]) if is_named(evidence.chain) else None
        if seen is None or seen.jobs == 0:
            return -0.5 * precision * max(0.0, evidence.squares[place] - total * total / count)
        alike = 1.0 / (ALIKE * ALIKE)
        usual = seen.steps[place] / float(seen.jobs)
        mean = (precision * total + alike * usual) / (precision * count + alike)
        return -0.5 * max(
            0.0,
            precision * (evidence.squares[place] - 2.0 * mean * total + count * mean * mean)
            + alike * (usual - mean) * (usual - mean),
        )

    def _class(self, name: str) -> Seen:
        seen = self.classes.get(name)
        if seen is None:
            seen = Seen(self.models)
            self.classes[name] = seen
            if name.startswith(TEXT):
                oldest = self._texts.add(name)
                if oldest:
                    self.classes.pop(oldest, None)
        return seen


def _shrink(weights: list[float], seen: Seen, jobs: float) -> None:
    """Make of a wider class's weights those of this one: the wider counts for so many jobs in it."""
    whole = seen.total + jobs
    for place in range(len(weights)):
        weights[place] = (seen.counts[place] + jobs * weights[place]) / whole


picklable(ModelWeights, 0)
