"""A private Slurm cluster on this machine: its own munge key, ports, state and fake GPUs."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

DAEMONS = ("munged", "slurmctld", "slurmd", "slurmstepd")
PLACES = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
WITHIN_S = 90.0  # a daemon is ready, on a machine that is busy with other tests
CONTROLLER_ATTEMPTS = 5
SUFFIX = "-wlm"  # Debian's names of the programs behind its alternatives


def missing() -> list[str]:
    """What of Slurm is not installed here."""
    tools = (*DAEMONS[:3], "scontrol", "squeue", "sinfo", "sbatch", "scancel")
    return [name for name in tools if shutil.which(name, path=PLACES) is None]


def need_slurm() -> None:
    """End the benchmark where it is not."""
    if missing():
        raise SystemExit(f"Slurm is not installed ({', '.join(missing())}): see scripts/system-packages test")


def program(name: str) -> Path:
    """The program itself, not a link to it."""
    found = shutil.which(f"{name}{SUFFIX}", path=PLACES) or shutil.which(name, path=PLACES)
    assert found is not None, name
    return Path(found)


def free_ports(count: int) -> int:
    """The first of so many ports in a row on which nobody listens; connections going out come from above these."""
    for first in range(10000 + os.getpid() % 400 * 40, 32000 - count, count + 1):
        if all(_free(port) for port in range(first, first + count)):
            return first
    raise AssertionError("no free ports")


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class SlurmCluster:
    """`racks` × `machines` nodes of `gpus` each; `start` and `stop` it."""

    def __init__(self, folder: Path, racks: int, machines: int, gpus: int, settings: str) -> None:
        self.folder = folder
        self.nodes = [f"n{number + 1:02d}" for number in range(racks * machines)]
        self.machines = machines
        self.gpus = gpus
        self.conf = folder / "slurm.conf"
        self.completed = folder / "completed.txt"
        self._port = free_ports(len(self.nodes) + 3)  # two for who accounts
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        for name in ("bin", "state", "spool", "log", "munge", "dev"):
            (folder / name).mkdir(parents=True)
        (folder / "munge").chmod(0o755)
        self.write(settings)

    # Its files.

    def write(self, settings: str) -> None:
        """slurm.conf and its companions; argv[0] of the daemons must be their plain names."""
        for name in DAEMONS[1:]:
            if not (self.folder / "bin" / name).exists():
                (self.folder / "bin" / name).symlink_to(_stepd() if name == "slurmstepd" else program(name))
        (self.folder / "topology.conf").write_text("".join(self._switches()))
        (self.folder / "gres.conf").write_text(self.gres_lines())
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        self.conf.write_text(self._conf() + settings)

    def gres_lines(self) -> str:
        """gres.conf."""
        return f"NodeName={self._range()} Name=gpu File={self.devices()}\n"

    def node_lines(self) -> str:
        """Nodes and partitions in slurm.conf."""
        return (
            f"NodeName=DEFAULT CPUs=64 RealMemory=100000 Gres=gpu:{self.gpus} State=UNKNOWN\n"
            f"NodeName={self._range()} NodeAddr=127.0.0.1 Port={self.ports()}\n"
            f"PartitionName=gpu Nodes={self._range()} Default=YES MaxTime=INFINITE State=UP\n"
        )

    def accounting_lines(self) -> str:
        """How jobs are accounted for in slurm.conf."""
        return "AccountingStorageType=accounting_storage/none\n"

    def start_accounting(self) -> None:
        """What must run before slurmctld."""

    @property
    def controller_port(self) -> int:
        """Where slurmctld listens."""
        return self._port

    def port_above(self, number: int) -> int:
        """A port of this cluster that no node listens on: 1 or 2."""
        return self._port + len(self.nodes) + number

    def ports(self) -> str:
        """Of the nodes."""
        return f"[{self._port + 1}-{self._port + len(self.nodes)}]"

    def _range(self) -> str:
        return f"n[{self.nodes[0][1:]}-{self.nodes[-1][1:]}]"

    def _switches(self) -> Iterator[str]:
        racks = [self.nodes[at : at + self.machines] for at in range(0, len(self.nodes), self.machines)]
        for number, rack in enumerate(racks):
            yield f"SwitchName=rack{number} Nodes={','.join(rack)}\n"
        yield f"SwitchName=spine Switches=rack[0-{len(racks) - 1}]\n"

    def devices(self) -> str:
        """Character devices, which Slurm counts and names in CUDA_VISIBLE_DEVICES; root can make some."""
        try:
            for number in range(self.gpus):
                os.mknod(self.folder / "dev" / f"gpu{number}", 0o20666, os.makedev(1, 3))
        except PermissionError:
            return f"/dev/tty[0-{self.gpus - 1}]"
        return f"{self.folder}/dev/gpu[0-{self.gpus - 1}]"

    def _conf(self) -> str:
        user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
        home = self.folder
        return f"""
ClusterName=dally-test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={self._port}
SlurmUser={user}
SlurmdUser={user}
AuthInfo=socket={home}/munge/socket,cred_expire=5
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/spool/%n
SlurmctldPidFile={home}/slurmctld.pid
SlurmdPidFile={home}/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
TopologyPlugin=topology/tree
SchedulerParameters=batch_sched_delay=0,sched_min_interval=1000
PriorityType=priority/basic
JobCompType=jobcomp/filetxt
JobCompLoc={self.completed}
JobRequeue=1
MaxJobCount=20000
MinJobAge=30
ReturnToService=1
InactiveLimit=0
KillWait=3
SlurmdParameters=config_overrides
{self.accounting_lines()}{self.node_lines()}"""

    # Its daemons.

    def start(self) -> None:
        """All up and idle when this returns."""
        munge = self.folder / "munge"
        key = munge / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        files = [f"--{name}-file={munge}/{name}" for name in ("key", "pid", "log", "seed")]
        self.launch("munged", str(program("munged")), "--foreground", "--force", f"--socket={munge}/socket", *files)
        self.until(lambda: (munge / "socket").exists(), "munged")
        self.start_accounting()
        self.start_controller()
        for node in self.nodes:
            self.start_node(node)
        self.settle()

    def settle(self) -> None:
        """Wait until every node is idle and answers: after a restart of slurmctld that takes a moment."""
        lines = ("sinfo", "-h", "-N", "-r", "-t", "idle,reserved", "-o", "%N %T")
        empty = [f"{node} {state}" for node in self.nodes for state in ("idle", "reserved")]
        self.until(lambda: len({*self.run(*lines, ok=False).splitlines()}.intersection(empty)) == len(self.nodes))

    def start_controller(self) -> None:
        """slurmctld, which goes on with the state it saved; again if it ends, as while slurmdbd is still busy."""
        for _ in range(CONTROLLER_ATTEMPTS):
            self.launch("slurmctld", f"{self.folder}/bin/slurmctld", "-D", "-f", str(self.conf))
            self.until(lambda: self.has_ended("slurmctld") or self._answers(), "slurmctld")
            if not self.has_ended("slurmctld"):
                return
            time.sleep(1.0)
        raise AssertionError(f"slurmctld ends again and again: {self._log('slurmctld')}")

    def has_ended(self, name: str) -> bool:
        """Whether a process of this cluster is over."""
        return self._running[name].poll() is not None

    def _answers(self) -> bool:
        return "is UP" in self.run("scontrol", "ping", ok=False)

    def _log(self, name: str) -> str:
        return (self.folder / "log" / name).read_text(errors="replace")[-1000:]

    def start_node(self, node: str) -> None:
        """The slurmd of one node."""
        words = ("-D", "-f", str(self.conf), "-N", node, "-d", f"{self.folder}/bin/slurmstepd")
        self.launch(node, f"{self.folder}/bin/slurmd", *words)

    def process_id(self, name: str) -> int:
        """Of `slurmctld`, `munged` or the slurmd of a node."""
        return self._running[name].pid

    def stop_one(self, name: str, how: int = signal.SIGTERM) -> None:
        """`slurmctld`, `munged` or the slurmd of a node."""
        process = self._running.pop(name)
        process.send_signal(how)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def stop(self) -> None:
        """End its jobs and everything that was started, the youngest first."""
        if "slurmctld" in self._running:
            with suppress(AssertionError):  # one that was killed may list jobs for ever that it does not find
                self.cancel_all()
        for name in [name for name in self._running if name in self.nodes]:
            self._running[name].terminate()
        for name in reversed(list(self._running)):
            self.stop_one(name)
        self._kill_steps()

    def cancel_all(self) -> None:
        """Cancel every job and wait until their GPUs are free."""
        jobs = self.run("squeue", "-h", "-o", "%A", ok=False).split()
        if jobs:
            self.run("scancel", *jobs, ok=False)
            self.until(lambda: not self.run("squeue", "-h", ok=False).strip())

    def _kill_steps(self) -> None:
        """Step daemons that have lost their slurmd; they work in the spool folder of this cluster."""
        for entry in Path("/proc").iterdir():
            with suppress(OSError, ValueError):
                step = (entry / "comm").read_text().startswith("slurmstepd")
                if step and str((entry / "cwd").readlink()).startswith(f"{self.folder}/"):
                    os.kill(int(entry.name), signal.SIGKILL)

    def launch(self, name: str, *words: str) -> None:
        """A process of this cluster, with its log."""
        log = (self.folder / "log" / name).open("ab")
        self._running[name] = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            env={**os.environ, "SLURM_CONF": str(self.conf)},
        )  # fmt: skip
        log.close()

    def until(self, ready: object, name: str = "slurmctld") -> None:
        """Wait; the log of `name` says why that was in vain."""
        until_s = time.monotonic() + WITHIN_S + len(self.nodes)
        assert callable(ready)
        while not ready():
            if time.monotonic() > until_s:
                raise AssertionError(f"{name} is not ready: {self._log(name)}")
            time.sleep(0.05)

    # Its users.

    def run(self, *words: str, ok: bool = True, given: str | None = None) -> str:
        """A tool of Slurm's on this cluster."""
        done = subprocess.run(
            words, capture_output=True, text=True, input=given, check=False, timeout=60,
            env={**os.environ, "SLURM_CONF": str(self.conf)},
        )  # fmt: skip
        assert not ok or done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout


def _stepd() -> Path:
    found = [
        place for place in (Path(f"/usr/sbin/slurmstepd{SUFFIX}"), Path("/usr/sbin/slurmstepd")) if place.exists()
    ]
    return found[0]


@contextmanager
def slurm_cluster(
    racks: int = 4, machines: int = 4, gpus: int = 8, settings: str = "", kind: type[SlurmCluster] = SlurmCluster
) -> Iterator[SlurmCluster]:
    """A cluster for the length of a block, in a folder that other users of this machine can read."""
    with tempfile.TemporaryDirectory(prefix="dally-slurm-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        cluster = kind(Path(folder), racks, machines, gpus, settings)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()
