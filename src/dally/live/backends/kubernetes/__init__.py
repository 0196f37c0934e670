"""Kubernetes, through its API."""

from dally.live.backends.kubernetes.kubernetes_backend import KubernetesBackend
from dally.live.backends.kubernetes.options import KubeOptions, read_options

__all__ = ["KubeOptions", "KubernetesBackend", "read_options"]
