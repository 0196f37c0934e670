"""Named networks. Nominal rates are data sheets'; the rest is fitted to measured NCCL runs, fabric by fabric.

The fit is `python -m benchmarks.network --fit` on nccl-tests results published by NVIDIA (deepops, nccl-tests
issues 178, 290 and 309), AWS, Oracle, Microsoft (superbenchmark), ABCI, CoreWeave, AMD and others; the
benchmark prints each fabric with its error. No run there crosses a loaded rack uplink: `uplink_*` stay nominal.
Fabrics that run NCCL's own tuner choose algorithms as it does; plugins for EFA and TCPXO have tuners of their own.
The benchmark's four run the fastest algorithm, so that published runs stay as they are.
Those named `as-published` are the constants of the simulator of arXiv 2401.16492 (docs/as-published.md).
`SOURCES` says where the figures of each come from: nominal rates first, then the runs that the rest is fitted to.
"""

from __future__ import annotations

from dally.cluster.links import AS_NCCL, FASTEST, Links
from dally.errors import unknown

_OURS = "the benchmark's: nominal rates set by us, the rest as a100-nvswitch-8x200g"

SOURCES: dict[str, str] = {
    "v100-nvlink-100g": "NVIDIA V100 data sheet; nccl-tests by NVIDIA (deepops, RoCE on DGX-1), Oracle",
    "v100-nvlink-100g-efa": "NVIDIA V100 data sheet; nccl-tests by AWS (EFA)",
    "v100-nvswitch-8x100g": "NVIDIA V100 data sheet; nccl-tests by NVIDIA (deepops, DGX-2)",
    "a100-nvswitch-8x200g": "NVIDIA A100 data sheet; nccl-tests by NVIDIA (deepops), Microsoft, Oracle",
    "a100-nvswitch-4x100g-efa": "NVIDIA A100 data sheet; nccl-tests by AWS (EFA)",
    "a100-nvswitch-4x200g-sharp": "NVIDIA A100 data sheet; nccl-tests by ABCI (SHARP)",
    "a100-nvswitch-8x200g-sharp": "NVIDIA A100 data sheet; nccl-tests by CoreWeave (SHARP)",
    "h100-nvswitch-8x400g": "NVIDIA H100 data sheet; nccl-tests issues 290 and 309, Nebius (InfiniBand NDR)",
    "h100-nvswitch-8x400g-sharp": "NVIDIA H100 data sheet; nccl-tests by CoreWeave (SHARP)",
    "h100-nvswitch-32x100g-efa": "NVIDIA H100 data sheet; nccl-tests by AWS (EFA)",
    "h100-nvswitch-32x100g-efa-no-nvls": "NVIDIA H100 data sheet; nccl-tests by AWS (EFA, NCCL 2.18.5)",
    "h100-nvswitch-8x200g-tcpxo": "NVIDIA H100 data sheet; nccl-tests on a3-mega (TCPXO)",
    "h200-nvswitch-8x400g": "NVIDIA H200 data sheet; the rest as h100-nvswitch-8x400g: no run was found",
    "mi300x-mesh": "AMD MI300X data sheet; rccl-tests in one machine: no run across machines was found",
    "rtx6000d-pcie-8x400g": "PCIe 5.0 x16; nccl-tests on two machines with ConnectX-8",
    "pcie-25g": "PCIe 4.0 x16; nccl-tests issue 178, koordinator (25 Gb RoCE)",
    "ethernet-10g": "AdaDUAL (arXiv 2002.10105), alone and beside another transfer; the rest as pcie-25g",
    "dgx-h100-superpod": "NVIDIA DGX SuperPOD reference architecture, H100: units of 32 machines, 8 rails, 1:1; "
    "the rest as h100-nvswitch-8x400g",
    "h100-rails-4to1": "as dgx-h100-superpod, and 4:1 above each pod of units, set by us",
    "gb200-nvl72": "NVIDIA GB200 NVL72 data sheet: 18 trays of 4 GPUs in a rack, 900 GB/s of NVLink each way, one "
    "400-Gb NIC a GPU; the rest as h100-nvswitch-8x400g: no run across racks was found",
    "tpu-v4": "Google Cloud TPU v4 documentation: slices of 2x2x1 up to blocks of 4x4x4, which optical switches "
    "join to a pod of 64; 1.1 PB/s of all-reduce a pod, so 45 GB/s a link; hosts' NICs as tpu-v5p's, set by us",
    "tpu-v5p": "Google Cloud TPU v5p documentation: as v4, with 1,200 GB/s both ways on a chip's six links and "
    "50 Gb/s of NIC a chip; the share of them that links attain as v4's",
    "ethernet-100g": "100-Gb RoCE, one port a machine, leaves of 4 uplinks, flows hashed over them, set by us; "
    "NICs as v100-nvlink-100g, machines as a100-nvswitch-8x200g",
    "fast": _OURS,
    "normal": _OURS,
    "slow": _OURS,
    "congested": f"{_OURS}; others take half of every link",
    "as-published": "the simulator of arXiv 2401.16492, latest revision",
    "as-published-older": "the same, an older revision: 50 ms between racks, 1 ms at a NIC",
    "as-published-oldest": "the same, the revision before that: 5 ms between machines of a rack",
}


# Machines. What NCCL of their day chose from: old stacks ran rings only.
# V100 SXM2: 6 NVLink2 of 25 GB/s (NVIDIA V100 data sheet), hybrid cube mesh.
_V100 = Links(
    fabric="nvlink-mesh", fabric_gbps=150.0, fabric_efficiency=0.929, fabric_latency_s=2.11e-6,
    fabric_root_s=1.09e-8, nic_count=1, nic_gbps=12.5, algorithms="ring",
)  # fmt: skip
# A100: 12 NVLink3 of 25 GB/s (NVIDIA A100 data sheet).
_A100 = Links(
    fabric_gbps=300.0, fabric_efficiency=0.8, fabric_latency_s=2.11e-6, fabric_root_s=1.09e-8,
    nic_count=8, nic_gbps=25.0, algorithms="ring tree",
)  # fmt: skip
# H100: 18 NVLink4 of 25 GB/s, reduction in the switch (NVIDIA H100 data sheet).
_H100 = Links(
    fabric_gbps=450.0, fabric_efficiency=0.801, nvls_efficiency=0.63, fabric_latency_s=2.11e-6,
    fabric_root_s=1.09e-8, nic_count=8, nic_gbps=50.0, algorithms="ring tree nvls",
)  # fmt: skip

_V100_100G = _V100._replace(
    name="v100-nvlink-100g", nic_efficiency=0.927, nic_latency_s=9.7e-6, root_s=4.08e-8
)  # RoCE, DGX-1
_A100_8X200G = _A100._replace(
    name="a100-nvswitch-8x200g",
    chooses=AS_NCCL,
    nic_efficiency=1.0,
    tree_efficiency=0.869,
    nic_latency_s=5.22e-6,
    root_s=2.52e-8,
)  # InfiniBand HDR and RoCE, DGX A100 and the like
_H100_8X400G = _H100._replace(
    name="h100-nvswitch-8x400g", chooses=AS_NCCL, nic_efficiency=0.975, nic_latency_s=9.55e-6, root_s=2.11e-8
)  # InfiniBand NDR
# PCIe 4.0 x16: 31.5 GB/s; a 25 Gb RoCE port per machine.
_PCIE_25G = Links(
    "pcie-25g", fabric="pcie", fabric_gbps=31.5, fabric_efficiency=0.636, fabric_latency_s=2.11e-6,
    fabric_root_s=1.09e-8, nic_count=1, nic_gbps=3.125, nic_efficiency=0.905, tree_efficiency=0.95,
    nic_latency_s=7.43e-6, root_s=2.98e-8, algorithms="ring tree",
)  # fmt: skip
# A unit of 32 machines has 8 leaves, one a rail, of 32 uplinks each; InfiniBand routes adaptively.
_SUPERPOD = _H100_8X400G._replace(name="dgx-h100-superpod", rails=8, uplinks=256)
# The benchmark's four: rates as benchmark.md states them, the rest as measured on A100 machines.
_NORMAL = _A100_8X200G._replace(
    name="normal", chooses=FASTEST, nic_count=4, nic_gbps=12.5, oversubscription=2.0,
    algorithms="ring hierarchical tree",
)  # fmt: skip
_SLOW = _NORMAL._replace(name="slow", nic_count=1, oversubscription=4.0)
# The paper's simulator: ideal links, each GPU its own. A machine of 8 has 8 times 200 GB/s to its rack, and
# a rack of 64 has 64 times 400 GB/s (10 in older revisions) to the others.
_AS_PUBLISHED = Links(
    "as-published", fabric="nvlink-mesh", fabric_gbps=600.0, fabric_latency_s=5e-7, nic_count=8, nic_gbps=200.0,
    nic_latency_s=5e-6, uplink_gbps=25600.0, uplink_latency_s=5e-5, ideal=True,
)  # fmt: skip

# Hosts of four chips; smaller slices are meshes inside a block, which wraps around. 1 µs a hop is set by us.
_TPU_V4 = Links(
    "tpu-v4", fabric="nvlink-mesh", fabric_gbps=45.0, fabric_latency_s=1e-6, nic_count=4, nic_gbps=6.25,
    nic_latency_s=1e-5, algorithms="ring", torus="2x2x1 2x2x2 2x2x4 2x4x4 4x4x4 joined", torus_gbps=45.0,
)  # fmt: skip

_ALL = (
    _V100_100G,
    _V100._replace(name="v100-nvlink-100g-efa", nic_efficiency=0.607, nic_latency_s=8.43e-6, root_s=3.65e-8),
    # DGX-2: six NVLink2 through switches.
    Links(
        "v100-nvswitch-8x100g", chooses=AS_NCCL, fabric_gbps=150.0, fabric_efficiency=0.855,
        fabric_latency_s=2.32e-6, fabric_root_s=1.06e-8, nic_count=8, nic_gbps=12.5, nic_efficiency=0.946,
        tree_efficiency=0.639, nic_latency_s=3.01e-5, root_s=3.48e-8, algorithms="ring tree",
    ),
    _A100_8X200G,
    _A100._replace(
        name="a100-nvswitch-4x100g-efa", nic_count=4, nic_gbps=12.5, nic_latency_s=1.23e-5, root_s=1.46e-7
    ),
    # Reduction in the network's switches (SHARP), as the tree that comes nearest to it.
    _A100._replace(
        name="a100-nvswitch-4x200g-sharp", nic_count=4, nic_efficiency=0.717, tree_efficiency=0.846,
        nic_latency_s=8.57e-6, root_s=4.4e-8, algorithms="tree",
    ),
    _A100._replace(
        name="a100-nvswitch-8x200g-sharp", nic_efficiency=0.901, tree_efficiency=0.95, nic_latency_s=7.43e-6,
        root_s=2.98e-8, algorithms="tree",
    ),
    _H100_8X400G,
    _H100._replace(
        name="h100-nvswitch-8x400g-sharp", nic_efficiency=0.924, tree_efficiency=0.975, nic_latency_s=7.43e-6,
        root_s=2.98e-8, algorithms="tree",
    ),
    _H100._replace(
        name="h100-nvswitch-32x100g-efa", nic_count=32, nic_gbps=12.5, nic_efficiency=0.891,
        tree_efficiency=0.94, nic_latency_s=1.92e-5, root_s=3.35e-8,
    ),
    _H100._replace(
        name="h100-nvswitch-32x100g-efa-no-nvls", nvls_efficiency=0.0, nic_count=32, nic_gbps=12.5,
        nic_efficiency=0.902, tree_efficiency=0.95, nic_latency_s=7.43e-6, root_s=2.98e-8,
        algorithms="ring tree",
    ),
    _H100._replace(
        name="h100-nvswitch-8x200g-tcpxo", nic_gbps=25.0, nic_latency_s=1.42e-5, root_s=1.05e-7
    ),
    # H200: NVLink4 and NDR as the H100 has them (NVIDIA H200 data sheet); no run of its own was found.
    _H100_8X400G._replace(name="h200-nvswitch-8x400g"),
    # Seven Infinity Fabric links of 64 GB/s (AMD MI300X data sheet); no run across machines was found.
    Links(
        "mi300x-mesh", fabric="nvlink-mesh", fabric_gbps=448.0, fabric_efficiency=0.74,
        fabric_latency_s=1.35e-6, fabric_root_s=9.33e-9, nic_count=8, nic_gbps=50.0, nic_efficiency=0.901,
        tree_efficiency=0.95, nic_latency_s=7.43e-6, root_s=2.98e-8, algorithms="ring",
    ),
    # PCIe 5.0 x16 behind ConnectX-8.
    Links(
        "rtx6000d-pcie-8x400g", chooses=AS_NCCL, fabric="pcie", fabric_gbps=64.0, fabric_efficiency=0.801,
        fabric_latency_s=2.11e-6, fabric_root_s=1.09e-8, nic_count=8, nic_gbps=50.0, nic_efficiency=0.582,
        tree_efficiency=0.939, nic_latency_s=1.05e-5, root_s=3.69e-8, algorithms="ring tree",
    ),
    _PCIE_25G,
    # AdaDUAL's network: 8.53e-10 s per byte alone, 2.56e-10 lost for each byte beside another transfer (arXiv
    # 2002.10105). The rest is pcie-25g's.
    _PCIE_25G._replace(name="ethernet-10g", nic_gbps=1.25, nic_efficiency=0.938, sharing_penalty=0.3),
    _SUPERPOD,
    _SUPERPOD._replace(name="h100-rails-4to1", upper_oversubscription=4.0),
    # Trays of 4 GPUs; NVLink5 joins those of a rack. ConnectX-7 takes what leaves it.
    _H100_8X400G._replace(name="gb200-nvl72", fabric_gbps=900.0, domain_fabric_gbps=900.0, nic_count=4),
    _TPU_V4,
    _TPU_V4._replace(name="tpu-v5p", fabric_gbps=90.0, torus_gbps=90.0),
    _A100_8X200G._replace(
        name="ethernet-100g", nic_count=1, nic_gbps=12.5, nic_efficiency=0.927, nic_latency_s=9.7e-6,
        root_s=4.08e-8, oversubscription=2.0, uplinks=4, routing="hash",
    ),
    _NORMAL._replace(name="fast", nic_count=8, nic_gbps=25.0, oversubscription=1.0),
    _NORMAL,
    _SLOW,
    _SLOW._replace(name="congested", background=0.5),
    _AS_PUBLISHED,
    _AS_PUBLISHED._replace(
        name="as-published-older", nic_gbps=100.0, nic_latency_s=1.0005e-3, uplink_gbps=640.0, uplink_latency_s=5e-2
    ),
    _AS_PUBLISHED._replace(
        name="as-published-oldest", nic_gbps=25.0, nic_latency_s=5e-3, uplink_gbps=640.0, uplink_latency_s=5e-2
    ),
)  # fmt: skip
PRESETS: dict[str, Links] = {links.name: links for links in _ALL}


NO_NETWORK = "none"  # all places are equally fast, whatever the cluster file states of links


def check_network(name: str) -> None:
    """InputError if that is neither a preset nor `none`."""
    if name != NO_NETWORK:
        find_preset(name)


def find_preset(name: str) -> Links:
    """The preset of that name, or an InputError that suggests the nearest: by GPU type if that is all it says."""
    if name not in PRESETS:
        alike = [known for known in PRESETS if known.startswith(f"{name.lower()}-")]
        raise unknown("network", name, alike or [*PRESETS, NO_NETWORK])
    return PRESETS[name]
