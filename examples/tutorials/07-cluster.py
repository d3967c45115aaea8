"""A campaign on a Dask cluster: here two workers on this machine, started and stopped by this file.

    python 07-cluster.py 07-study.yaml -o rain-out

On a real cluster the scheduler runs already, and the command is `parhelion campaign ... --dask tcp://HOST:8786`.
Needs pip install 'parhelion[campaign,cluster]'.
"""

from __future__ import annotations

import subprocess
import sys

try:
    from distributed import LocalCluster
except ImportError:
    raise SystemExit("this file needs Dask: pip install 'parhelion[campaign,cluster]'") from None


def main() -> int:
    if len(sys.argv) < 2:
        raise SystemExit("usage: python 07-cluster.py STUDY -o FOLDER")
    with LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as cluster:
        command = [sys.executable, "-m", "parhelion", "campaign", *sys.argv[1:], "--dask", cluster.scheduler_address]
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
