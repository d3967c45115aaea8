"""URDF files that are wrong, damaged or meant to do harm: each gives one clear sentence."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parhelion.core.errors import ConfigError, FormatError, ParhelionError
from parhelion.world.urdf import load_urdf
from urdf_rigs import ROBOT, TWO_LINKS, joint, write_rover, written


@pytest.fixture(scope="module")
def rover_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rover(tmp_path_factory.mktemp("workspace"))


BOX = '<link name="a"><visual><geometry><box size="{}"/></geometry></visual></link>'


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("", "robot: must have from 1 to 10000 links, got 0"),
        (TWO_LINKS, "robot: must have one root link, got 2: 'a', 'b'"),
        (TWO_LINKS + joint("j", "a", "b") + joint("k", "b", "a"), "joint 'j': is part of a cycle of links"),
        (TWO_LINKS + joint("j", "b", "b"), "joint 'j': is part of a cycle of links"),
        (TWO_LINKS + joint("j", "a", "b") + joint("k", "a", "b"), "link 'b': has two parents, .* 'j' and 'k'"),
        (TWO_LINKS + joint("j", "a", "bb"), r"unknown link 'bb': .*\(of .*r.urdf: joint 'j': child\)"),
        (TWO_LINKS + joint("j", "a", "b", "hinge"), "joint 'j': type must be one of fixed, revolute.* got 'hinge'"),
        (TWO_LINKS + '<joint name="j" type="fixed"><parent link="a"/></joint>', "joint 'j': needs an element <child>"),
        ('<link name="a"/><link name="a"/>', "link 'a': there are two links of this name"),
        ("<link/>", "link: needs the attribute name"),
        (
            TWO_LINKS + joint("j", "a", "b", "revolute", '<axis xyz="0 0 2"/>'),
            r"joint 'j': axis: xyz must be a unit vector \(length 1\), got '0 0 2'",
        ),
        (TWO_LINKS + joint("j", "a", "b", "prismatic", '<axis xyz="0 0 0"/>'), "must be a unit vector"),
        (TWO_LINKS + joint("j", "a", "b", "continuous", '<axis xyz="1e200 0 0"/>'), "must be a unit vector"),
        (
            TWO_LINKS + joint("j", "a", "b", "fixed", '<origin xyz="0 nan 0"/>'),
            "joint 'j': origin: xyz must be 3 finite numbers, got '0 nan 0'",
        ),
        (TWO_LINKS + joint("j", "a", "b", "fixed", '<origin rpy="0 1e999 0"/>'), "rpy must be 3 finite numbers"),
        (TWO_LINKS + joint("j", "a", "b", "fixed", '<origin xyz="0 0"/>'), "xyz must be 3 finite numbers, got '0 0'"),
        (TWO_LINKS + joint("j", "a", "b", "fixed", '<origin xyz="0 1_0 0"/>'), "xyz must be 3 finite numbers"),
        (TWO_LINKS + joint("j", "a", "b", "fixed", '<origin xyz="0 1e12 0"/>'), "must lie within 1e"),
        (
            TWO_LINKS + joint("j", "a", "b", "revolute", '<limit lower="1" upper="-1"/>'),
            "joint 'j': limit: lower must not be above upper, got 1 and -1",
        ),
        (
            TWO_LINKS + joint("j", "a", "b", "revolute", '<mimic joint="q"/>'),
            r"unknown joint 'q': .*\(of .*r.urdf: joint 'j': mimic\)",
        ),
        (TWO_LINKS + joint("j", "a", "b", "revolute", '<mimic joint="j"/>'), "joints mimic each other in a cycle"),
        (BOX.format("1 nan 1"), "link 'a': visual: geometry: box: size must be 3 finite numbers, got '1 nan 1'"),
        (BOX.format("1 0 1"), "size must be positive"),
        ('<link name="a"><visual/></link>', "link 'a': visual: needs an element <geometry>"),
        ('<link name="a"><visual><geometry><cone/></geometry></visual></link>', "must be one of box.* got <cone>"),
        (
            '<link name="a"><visual><geometry><mesh filename="no.stl"/></geometry></visual></link>',
            "r.urdf: link 'a': visual: geometry: mesh: filename 'no.stl': no such file",
        ),
        (
            '<link name="a"><visual><geometry><mesh filename="http://x/y.stl"/></geometry></visual></link>',
            "must be package://, model://, file:// or a plain path",
        ),
        (
            '<link name="a"><visual><geometry><mesh filename="r.urdf"/></geometry></visual></link>',
            "r.urdf is not a supported mesh file",
        ),
        (
            '<link name="a"><visual><geometry><mesh filename="r.urdf" scale="1 0 1"/></geometry></visual></link>',
            "scale must not be zero",
        ),
        ('<link name="a"/><gazebo reference="b"><sensor type="imu"/></gazebo>', "unknown link 'b'"),
        (
            '<link name="a"/><gazebo reference="a"><sensor type="imu"><update_rate>x</update_rate></sensor></gazebo>',
            "gazebo 'a': sensor: update_rate: its text must be a finite number, got 'x'",
        ),
        ('<link name="${prefix}a"/>', "is a xacro file; expand it first"),
    ],
)
def test_wrong_files_name_file_and_element(tmp_path: Path, body: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        load_urdf(written(tmp_path, body))
    assert "r.urdf" in str(caught.value)
    assert "\n" not in str(caught.value)


LAUGHS = "".join(f'<!ENTITY l{k} "{f"&l{k - 1};" * 10}">' for k in range(1, 12))
MALICIOUS = {
    "external": '<!DOCTYPE robot [<!ENTITY x SYSTEM "file:///etc/passwd">]><robot name="&x;"><link name="a"/></robot>',
    "laughs": f'<!DOCTYPE r [<!ENTITY l0 "ha">{LAUGHS}]><robot name="r"><link name="a">&l11;</link></robot>',
    "dtd": '<?xml version="1.0"?>\n<!doctype robot SYSTEM "http://example.org/x.dtd"><robot><link name="a"/></robot>',
}


@pytest.mark.parametrize("kind", MALICIOUS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_document_types_and_entities_are_refused(tmp_path: Path, kind: str, encoding: str) -> None:
    (tmp_path / "r.urdf").write_bytes(MALICIOUS[kind].encode(encoding))
    message = "DOCTYPE is not allowed" if encoding.startswith("utf-8") else "is not XML text in UTF-8"
    with pytest.raises(FormatError, match=message):
        load_urdf(tmp_path / "r.urdf")


def test_deep_and_large_and_broken_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = written(tmp_path, "<x>" * 200_000 + "</x>" * 200_000, "deep.urdf")
    with pytest.raises(FormatError, match=r"deep.urdf: element <x> is nested deeper than 64 levels"):
        load_urdf(deep)
    with pytest.raises(ConfigError, match="must have from 1 to 10000 links, got 10001"):
        load_urdf(written(tmp_path, '<link name="a"/>' * 10_001))
    for text, error, message in (
        ("", FormatError, "is empty"),
        ("<robot><link name='a'/>", FormatError, "line 1, column 24: not whole XML"),
        ("no xml", FormatError, "not whole XML"),
        ("<robot>&unknown;</robot>", FormatError, "not whole XML"),
        ("<sdf version='1.6'/>", FormatError, "is not a URDF file, but an SDF file"),
        ("<html/>", FormatError, "its root element is <html>, not <robot>"),
        ("<robot><xacro:include filename='x'/></robot>", ConfigError, "expand it first"),
        ("<robot xmlns:xacro='http://www.ros.org/wiki/xacro'><xacro:x/></robot>", ConfigError, "expand it first"),
    ):
        (tmp_path / "t.urdf").write_text(text)
        with pytest.raises(error, match=message):
            load_urdf(tmp_path / "t.urdf")
    with pytest.raises(
        ConfigError, match=r"robot.urdf.xacro: is a xacro file; expand it first: xacro robot.urdf.xacro"
    ):
        load_urdf(tmp_path / "robot.urdf.xacro")
    with pytest.raises(ConfigError, match=r"gone.urdf: no such file"):
        load_urdf(tmp_path / "gone.urdf")
    with pytest.raises(ConfigError, match="is a folder"):
        load_urdf(tmp_path)
    with pytest.raises(ConfigError, match="accepts the path of a file, got int"):
        load_urdf(3)  # type: ignore[arg-type]
    monkeypatch.setattr("parhelion.world.xml.guarded_text.__defaults__", (1000, "a robot"))
    with pytest.raises(ConfigError, match=r"deep.urdf: larger than"):
        load_urdf(deep)


def test_comments_of_expanded_xacro_files_are_no_harm(tmp_path: Path) -> None:
    text = "<!-- <xacro:include filename='$(find x)'/> made by xacro -->"
    file = tmp_path / "r.urdf"
    file.write_bytes(f"{text}<robot xmlns:xacro='http://ros.org/xacro'><link name='a'/></robot>".encode())
    assert load_urdf(file).base == "a"
    file.write_bytes(
        "<?xml version='1.0' encoding='ISO-8859-1'?><robot name='é'><link name='a'/></robot>".encode("latin-1")
    )
    assert load_urdf(file).name == "é"


def test_colours_beyond_one_are_ignored_and_reported(tmp_path: Path) -> None:
    body = "<material name='m'><color rgba='255 0 0 1'/></material>" + BOX.format("1 1 1")
    with pytest.warns(UserWarning, match="material 'm': color: rgba is not within 0 to 1 and is ignored"):
        load_urdf(written(tmp_path, body))


@settings(max_examples=60, deadline=None)
@given(place=st.integers(0, len(ROBOT) - 1), patch=st.text("<>&\"'/= x0-9.naninf!", max_size=6))
def test_damaged_files_give_a_robot_or_a_clear_error(rover_file: Path, place: int, patch: str) -> None:
    damaged = rover_file.parent / "damaged.urdf"
    damaged.write_text(ROBOT[:place] + patch + ROBOT[place + len(patch) :])
    refusal = "damaged.urdf"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            load_urdf(damaged).link_poses()
        except ParhelionError as error:
            refusal = str(error)
    assert "damaged.urdf" in refusal
    assert "\n" not in refusal
