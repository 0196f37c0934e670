"""A private Slurm with slurmdbd and a MariaDB of its own."""

from __future__ import annotations

from tests.live.slurm_cluster import SlurmCluster, program


class AccountedSlurm(SlurmCluster):
    """Needs Debian's slurmdbd and mariadb-server, neither of them running as a service, and to be root."""

    def accounting_lines(self) -> str:
        """Where slurmdbd listens."""
        return (
            "AccountingStorageType=accounting_storage/slurmdbd\n"
            f"AccountingStorageHost=localhost\nAccountingStoragePort={self.port_above(2)}\n"
            f"AccountingStorageTRES=gres/gpu\nAccountingStoragePass={self.folder}/munge/socket\n"
        )

    def start_accounting(self) -> None:
        """A private MariaDB, and slurmdbd on it."""
        database = self.folder / "database"
        setting = ("--no-defaults", f"--datadir={database}", "--user=root")
        self.run(
            str(program("mariadb-install-db")),
            *setting,
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        )
        socket = self.folder / "mariadb.socket"
        self.launch(
            "mariadbd", str(program("mariadbd")), *setting, f"--socket={socket}", f"--port={self.port_above(1)}",
            "--bind-address=127.0.0.1", f"--pid-file={self.folder}/mariadbd.pid", "--innodb-buffer-pool-size=64M",
            "--innodb-flush-log-at-trx-commit=0", "--innodb-lock-wait-timeout=900",
        )  # fmt: skip
        ready = ("mariadb-admin", "--no-defaults", f"--socket={socket}", "--user=root", "ping")
        self.until(lambda: "alive" in self.run(*ready, ok=False), "mariadbd")
        grant = "CREATE USER slurm@'127.0.0.1' IDENTIFIED BY 'slurm'; GRANT ALL ON *.* TO slurm@'127.0.0.1';"
        self.run("mariadb", "--no-defaults", f"--socket={socket}", "--user=root", "-e", grant)
        conf = self.folder / "slurmdbd.conf"
        conf.write_text(
            f"AuthType=auth/munge\nAuthInfo=socket={self.folder}/munge/socket\nDbdHost=localhost\n"
            f"DbdPort={self.port_above(2)}\nSlurmUser=root\nStorageType=accounting_storage/mysql\n"
            f"StorageHost=127.0.0.1\nStoragePort={self.port_above(1)}\nStorageUser=slurm\nStoragePass=slurm\n"
            f"StorageLoc=slurm\nPidFile={self.folder}/slurmdbd.pid\n"
        )
        conf.chmod(0o600)
        self.launch("slurmdbd", str(program("slurmdbd")), "-D")
        self.until(lambda: "Cluster" in self.run("sacctmgr", "show", "cluster", ok=False), "slurmdbd")
