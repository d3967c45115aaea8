"""Set-up of the ROS 2 package; the simulator itself is `pip install 'parhelion[ros]'`."""

from glob import glob

from setuptools import setup

NAME = "parhelion_ros"

setup(
    name=NAME,
    version="0.1.0",
    packages=[NAME],
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{NAME}"]),
        (f"share/{NAME}", ["package.xml"]),
        (f"share/{NAME}/launch", sorted(glob("launch/*.launch.py"))),
        (f"share/{NAME}/config", sorted(glob("config/*.yaml"))),
    ],
    install_requires=["setuptools"],
    zip_safe=True,
    maintainer="Parhelion developers",
    maintainer_email="parhelion@example.org",
    description="Launch files for Parhelion",
    license="Apache-2.0",
    entry_points={
        "console_scripts": [
            "stream = parhelion_ros.commands:stream",
            "weather = parhelion_ros.commands:weather",
        ]
    },
)
