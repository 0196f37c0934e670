"""How far a job is, from what it says line by line: steps of the whole run, over the seconds that it worked."""

from __future__ import annotations

from dally.progress.line_progress import LineProgress

MOST_SAMPLES = 400  # of a segment; beyond, every other one is dropped


class Segment:
    """From one placement of the job to the next: (seconds worked there, steps done in all) as they came."""

    __slots__ = ("samples", "slowdown")

    def __init__(self, slowdown: float) -> None:
        self.slowdown = slowdown  # at that place, as the speed model has it
        self.samples: list[tuple[float, float]] = []

    def add(self, worked_s: float, done: float) -> None:
        """At that moment so many steps were done; one that does not advance says nothing."""
        if self.samples and (worked_s <= self.samples[-1][0] or done <= self.samples[-1][1]):
            if done < self.samples[-1][1]:  # from an earlier checkpoint: what was lost is done again
                self.samples = [(worked_s, done)]
            return
        self.samples.append((worked_s, done))
        if len(self.samples) > MOST_SAMPLES:
            self.samples = [*self.samples[:-1:2], self.samples[-1]]

    def since(self, worked_s: float) -> Segment:
        """Its samples from that moment on."""
        result = Segment(self.slowdown)
        result.samples = [sample for sample in self.samples if sample[0] >= worked_s]
        return result


class StepTimes:
    """One job's training so far."""

    def __init__(self) -> None:
        self.total: float | None = None  # steps of the whole run
        self.done = 0.0
        self.printed_s: float | None = None  # seconds per step, as the latest line has it
        self.segments = [Segment(1.0)]
        self._epochs: int | None = None
        self._per_epoch: int | None = None  # steps of one, where steps begin anew in each
        self._first_epoch: float | None = None
        self._latest: tuple[int | None, float | None] = (None, None)  # step, epoch
        self._first_line: tuple[float, float] | None = None  # seconds and epoch of the first line without a step
        self._at_end: bool | None = (
            None  # whether lines without steps come at the end of their epoch; None: not known
        )

    def moved(self, slowdown: float) -> None:
        """The job got other GPUs: steps take another time, by the speed model so many times the best."""
        if self.segments[-1].samples:
            self.segments.append(Segment(slowdown))
        else:
            self.segments[-1].slowdown = slowdown

    def observe(self, worked_s: float, row: LineProgress) -> None:
        """After so many seconds of work at its present place the job printed this."""
        self.printed_s = row.s_per_step or self.printed_s
        if row.epochs is not None:
            self._epochs = row.epochs
        if row.epoch is not None and self._first_epoch is None and row.epoch == int(row.epoch):
            self._first_epoch = min(row.epoch, 1.0)
        if row.step is None:
            if row.total is not None:
                self.total = float(row.total)
            if self._latest[0] is None and row.epoch is not None and row.epoch == int(row.epoch):
                self._count_epoch(worked_s, row.epoch)
            self._latest = (self._latest[0], self._epoch_of(row))
            return
        if self._at_end is not None:  # it prints steps after all
            self._at_end, self.total, self.segments = None, None, [Segment(self.segments[-1].slowdown)]
        self._note_epochs(row)
        done = float(row.step)
        epoch = self._epoch_of(row)
        if self._per_epoch is not None:
            done += self._per_epoch * (int(epoch or 0.0) - int(self._first_epoch or 0.0))
            if self._epochs is not None:
                self.total = float(self._per_epoch * self._count())
        elif row.total is not None:
            self.total = float(row.total)
        self._latest = (row.step, epoch)
        self.done = done
        self.segments[-1].add(worked_s, done)

    def _count_epoch(self, worked_s: float, epoch: float) -> None:
        """Epochs count as steps where nothing else is printed, from the second one on."""
        if self._first_line is None or worked_s <= self._first_line[0]:
            self._first_line = (worked_s, epoch)
            return
        first_s, first = self._first_line
        if self._at_end is None:
            if epoch <= first:
                return
            self._at_end = first_s >= 0.5 * (worked_s - first_s) / (epoch - first)
        self.done = epoch - int(self._first_epoch or 0.0) + self._at_end
        if self._epochs is not None:
            self._latest = (None, epoch)
            self.total = float(self._count())
        self.segments[-1].add(worked_s, self.done)

    def _epoch_of(self, row: LineProgress) -> float | None:
        return row.epoch if row.epoch is not None else self._latest[1]

    def _count(self) -> int:
        """How many epochs there are: some frameworks print the last one's number, from 0."""
        assert self._epochs is not None
        return self._epochs + (self._first_epoch == 0.0 and (self._latest[1] or 0.0) >= self._epochs)

    def _note_epochs(self, row: LineProgress) -> None:
        """Whether steps are counted within an epoch: whole epochs are named, or steps begin anew."""
        epoch = self._epoch_of(row)
        if row.total is None or epoch is None or epoch != int(epoch):
            return
        before, _ = self._latest
        anew = before is not None and row.step is not None and row.step < 0.5 * before
        if self._per_epoch is not None or self._epochs is not None or anew or epoch >= 2.0:
            self._per_epoch = row.total
