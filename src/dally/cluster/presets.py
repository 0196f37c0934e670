"""Named networks: nominal rates from data sheets, efficiencies and latencies from measured NCCL runs."""

from __future__ import annotations

from dally.cluster.links import Links, override
from dally.errors import InputError

_V100 = Links(fabric="nvlink-mesh", fabric_gbps=150.0, algorithms="ring")
_A100 = Links(fabric="nvswitch", fabric_gbps=300.0, algorithms="ring tree")
_H100 = Links(fabric="nvswitch", fabric_gbps=450.0, nvls_efficiency=0.6, algorithms="ring tree nvls")
_ALL = [
    _V100._replace(name="v100-nvlink-100g", nic_count=1, nic_gbps=12.5),
    _V100._replace(name="v100-nvlink-100g-efa", nic_count=1, nic_gbps=12.5),
    Links("v100-nvswitch-8x100g", fabric_gbps=150.0, nic_count=8, nic_gbps=12.5, algorithms="ring tree"),
    _A100._replace(name="a100-nvswitch-8x200g", nic_count=8, nic_gbps=25.0),
    _A100._replace(name="a100-nvswitch-4x100g-efa", nic_count=4, nic_gbps=12.5),
    _A100._replace(name="a100-nvswitch-4x200g-sharp", nic_count=4, nic_gbps=25.0, algorithms="tree"),
    _A100._replace(name="a100-nvswitch-8x200g-sharp", nic_count=8, nic_gbps=25.0, algorithms="tree"),
    _H100._replace(name="h100-nvswitch-8x400g", nic_count=8, nic_gbps=50.0),
    _H100._replace(name="h100-nvswitch-8x400g-sharp", nic_count=8, nic_gbps=50.0, algorithms="tree"),
    _H100._replace(name="h100-nvswitch-32x100g-efa", nic_count=32, nic_gbps=12.5),
    _H100._replace(name="h100-nvswitch-32x100g-efa-no-nvls", nvls_efficiency=0.0, nic_count=32, nic_gbps=12.5, algorithms="ring tree"),
    _H100._replace(name="h100-nvswitch-8x200g-tcpxo", nic_count=8, nic_gbps=25.0),
    Links("mi300x-mesh", fabric="nvlink-mesh", fabric_gbps=448.0, algorithms="ring"),
    Links("rtx6000d-pcie-8x400g", fabric="pcie", fabric_gbps=64.0, nic_count=8, nic_gbps=50.0, algorithms="ring tree"),
    Links("pcie-25g", fabric="pcie", fabric_gbps=31.5, nic_count=1, nic_gbps=3.125, algorithms="ring tree"),
]
PRESETS: dict[str, Links] = {links.name: links for links in _ALL}
