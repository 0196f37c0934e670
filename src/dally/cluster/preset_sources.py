"""Where the figures of each preset come from: nominal rates first, then the runs that the rest is fitted to."""

from __future__ import annotations

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
    "fast": _OURS,
    "normal": _OURS,
    "slow": _OURS,
    "congested": f"{_OURS}; others take half of every link",
}
