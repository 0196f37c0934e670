"""Feeds every topology reader with damaged files: each must give a topology or an InputError, and soon.

python -m benchmarks.fuzz_topologies --seconds 60 [--reader slurm]
"""

from __future__ import annotations

import argparse
from contextlib import suppress
from pathlib import Path
from time import process_time

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from dally.cluster.formats.from_machines import ImportOptions
from dally.cluster.formats.known import FORMATS, detect
from dally.cluster.formats.node_gpus import GpuCounts, attach, read_config, read_scontrol
from dally.cluster.formats.slurm_conf import read_slurm
from dally.cluster.formats.switch_tree import Hung
from dally.cluster.formats.toml_file import parse_toml
from dally.cluster.formats.writers import to_slurm, to_toml
from dally.cluster.outline import draw
from dally.cluster.topology import Topology
from dally.errors import InputError
from dally.input_file import decode

MOST_CPU_S = 20.0  # for one file: a million nodes take a while
PATH = Path("fuzzed")
HUNG: Hung = [(("s1",), "n1"), (("s1",), "n2"), (("s2",), "n3")]

SEEDS: dict[str, list[str]] = {
    "toml": [
        '[[tiers]]\nname = "machine"\ncapacity_gbps = 25.0\n[[tiers]]\nname = "rack"\n[[tiers]]\nname = "network"\n'
        '[[machines]]\npath = "a"\nnames = ["n[1-2]", "m"]\ngpus = 8\n[[domains]]\npath = "a"\nlatency_s = 1e-6\n',
    ],
    "slurm": [
        "# tree\nSwitchName=core Switches=leaf[1-2]\nSwitchName=leaf1 Nodes=n[1-4] LinkSpeed=1\n"
        "SwitchName=leaf2 \\\n Nodes=n[5-7],m\n#GPUs NodeName=n[1-7],m Gres=gpu:8\n",
        "BlockName=b1 Nodes=n[1-4]\nBlockName=b2 Nodes=n[5-8]\nBlockName=b3 Nodes=n[9-12]\nBlockSizes=4,8\n",
    ],
    "slurm-yaml": [
        "---\n- topology: t1\n  cluster_default: true\n  tree:\n    switches:\n    - switch: s0\n"
        "      children: s[1-2]\n    - switch: s1\n      nodes: n[1-2]\n    - switch: s2\n      nodes: n[3-4]\n",
        "- topology: t2\n  block:\n    block_sizes: [2, 4]\n    blocks:\n    - {block: b1, nodes: 'n[1-2]'}\n"
        "    - {block: b2, nodes: &a 'n[3-4]'}\n- topology: t3\n  flat: true\n",
    ],
    "topograph": [
        '{"instances": [{"id": "a", "network_layers": ["l1", "s1"], "attributes": {"nvlink": "v1"}},\n'
        ' {"id": "b", "network_layers": ["l1", "s1"], "attributes": {"nvlink": "v2"}}, {"id": "c"}]}',
        '{"switches": {"S1": {"switches": ["S2", "S3"]},\n "S2": {"nodes": [{"node_id": "a", '
        '"accelerated_network_id": "x"}]},\n "S3": {"nodes": ["n[1-3]"]}}}',
    ],
    "kubernetes": [
        '{"kind": "List", "items": [\n{"metadata": {"name": "a", "labels": {'
        '"cloud.provider.com/topology-block": "b", "cloud.provider.com/topology-rack": "r"}},\n'
        ' "spec": {"unschedulable": false}, "status": {"allocatable": '
        '{"nvidia.com/gpu": "8"},\n "conditions": [{"type": "Ready", "status": "True"}]}},\n'
        '{"metadata": {"name": "c"}, "status": {"capacity": {"amd.com/gpu": 4}}}]}',
    ],
    "lingjun": ["host,ASW,PSW,DSW\nh0,S1,P1,G\nh1,S1,P2,G\nh2,S2,P1,G\n"],
    "openb": ["sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,P100\nn1,96000,393216,8,G2\nn2,1,1,0,\n"],
    "scontrol": [
        "NodeName=n1 Arch=x86_64 CoresPerSocket=32\n   OS=Linux 5.4 #1 SMP\n   Gres=gpu:a100:8(S:0-1)\n"
        "   State=IDLE\n   CfgTRES=cpu=128,mem=1T,gres/gpu=8\n\n"
        "NodeName=n2 Gres=(null) State=DOWN*+DRAIN CfgTRES=cpu=1,gres/gpu=8\n",
    ],
    "gres": [
        "AutoDetect=off\nNodeName=n[1-3] Name=gpu Type=a100 File=/dev/nvidia[0-7]\nName=gpu Count=4 # all\n"
        "NodeName=n4 Gres=gpu:h100:8(S:0,1),nic:2\nNodeName=DEFAULT Gres=gpu\nNodeName=n5\n",
    ],
}  # fmt: skip
TOKENS = [
    "[", "]", "{", "}", ",", "=", ":", "\\", "#", '"', "'", "\n", "\r\n", "- ", " ", "/", "\t", "&a", "*a", "!!x",
    "n[0-999999999]", "n[0-9]x[0-9]", "n[1-", "[3-1]", "[[[[", "Nodes=", "SwitchName=core", "Switches=core",
    "\ufeff", "\u2028", "é", "\U0001f600", "\\ud800", "null", "leaf1", "-1", "1e999", "9" * 50, "0", "gpu", "(S:0",
    "[" * 3000, "- " * 500, '{"a":' * 3000, "x" * 5000, '"items"', '"instances"', "machine", "network", "NaN",
]  # fmt: skip


@st.composite
def damaged(draw_from: st.DrawFn, reader: str) -> bytes:
    """A good file with pieces cut out, put in, repeated or exchanged."""
    text = draw_from(st.sampled_from(SEEDS[reader]))
    tokens = st.one_of(st.sampled_from(TOKENS), st.text(max_size=5))
    for _ in range(draw_from(st.integers(0, 4))):
        start = draw_from(st.integers(0, len(text)))
        end = min(len(text), start + draw_from(st.integers(0, 12)))
        kind = draw_from(st.sampled_from(["cut", "put", "repeat", "end", "swap"]))
        if kind == "cut":
            text = text[:start] + text[end:]
        elif kind == "put":
            text = text[:start] + draw_from(tokens) + text[start:]
        elif kind == "repeat":
            text = text[:end] + text[start:]
        elif kind == "end":
            text = text[:start]
        else:
            text = text[:start] + draw_from(tokens) + text[end:]
    content = text.encode()
    if draw_from(st.integers(0, 9)) == 0:
        place = draw_from(st.integers(0, len(content)))
        content = content[:place] + draw_from(st.binary(max_size=3)) + content[place + 1 :]
    return content


def check(reader: str, content: bytes) -> bool:
    """Whether the reader makes a topology of it; any error but InputError goes through to the caller."""
    started = process_time()
    try:
        topology = _read(reader, decode(PATH, content))
    except InputError:
        return False
    draw(topology)
    again = parse_toml(PATH, to_toml(topology))
    assert _shape(again) == _shape(topology), "TOML reads back as another topology"
    assert again.tiers == topology.tiers
    again = read_slurm(PATH, to_slurm(topology), ImportOptions()).topology
    assert _shape(again) == _shape(topology), "topology.conf reads back as another topology"
    assert process_time() - started < MOST_CPU_S
    return True


def _read(reader: str, text: str) -> Topology:
    if reader in ("scontrol", "gres"):
        counts: GpuCounts = (read_scontrol if reader == "scontrol" else read_config)(PATH, text)
        return attach(PATH, HUNG, counts, ImportOptions()).topology
    with suppress(InputError):
        detect(PATH, text)
    flat = reader in ("slurm", "slurm-yaml", "topograph") and "#GPUs" not in text
    return FORMATS[reader](PATH, text, ImportOptions(gpus_per_node=8 if flat else None)).topology


def _shape(topology: Topology) -> tuple[list[list[int]], list[int]]:
    return [[int(parent) for parent in parents] for parents in topology.parents], [int(n) for n in topology.gpus[0]]


def fuzz(reader: str, first_seed: int, examples: int) -> tuple[int, int]:
    """(files tried, files that gave a topology)."""
    tried = good = 0

    @seed(first_seed)
    @settings(
        max_examples=examples, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(damaged(reader))
    def run(content: bytes) -> None:
        nonlocal tried, good
        tried += 1
        good += check(reader, content)

    run()
    return tried, good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="CPU time per reader")
    parser.add_argument("--reader", choices=list(SEEDS), help="only this one")
    parser.add_argument("--seed", type=int, default=1)
    given_options = parser.parse_args()
    for reader in [given_options.reader] if given_options.reader else SEEDS:
        end = process_time() + given_options.seconds
        tried = good = rounds = 0
        while process_time() < end:
            more, fine = fuzz(reader, given_options.seed * 1_000_000 + rounds, 200)
            tried, good, rounds = tried + more, good + fine, rounds + 1
        print(f"{reader}: {tried} files, {good} of them topologies, nothing found")


if __name__ == "__main__":
    main()
