"""The cluster map in a real browser, over clusters of any size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from dally.live.job_status import JobStatus
from tests.web.made_up_scene import MadeUp, made_up_server, made_up_topology, ragged_topology
from tests.web.visiting import Visitor

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Route

    from dally.web.server import LocalServer

CLUSTERS = {
    "16": made_up_topology(4, 4, 8),
    "1000": made_up_topology(25, 40, 8),
    "12500": made_up_topology(313, 40, 8),
    "pods": made_up_topology(3, 4, 4, 8),
    "flat": made_up_topology(12, 8),
    "ragged": ragged_topology(3, 40, 12, 1, 25, 8, 30, 2),
}
LEVELS = {"16": "gpu", "1000": 0, "12500": 1, "pods": "gpu", "flat": "gpu", "ragged": "gpu"}
FRAME_MS = 50.0  # of script for a frame of 12,500 machines
UPDATE_MS = 100.0  # of script for a cycle

KNOWN = """
const map = window.dally.map, { view, layout, tree, occupancy } = map;
const middle = (box) => ({ x: view.px(box.x + box.w / 2), y: view.py(box.y + box.h / 2) });
const gpu = (machine, number) => middle({ ...layout.gpu(machine, number), w: 1, h: 1 });
const block = (machine, number) => {  // of a GPU where machines are drawn whole
  const { x, y, w, h } = layout.box(0, machine);
  const columns = layout.columnsOf(machine), rows = Math.ceil(tree.gpus[machine] / columns);
  const [wide, high] = [w / columns, h / rows];
  return middle({ x: x + (number % columns) * wide, y: y + Math.floor(number / columns) * high, w: wide, h: high });
};
const pixel = (layer, { x, y }) => [
  ...map[layer].getContext("2d").getImageData(Math.round(x), Math.round(y), 1, 1).data
];
const two = (part) => part.toString(16).padStart(2, "0");
const hex = (layer, at) => "#" + pixel(layer, at).slice(0, 3).map(two).join("");
const seatsOf = (job) => [...job.on.keys()].flatMap((machine) => [...Array(tree.gpus[machine]).keys()]
  .filter((number) => occupancy.seats[tree.seat[machine] + number] === job.slot)
  .map((number) => [machine, number]));
const ids = () => [...occupancy.seats].map((slot) => (slot < 0 ? null : occupancy.jobs[slot].id));
const standAt = (place) => { map.walk.place = place; map.walk.step(0, 0); };
"""


class Reader(Visitor):
    """A visitor of the map of a cluster that does not exist."""

    def __init__(self, browser: Browser, scene: MadeUp, url: str, width: int, scheme: str) -> None:
        super().__init__(browser, url, width, scheme)
        self.scene = scene
        self.expected = ("willReadFrequently",)  # only tests read pixels
        self.live("/")
        self.page.locator(".map[data-ready]").wait_for()

    def see(self, what: str, **values: Any) -> Any:
        """What the page's own scripts know."""
        return self.page.evaluate(f"async (given) => {{ {KNOWN} return {what}; }}", values)

    def point(self, place: str) -> None:
        """The mouse goes there; `place` is a point of the map in JavaScript."""
        at, box = self.see(place), self.page.locator(".map-top").bounding_box()
        assert box is not None
        self.page.mouse.move(box["x"] + at["x"], box["y"] + at["y"])

    def click(self, place: str, times: int = 1) -> None:
        self.point(place)
        for count in range(times):
            self.page.mouse.down(click_count=count + 1)
            self.page.mouse.up(click_count=count + 1)

    def still(self) -> None:
        """Wait until nothing moves."""
        self.until(lambda: self.see("!view.aim && !map.frame"))

    def card(self) -> str:
        return self.page.locator(".map-card").inner_text()

    def colour_by(self, mode: str) -> None:
        self.page.locator(f"input[name=map-by][value={mode}]").check(force=True)
        self.still()

    def find(self, text: str) -> str:
        self.page.get_by_role("searchbox").or_(self.page.get_by_role("combobox")).first.fill(text)
        self.page.keyboard.press("Enter")
        self.still()
        return self.page.locator(".map-found").inner_text()


Show = Callable[..., Reader]


@pytest.fixture(scope="module")
def show(browser: Browser) -> Iterator[Show]:
    """Call it with a size: the map of such a cluster, ready. It is the same page the next time."""
    servers: dict[str, tuple[MadeUp, LocalServer]] = {}
    readers: dict[tuple[str, int, str], Reader] = {}

    def show(size: str, width: int = 1280, scheme: str = "light") -> Reader:
        if size not in servers:
            scene = MadeUp(CLUSTERS[size])
            servers[size] = (scene, made_up_server(scene))
            servers[size][1].start()
        scene, server = servers[size]
        key = (size, width, scheme)
        if key not in readers:
            readers[key] = Reader(browser, scene, server.url, width, scheme)
        reader = readers[key]
        reader.page.mouse.move(1, 1)
        reader.see("map.choose(null), map.walk.leave(), view.fit(false), map.point(null)")
        reader.still()
        return reader

    yield show
    for reader in readers.values():
        reader.leave()
    for _, server in servers.values():
        server.stop()


@pytest.mark.parametrize("size", list(CLUSTERS))
def test_everything_lies_within_what_holds_it_and_beside_its_like(show: Show, size: str) -> None:
    reader = show(size)
    wrong = reader.see(
        """(() => {
          const wrong = [];
          for (let tier = 0; tier < tree.root; tier += 1) for (let one = 0; one < tree.size(tier); one += 1) {
            const [box, over] = [layout.box(tier, one), layout.box(tier + 1, tree.parent[tier][one])];
            const [right, bottom] = [over.x + over.w + 1e-3, over.y + over.h + 1e-3];
            const inside = box.x >= over.x && box.y >= over.y && box.x + box.w <= right && box.y + box.h <= bottom;
            if (!inside) wrong.push([tier, one]);
            if (!one || tree.parent[tier][one] !== tree.parent[tier][one - 1]) continue;
            const last = layout.box(tier, one - 1);
            if (box.y < last.y + last.h && box.x < last.x + last.w) wrong.push([tier, one, "over the one before"]);
          }
          return wrong;
        })()"""
    )
    assert wrong == []
    assert reader.see("view.level") == LEVELS[size]
    assert reader.see("layout.width * view.unit <= view.width && layout.height * view.unit <= view.height + 1")
    filled = reader.see("Math.max(layout.width * view.unit / view.width, layout.height * view.unit / view.height)")
    assert filled > 0.9
    assert reader.fits()


def test_twelve_thousand_machines_open_up_within_frames(show: Show) -> None:
    reader = show("12500")
    assert reader.see("view.level") == 1
    reader.point("middle(layout.box(1, 100))")
    assert "rack100" in reader.card()
    slowest = reader.see(
        """(() => {
          const found = {};
          for (let step = 0; view.unit < 40; step += 1) {
            view.zoom(1.12, 600, 300);
            view.pan(step % 2 ? 9 : -9, 5);
            map.drawNow();
            map.drawNow();
            found[view.level] = Math.min(found[view.level] ?? 1e9, map.lastDrawMs);
          }
          return found;
        })()"""
    )
    assert list(slowest) == ["0", "1", "gpu"]
    assert max(slowest.values()) < FRAME_MS
    reader.page.get_by_role("button", name="Fit").click()
    reader.still()
    assert reader.see("view.level") == 1
    reader.click("middle(layout.box(1, 100))", times=2)
    reader.still()
    assert reader.see("view.level") == "gpu"
    assert reader.see("view.px(layout.box(1, 100).x)") >= 0


def test_a_gpu_tells_of_its_job_and_all_its_gang_stands_out(show: Show) -> None:
    reader = show("16")
    line = max(reader.scene.now.jobs, key=lambda line: len(line.placement))
    job = f"occupancy.job('{line.job_id}')"
    reader.point(f"gpu(...seatsOf({job}).at(-1))")
    reader.still()
    for word in (
        line.spec.name,
        line.spec.user,
        line.spec.model,
        f"{line.spec.gpus} on {len(line.placement)} machines",
        "×",
        line.tier,
    ):
        assert word in reader.card()
    gang = reader.see(f"seatsOf({job}).map((at) => hex('top', gpu(...at)))")
    assert gang == [reader.see(f"map.colouring.fill[{job}.slot]")] * line.spec.gpus
    other = f"occupancy.jobs.find((job) => job.id !== '{line.job_id}')"
    assert 150 < reader.see(f"pixel('top', gpu(...seatsOf({other})[0]))[3]") < 250  # dimmed
    reader.click(f"gpu(...seatsOf({job})[0])")
    reader.page.mouse.move(1, 1)
    reader.still()
    assert line.spec.name in reader.card()
    title = reader.page.locator(".map-card").get_by_role("link", name=line.spec.name)
    assert title.get_attribute("href") == f"/jobs/{line.job_id}"


def test_machines_racks_and_links_tell_how_they_are(show: Show) -> None:
    reader = show("1000")
    name, (state, reason) = next((name, told) for name, told in reader.scene.states.items() if told[0] == "down")
    number = reader.scene.numbers[name]
    reader.point(f"middle(layout.box(0, {number}))")
    for word in (name, state, reason, "8 of 8 idle"):
        assert word in reader.card()
    rack = reader.see(f"tree.parent[0][{number}]")
    reader.point(f"({{ x: middle(layout.box(1, {rack})).x, y: view.py(layout.y[1][{rack}]) - 5 }})")
    load = reader.scene.loads(None)[f"rack rack{rack}"]
    assert f"Uplink of rack{rack}" in reader.card()
    assert f"{round(100 * load)} % busy" in reader.card()
    reader.point(f"({{ x: view.px(layout.x[1][{rack}]) + 40, y: view.py(layout.y[1][{rack}]) + 4 }})")
    assert "of 320 free" in reader.card()


@pytest.mark.parametrize("mode", ["job", "slowdown", "tier", "user", "model"])
def test_colours_say_what_the_legend_says(show: Show, mode: str) -> None:
    reader = show("16")
    reader.colour_by(mode)
    drawn = reader.see(
        "occupancy.jobs.map((job) => [job.id, map.colouring.fill[job.slot], hex('base', gpu(...seatsOf(job)[0]))])"
    )
    hatched = {
        line.job_id
        for line in reader.scene.now.jobs
        if any(reader.scene.states[name][0] != "up" for name in line.placement)
    }
    assert all(fill == pixel for job_id, fill, pixel in drawn if job_id not in hatched)
    kinds = {"job": "job_id", "slowdown": None, "tier": "tier", "user": "user", "model": "model"}[mode]
    if kinds:
        named = {line.job_id: kind_of(line, kinds) for line in reader.scene.now.jobs}
        pairs = {(named[job_id], fill) for job_id, fill, _ in drawn}
        assert len(pairs) == len(set(named.values()))  # the same name, the same colour
        if mode != "job":
            assert len({fill for _, fill in pairs}) == len(pairs)  # another name, another one
    legend = reader.page.locator(".map-legend").inner_text()
    assert "idle" in legend
    assert "draining" in legend
    if kinds in ("user", "model"):
        assert all(kind_of(line, kinds) in legend for line in reader.scene.now.jobs)
    reader.colour_by("job")


def test_neighbours_can_be_told_apart_also_without_red_and_green(show: Show) -> None:
    reader = show("1000")
    closest = reader.see(
        """Math.min(...[...Array(tree.machines).keys()].flatMap((machine) => {
          const { palette } = map.theme, { given } = map.colouring.assigner;
          const here = occupancy.jobsOn(machine, machine + 1).map(({ job }) => given.get(job.id));
          return here.flatMap((one, at) => here.slice(at + 1).map((two) => palette.distance[one][two]));
        }))"""
    )
    assert closest > 0.1
    given = reader.see(
        """(() => {
          const one = new map.colouring.assigner.constructor(map.theme.palette);
          const names = map.theme.palette.colours.map((_, at) => `job-${at}`);
          return names.map((name) => one.of(name, () => [], () => names));
        })()"""
    )
    assert sorted(given) == list(range(len(given)))  # as long as there are enough, each its own


def test_one_walks_by_keyboard_and_hears_where_one_is(show: Show) -> None:
    reader = show("1000")
    said = reader.page.locator(".map-said")
    reader.page.locator(".map-top").focus()
    reader.see("standAt({ kind: 'domain', tier: 0, domain: 0 })")
    assert said.inner_text().startswith("machine rack0m0:")
    reader.page.keyboard.press("ArrowRight")
    assert said.inner_text().startswith("machine rack0m1:")
    reader.page.keyboard.press("ArrowLeft")
    reader.page.keyboard.press("Enter")
    reader.still()
    assert reader.see("[view.level, map.walk.place.kind]") == ["gpu", "gpu"]
    reader.page.keyboard.press("ArrowRight")
    line = next(line for line in reader.scene.now.jobs if "rack0m0" in line.placement)
    assert reader.see("map.marked()[0].id") == line.job_id or "idle" in said.inner_text()
    reader.page.keyboard.press("Space")
    assert "Unpin" in reader.card()
    for said_first in (None, "machine rack0m0", "rack rack0"):
        reader.page.keyboard.press("Escape")
        reader.still()
        assert said_first is None or said.inner_text().startswith(said_first)
    reader.page.keyboard.press("+")
    reader.still()
    assert reader.see("view.unit > view.whole")


def test_enter_on_a_gpu_opens_the_job(show: Show) -> None:
    reader = show("16")
    reader.page.route("**/jobs/*", lambda route: route.fulfill(body="its page", content_type="text/html"))
    reader.page.locator(".map-top").focus()
    reader.see("standAt({ kind: 'gpu', tier: 0, domain: seatsOf(occupancy.jobs[0])[0][0], number: 0 })")
    job_id = reader.see("map.marked()[0].id")
    reader.page.keyboard.press("Enter")
    reader.page.wait_for_url(f"**/jobs/{job_id}")
    reader.live("/")
    reader.page.locator(".map[data-ready]").wait_for()


def test_a_turn_changes_what_it_names_and_nothing_else(show: Show) -> None:
    reader = show("1000")
    old = reader.scene.now.jobs[40]
    before = reader.see("ids()")
    reader.scene.swap(old.job_id, "new-one")
    reader.until(lambda: reader.see("occupancy.job('new-one')?.gpus") == old.spec.gpus)
    after = reader.see("ids()")
    assert after == ["new-one" if job_id == old.job_id else job_id for job_id in before]
    assert reader.see("occupancy.job(given.id) === undefined", id=old.job_id)
    assert reader.see("map.flashes.has('new-one')")
    first_ms = reader.see("map.lastUpdateMs")
    reader.scene.swap("new-one", "newer-one")  # while the other one still flashes
    reader.until(lambda: reader.see("occupancy.job('newer-one')?.gpus") == old.spec.gpus)
    job = "occupancy.job('newer-one')"
    assert reader.see(f"hex('base', block(...seatsOf({job})[0]))") == reader.see(f"map.colouring.fill[{job}.slot]")
    assert min(first_ms, reader.see("map.lastUpdateMs")) < UPDATE_MS


def test_whole_states_of_a_replay_are_shown_as_they_come(show: Show) -> None:
    reader = show("1000")
    took = reader.see(
        """(async () => {
          const state = await (await fetch("/map/state.json")).json();
          const found = [];
          for (let moment = 0; moment < 4; moment += 1) {
            const machines = state.machines.map((entry, at) => (at % 2 === moment % 2 ? [0, []] : entry));
            document.body.dispatchEvent(new CustomEvent("dally:state", { detail: { ...state, machines } }));
            found.push(map.lastUpdateMs);
          }
          found.push([...Array(8).keys()].map((machine) => occupancy.tally(machine, machine + 1).free));
          document.body.dispatchEvent(new CustomEvent("dally:state", { detail: state }));
          map.feed.moment = null;
          return found;
        })()"""
    )
    assert min(took[:4]) < UPDATE_MS  # the others may have waited for a busy machine
    assert [free == 8 for free in took[4]][1::2] == [True] * 4
    assert reader.see("occupancy.tally(1, 2).free") < 8


def test_search_finds_jobs_users_and_machines(show: Show) -> None:
    reader = show("1000")
    line = next(line for line in reader.scene.now.jobs if line.spec.gpus == 64)
    assert f"job {line.job_id}" in reader.find(line.job_id)
    assert line.spec.name in reader.card()
    assert reader.see("view.unit > view.whole")
    theirs = [line for line in reader.scene.now.jobs if line.spec.user == "alice"]
    assert f"{len(theirs)} jobs on {sum(line.spec.gpus for line in theirs)} GPUs" in reader.find("alice")
    assert reader.see("map.marked().length") == len(theirs)
    assert "machine rack7m3" in reader.find("rack7m3")
    assert "rack7m3" in reader.card()
    assert reader.see("view.level") == "gpu"
    assert "no job" in reader.find("nobody-at-all")
    reader.live("/?find=nobody-at-all")
    reader.page.get_by_text("Job nobody-at-all is not on the map").wait_for()


def test_the_machines_are_a_table_too(show: Show) -> None:
    reader = show("16")
    rows = reader.page.locator(".map-machines tbody tr")
    assert rows.count() == 0
    reader.page.get_by_text("Machines as a table").click()
    reader.until(lambda: rows.count() == 16)
    line = reader.scene.now.jobs[0]
    row = rows.nth(reader.scene.numbers[next(iter(line.placement))])
    assert line.job_id in row.inner_text()
    assert reader.grave() == []
    reader.page.get_by_text("Machines as a table").click()
    reader.scene.swap(line.job_id, "while-it-was-closed")
    reader.until(lambda: reader.see("occupancy.job('while-it-was-closed')?.gpus") == line.spec.gpus)
    reader.page.get_by_text("Machines as a table").click()
    reader.until(lambda: "while-it-was-closed" in row.inner_text())
    reader.page.get_by_text("Machines as a table").click()


def test_a_legend_tells_of_the_jobs_it_stands_for_by_now(show: Show) -> None:
    reader = show("16")
    found = reader.see(
        """(() => {
          const told = (holds) => ({ mode: "user", legend: () => [{ label: "and 3 more", colour: null, holds }] });
          map.legend.show(told(() => false), map.theme);
          map.legend.show(told(() => true), map.theme);
          map.legend.list.querySelector("button").click();
          const all = map.marked().length;
          map.legend.list.querySelector("button").onpointerenter();
          map.retheme();  // a legend made anew beneath the pointer
          return [all, map.shown];
        })()"""
    )
    assert found == [len(reader.scene.now.jobs), None]
    reader.colour_by("model")
    last = "const { label } = map.colouring.legend().at(-1);"
    nameless = f"const job = occupancy.jobs.find(Boolean), was = job.model; job.model = ''; {last} job.model = was;"
    assert reader.see(f"(() => {{ {nameless} return label; }})()") == "not known"
    reader.colour_by("job")


def test_what_could_not_be_fetched_is_asked_for_again(browser: Browser) -> None:
    scene = MadeUp(CLUSTERS["16"])
    server = made_up_server(scene)
    server.start()
    visitor = Visitor(browser, server.url)
    visitor.expected = ("503",)
    page, failed = visitor.page, 0

    def fail(route: Route) -> None:
        nonlocal failed
        failed += 1
        route.fulfill(status=503)

    page.route("**/map/state.json", fail, times=1)
    visitor.live("/")
    page.locator(".map[data-ready]").wait_for()
    # a daemon that starts anew counts its cycles anew, and has other machines in the same places
    page.evaluate("dally.map.choose({ place: { kind: 'domain', tier: 0, domain: 15 } })")
    scene.boot = "the next one"
    scene.now = scene._status(0, list(scene.now.jobs))
    page.route("**/map/state.json", fail)
    page.evaluate("dally.cycle = 7, document.body.dispatchEvent(new CustomEvent('dally:reset'))")
    page.wait_for_timeout(500)
    assert 2 <= failed < 5  # not one upon the other
    page.evaluate("dally.cycle = 0")
    page.unroute("**/map/state.json")
    visitor.until(lambda: page.evaluate("dally.map.tree.boot") == "the next one")
    assert page.evaluate("dally.map.pinned") is None
    scene.swap(scene.now.jobs[0].job_id, "newcomer")
    visitor.until(lambda: page.evaluate("Boolean(dally.map.occupancy.job('newcomer'))"))
    visitor.leave()
    server.stop()


def test_dark_and_on_a_phone(show: Show) -> None:
    light, phone = show("16").see("map.theme.kind"), show("16", 390, "dark")
    assert (light, phone.see("map.theme.kind")) == ("light", "dark")
    assert phone.fits()
    before = phone.see("map.theme.ground")
    phone.page.locator("#theme").click()
    assert phone.see("map.theme.ground") != before
    phone.page.locator("#theme").click()
    place = "{ kind: 'gpu', tier: 0, domain: seatsOf(occupancy.jobs[0])[0][0], number: 0 }"
    for reach in (
        lambda: phone.see(f"standAt({place})"),
        lambda: phone.click("gpu(...seatsOf(occupancy.jobs[0])[0])"),
    ):
        reach()
        box, stage = phone.page.locator(".map-card").bounding_box(), phone.page.viewport_size
        assert box is not None
        assert stage is not None
        assert box["y"] + box["height"] > stage["height"] - 20  # at the bottom
        assert box["height"] < stage["height"] / 2
    assert phone.grave() == []


def kind_of(line: JobStatus, kind: str) -> str:
    """What a job is coloured by: its own, or what it asked for."""
    return str(getattr(line.spec if kind in ("user", "model") else line, kind))
