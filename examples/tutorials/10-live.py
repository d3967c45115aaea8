"""Weather on a live topic, in two processes: one publishes a lidar's cloud, the other publishes it again in rain.

    python 10-live.py --rain 50 --seconds 4

Both use ROS 2 topics on the loopback interface, without ROS; the driver of a real lidar may take the place of the
first. Needs pip install 'parhelion[ros]'.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path


def main() -> int:
    options = argparse.ArgumentParser(description="Rain on a live topic.")
    options.add_argument("--rain", default="50")
    options.add_argument("--seconds", type=int, default=4)
    options.add_argument("--domain", default="83")
    given = options.parse_args()
    parhelion = [sys.executable, "-m", "parhelion"]
    lidar = [
        *parhelion,
        "stream",
        str(Path(__file__).with_name("10-street.yaml")),
        "--ros2",
        "--reliable",
        "--loop",
        "--domain",
        given.domain,
    ]
    node = [*parhelion, "weather", "--ros2", "/velodyne_points", "/wet_points", "--sensor", "velodyne/vlp-16"]
    node += ["--rain", given.rain, "--domain", given.domain, "--duration"]
    publisher = subprocess.Popen(lidar, stdout=subprocess.DEVNULL)
    try:
        for seconds in (given.seconds, 2 * given.seconds, 4 * given.seconds, 8 * given.seconds):
            done = subprocess.run([*node, str(seconds)], capture_output=True, text=True, timeout=300)
            if re.search(r"points +[1-9]", done.stdout):
                break
            print(f"no cloud within {seconds} s: the lidar is still starting")
    finally:
        publisher.terminate()
        publisher.wait(timeout=30)
    print(done.stdout + done.stderr)
    return done.returncode if re.search(r"points +[1-9]", done.stdout) else 1


if __name__ == "__main__":
    sys.exit(main())
