"""Image outputs: one run with a lidar and a camera, read back from every output with third-party readers."""

from __future__ import annotations

import base64
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toy_sensors.camera import ToyCamera

import parhelion as ph
from dataset_rigs import DRIVE, drive
from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.image import OPTICAL, Image
from parhelion.io.images import png, truth
from parhelion.live.viewer.layers import VIEWER
from parhelion.outputs.consumers import CONSUMERS, REPORT
from parhelion.outputs.files import TRUTH
from parhelion.scenario import Scenario

OUTPUTS: list[dict[str, Any]] = [
    {"kind": "bag"}, {"kind": "foxglove"}, {"kind": "kitti-odometry"}, {"kind": "kitti-object"}, {"kind": "nuscenes"},
    {"kind": "coco-panoptic"},
]  # fmt: skip
CAMERA: dict[str, Any] = {
    "name": "front", "type": "toy-camera", "model": "toy/colour", "vehicle": "carrier", "rate_hz": 20,
    "mount": {"xyz": [0.6, 0.1, 1.5], "rpy_deg": [0, 2, 0]}, "options": {"stereo": True, "measures_depth": True},
}  # fmt: skip


def scene(folder: Path, outputs: list[dict[str, Any]], camera: dict[str, Any] = CAMERA, **changes: Any) -> Scenario:
    changes = {"duration_s": 0.3, "sensors": [*DRIVE["sensors"], camera], **changes}
    return Scenario.load(drive(folder, [], **changes, outputs=outputs))


@pytest.fixture(scope="module")
def out(user_package: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("camera")
    scene(folder, OUTPUTS, report=True).run(folder / "out")
    return folder / "out"


@pytest.fixture(scope="module")
def shots(user_package: None, tmp_path_factory: pytest.TempPathFactory) -> list[Image]:
    """The same pictures, as they were measured."""
    steps = scene(tmp_path_factory.mktemp("steps"), [])
    return [image for step in steps for _, image in step.frames.get("front", ())]


def test_every_reader_knows_images() -> None:
    for consumer in (*CONSUMERS, REPORT["frames"], VIEWER):
        assert consumer.covers(Image), consumer.name
        if consumer.get(Image) is None:
            assert len(consumer.reason(Image) or "") > 20
    assert [consumer.name for consumer in CONSUMERS if consumer.get(Image) is None] == ["packets"]


# ---- files -----------------------------------------------------------------------------------------------------------


def test_a_frame_has_its_picture_and_all_its_truth(out: Path, shots: list[Image]) -> None:
    place = out / "front"
    assert sorted(one.name for one in place.iterdir()) == sorted(["images", "info", "right", *TRUTH])
    image = shots[2]
    read = Image.load(place / "images" / "000002.png")
    assert np.array_equal(read.colour, image.colour)
    assert read.intrinsics == image.intrinsics
    assert read.start_time == image.start_time == pytest.approx(0.1)
    assert np.array_equal(Image.load(place / "right" / "000002.png").colour, image.right)
    pixels = {name: png.read(place / name / "000002.png")[0] for name in TRUTH}
    assert np.array_equal(pixels["label"], image.label)
    assert np.array_equal(truth.instances_from(pixels["instance"]), image.instance)
    assert np.array_equal(pixels["depth"], truth.depth_pixels(image.depth))
    info = json.loads((place / "info" / "000002.json").read_text())
    assert len(info["objects"]) == len(image.objects) > 0
    colours = {tuple(row["rgb"]): row["instance"] for row in info["instances"]}
    seen = {tuple(colour) for colour in pixels["instance"].reshape(-1, 3).tolist()} - {(0, 0, 0)}
    assert seen == set(colours)
    assert sum(row["pixels"] for row in info["instances"]) == np.count_nonzero(image.instance)
    manifest = json.loads((out / "manifest.json").read_text())["files"]
    assert {name for name in manifest if name.startswith("front/")} == {
        file.relative_to(out).as_posix() for file in place.rglob("*.*")
    }


def test_a_run_goes_on_with_pictures_that_are_whole(user_package: None, tmp_path: Path) -> None:
    def run() -> Any:
        return scene(tmp_path, [], duration_s=0.15).run(tmp_path / "out")

    first = run()
    assert (first.frames, first.scans, first.found) == (4, 1, 0)
    label = tmp_path / "out" / "front" / "label" / "000001.png"
    before = label.read_bytes()
    label.unlink()
    again = run()
    assert (again.frames, again.found) == (1, 3)
    assert label.read_bytes() == before


@pytest.mark.parametrize("kind", ["exr", "npz"])
def test_one_file_a_frame_may_hold_everything(user_package: None, tmp_path: Path, kind: str) -> None:
    camera = {**CAMERA, "format": kind}
    scene(tmp_path, [], camera, duration_s=0.12).run(tmp_path / "out")
    files = sorted((tmp_path / "out" / "front").rglob("*.*"))
    assert [file.relative_to(tmp_path / "out").as_posix() for file in files] == [
        f"front/images/00000{k}.{kind}" for k in range(3)
    ]
    image = Image.load(files[1])
    assert image.depth is not None
    assert image.objects
    assert image.right is not None


def test_formats_and_bands_that_do_not_fit_are_reported(user_package: None, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown image format 'pcd'"):
        scene(tmp_path, [], {**CAMERA, "format": "pcd"})
    five = {**CAMERA, "options": {"bands": 5, "truth": False}}
    scene(tmp_path, [], five, duration_s=0.1).run(tmp_path / "five")
    assert Image.load(tmp_path / "five" / "front" / "images" / "000000.tif").colour.shape == (64, 96, 5)
    with pytest.raises(FormatError, match="1, 3 or 4 bands"):
        scene(tmp_path, [], {**five, "format": "png"}, duration_s=0.1).run(tmp_path / "png")
    with pytest.raises(ConfigError, match="has no masks of labels"):
        scene(tmp_path, [{"kind": "coco-panoptic"}], five, duration_s=0.1).run(tmp_path / "coco")


# ---- ROS -------------------------------------------------------------------------------------------------------------


def messages(bag: Path) -> dict[str, list[Any]]:
    bags = pytest.importorskip("rosbags.highlevel", reason="a package of the bag reader is missing")
    found: dict[str, list[Any]] = {}
    with bags.AnyReader([bag]) as reader:
        for connection, _, raw in reader.messages():
            found.setdefault(connection.topic, []).append(reader.deserialize(raw, connection.msgtype))
    return found


def test_the_bag_has_pictures_lens_depth_and_frames(out: Path, shots: list[Image]) -> None:
    topics = messages(out / "bag")
    count = len(shots)
    for topic in ("image_raw", "camera_info", "right/image_raw", "right/camera_info", "depth/image_raw"):
        assert len(topics[f"/front/{topic}"]) == count
    first = topics["/front/image_raw"][0]
    assert (first.encoding, first.step, first.header.frame_id) == ("rgb8", 96 * 3, "front_optical_frame")
    assert np.array_equal(first.data.reshape(64, 96, 3), shots[0].colour)
    depth = topics["/front/depth/image_raw"][0]
    assert depth.encoding == "32FC1"
    assert np.array_equal(depth.data.view("<f4").reshape(64, 96), shots[0].measured_depth, equal_nan=True)
    real = topics["/front/ground_truth/depth/image_raw"][0]
    assert np.array_equal(real.data.view("<f4").reshape(64, 96), shots[0].depth)
    assert topics["/front/ground_truth/label/image_raw"][0].encoding == "16UC1"
    assert topics["/front/ground_truth/instance/image_raw"][0].encoding == "32SC1"
    lens, shot = topics["/front/camera_info"][0], shots[0]
    assert shot.intrinsics is not None
    assert np.array_equal(lens.k.reshape(3, 3), shot.intrinsics.matrix)
    assert (lens.distortion_model, len(lens.d)) == ("plumb_bob", 5)
    assert lens.p[3] == 0.0
    right = topics["/front/right/camera_info"][0]
    assert right.p[3] == pytest.approx(-shot.intrinsics.fx * 0.12)
    assert right.header.frame_id == "front_right_optical_frame"
    frames = {one.child_frame_id: one for one in topics["/tf_static"][0].transforms}
    assert frames["front"].header.frame_id == "base_link"
    assert frames["front_optical_frame"].header.frame_id == "front"
    turn = frames["front_optical_frame"].transform.rotation
    pose = ph.Pose(quat_xyzw=(turn.x, turn.y, turn.z, turn.w))
    assert pose.apply(np.eye(3)) == pytest.approx(np.array([[0, -1, 0], [0, 0, -1], [1, 0, 0]]), abs=1e-12)
    aside = frames["front_right_optical_frame"].transform.translation
    assert (aside.x, aside.y, aside.z) == pytest.approx((0.0, -0.12, 0.0))


@pytest.mark.parametrize("kind", ["png", "jpeg"])
def test_bags_may_hold_compressed_pictures(user_package: None, tmp_path: Path, kind: str, shots: list[Image]) -> None:
    from PIL import Image as Picture

    outputs = [{"kind": "bag", "storage": "sqlite3", "images": kind, "topics": {"front": "/cam0/image_raw"}}]
    camera = {**CAMERA, "options": {**CAMERA["options"], "deep": kind == "png"}}
    scene(tmp_path, outputs, camera, duration_s=0.1).run(tmp_path / "out")
    topics = messages(tmp_path / "out" / "bag")
    assert "/cam0/image_raw" not in topics
    message = topics["/cam0/image_raw/compressed"][0]
    assert message.format.split("; ")[1].startswith(f"{kind} compressed")
    assert len(topics["/cam0/camera_info"]) == len(topics["/cam0/right/image_raw/compressed"])
    if kind == "jpeg":
        pixels = np.asarray(Picture.open(io.BytesIO(message.data.tobytes())))
        assert np.abs(pixels.astype(int) - shots[0].colour).mean() < 4
    else:
        (tmp_path / "a.png").write_bytes(message.data.tobytes())
        assert np.array_equal(png.read(tmp_path / "a.png")[0], shots[0].colour.astype(np.uint16) * 257)


def test_encodings_are_those_of_ros() -> None:
    from parhelion.io.ros.messages import encoding_of

    for shape, dtype, bands, name in (
        ((4, 4), "u1", (), "mono8"), ((4, 4), "u2", ("nir",), "mono16"), ((4, 4, 3), "u1", (), "rgb8"),
        ((4, 4, 3), "u2", ("red", "green", "blue"), "rgb16"), ((4, 4, 3), "u1", ("red", "nir", "green"), "8UC3"),
        ((4, 4), "f4", (), "32FC1"), ((4, 4, 5), "u2", (), "16UC5"), ((4, 4), "u1", ("bayer_rggb",), "bayer_rggb8"),
    ):  # fmt: skip
        assert encoding_of(np.zeros(shape, dtype), bands) == name


# ---- Foxglove --------------------------------------------------------------------------------------------------------


def test_foxglove_has_pictures_calibration_and_boxes(out: Path, shots: list[Image]) -> None:
    from mcap.reader import make_reader

    found: dict[str, list[bytes]] = {}
    schemas = {}
    with (out / "foxglove.mcap").open("rb") as stream:
        for schema, channel, message in make_reader(stream).iter_messages():
            found.setdefault(channel.topic, []).append(message.data)
            schemas[channel.topic] = schema.name if schema else ""
    assert schemas["/front/image_raw"] == schemas["/front/right/image_raw"] == "foxglove.CompressedImage"
    assert schemas["/front/camera_info"] == "foxglove.CameraCalibration"
    assert schemas["/front/depth/image_raw"] == "foxglove.RawImage"
    assert schemas["/front/objects"] == "foxglove.ImageAnnotations"
    assert len(found["/front/image_raw"]) == len(shots)
    data = found["/front/image_raw"][0]
    assert data[data.index(png.SIGNATURE) :][:200] == png.encode(shots[0].colour)[:200]
    assert b"front_optical_frame" in data
    assert any(b"front_optical_frame" in one for one in found["/tf_static"])


# ---- report ----------------------------------------------------------------------------------------------------------


def test_the_report_has_a_contact_sheet(out: Path, shots: list[Image]) -> None:
    from PIL import Image as Picture

    page = (out / "report.html").read_text()
    part = page[page.index('<section id="pictures">') :]
    part = part[: part.index("</section>")]
    assert part.count("<img") == len(shots) + 2
    assert f"{shots[2].start_time:.2f} s" in part
    sizes = []
    for code in re.findall(r"data:image/png;base64,([^\"]+)", part):
        data = base64.b64decode(code)
        sizes.append(len(data))
        assert Picture.open(io.BytesIO(data)).width <= 320
    assert max(sizes) < 100_000
    assert f"{len(shots)} pictures" in page
    assert "front" in page


# ---- data sets -------------------------------------------------------------------------------------------------------


def numbers(file: Path) -> dict[str, Any]:
    rows = (line.partition(":") for line in file.read_text().splitlines() if line)
    return {name: np.array(values.split(), float) for name, _, values in rows}


def pose_of(row: dict[str, Any]) -> ph.Pose:
    """A row of nuScenes' tables, whose rotations are w, x, y, z."""
    return ph.Pose(row["translation"], np.roll(row["rotation"], -1))


def check_depth(camera: Any, image: Image) -> None:
    """Points (n, 3) in the optical frame lie where the picture sees something at their depth."""
    assert image.intrinsics is not None
    assert image.depth is not None
    flat = camera @ image.intrinsics.matrix.T
    ahead = camera[:, 2] > 1.0
    uv = np.round(flat[ahead, :2] / flat[ahead, 2:]).astype(int)
    inside = np.all((uv >= 0) & (uv < (image.width, image.height)), axis=1)
    depth = camera[ahead, 2][inside]
    assert len(depth) > 1000
    off = np.abs(image.depth[uv[inside, 1], uv[inside, 0]] - depth)
    # Half a pixel of the ground, 1.5 m below, is so deep; edges are left.
    assert np.mean(off < 0.55 * depth**2 / (1.5 * image.intrinsics.fx) + 0.1) > 0.975


def test_kitti_points_fall_on_what_the_picture_shows(out: Path, shots: list[Image]) -> None:
    place = out / "kitti-object" / "training"
    assert len(list((place / "image_2").iterdir())) == len(list((place / "velodyne").iterdir())) == 3
    calibration = numbers(place / "calib" / "000001.txt")
    # Scan 1 begins at 0.1 s, as picture 2 does.
    image = shots[2]
    assert np.array_equal(png.read(place / "image_2" / "000001.png")[0], image.colour)
    assert np.array_equal(png.read(place / "image_3" / "000001.png")[0], image.right)
    points = np.fromfile(place / "velodyne" / "000001.bin", "<f4").reshape(-1, 4)
    lidar = np.concatenate([points[:, :3], np.ones((len(points), 1))], axis=1)
    check_depth(lidar @ calibration["Tr_velo_to_cam"].reshape(3, 4).T, image)
    assert image.intrinsics is not None
    assert calibration["P2"].reshape(3, 4)[:, :3] == pytest.approx(image.intrinsics.matrix)
    assert calibration["P3"][3] == pytest.approx(calibration["P2"][0] * -0.12)
    lines = (place / "label_2" / "000001.txt").read_text().splitlines()
    assert len(lines) == len(image.objects)
    assert {line.split()[0] for line in lines} >= {"Car", "Pedestrian"}
    for line, one in zip(lines, image.objects, strict=True):
        words = line.split()
        assert [float(word) for word in words[4:8]] == pytest.approx(np.subtract(one.full_box, (0, 0, 1, 1)))
        middle = np.array([float(word) for word in words[11:14]]) - [0.0, 0.5 * float(words[8]), 0.0]
        assert middle == pytest.approx(OPTICAL.inverse().apply(one.pose.xyz), abs=0.1)


def test_pykitti_reads_the_pictures_of_a_sequence(out: Path, shots: list[Image]) -> None:
    pykitti = pytest.importorskip("pykitti", reason="pykitti is not installed")
    data = pykitti.odometry(str(out / "kitti-odometry"), "00")
    assert len(data) == 3
    assert np.array_equal(np.asarray(data.get_cam2(1)), shots[2].colour)
    assert shots[0].intrinsics is not None
    assert shots[0].intrinsics.matrix == pytest.approx(data.calib.K_cam2)
    assert data.calib.b_rgb == pytest.approx(0.12)
    # The camera in the lidar, by mounts: a point before the camera is before it by Tr, too.
    lidar, camera = (ph.Pose(**one["mount"]) for one in (DRIVE["sensors"][0], CAMERA))
    expected = ((lidar.inverse() @ camera) @ OPTICAL).inverse().matrix
    assert data.calib.T_cam2_velo == pytest.approx(expected, abs=1e-9)
    assert data.poses[0] == pytest.approx(np.eye(4), abs=1e-9)
    moved = shots[0].pose.inverse() @ shots[2].pose
    assert data.poses[1] == pytest.approx((OPTICAL.inverse() @ moved @ OPTICAL).matrix, abs=1e-6)


def test_nuscenes_tables_know_the_camera(out: Path, shots: list[Image]) -> None:
    place = out / "nuscenes"
    rows = {file.stem: json.loads(file.read_text()) for file in (place / "v1.0-mini").iterdir()}
    sensor = next(row for row in rows["sensor"] if row["channel"] == "CAM_FRONT")
    assert sensor["modality"] == "camera"
    placed = next(row for row in rows["calibrated_sensor"] if row["sensor_token"] == sensor["token"])
    assert shots[0].intrinsics is not None
    assert np.array(placed["camera_intrinsic"]) == pytest.approx(shots[0].intrinsics.matrix)
    expected = ph.Pose(**CAMERA["mount"]) @ OPTICAL
    assert placed["translation"] == pytest.approx(expected.xyz.tolist())
    assert np.abs(np.dot(np.roll(placed["rotation"], -1), expected.quat_xyzw)) == pytest.approx(1.0)
    data = [row for row in rows["sample_data"] if row["calibrated_sensor_token"] == placed["token"]]
    assert len(data) == len(shots)
    assert [row["is_key_frame"] for row in data].count(True) == len(rows["sample"]) == 1
    assert (data[0]["width"], data[0]["height"], data[0]["fileformat"]) == (96, 64, "png")
    assert data[0]["filename"].startswith("samples/CAM_FRONT/")
    assert np.array_equal(png.read(place / data[1]["filename"])[0], shots[1].colour)
    # Points of the lidar, by the kit's chain of frames: lidar, vehicle, world, vehicle at the picture's time, camera.
    placed_at = {row["token"]: pose_of(row) for row in (*rows["calibrated_sensor"], *rows["ego_pose"])}
    sweep = next(row for row in rows["sample_data"] if row["timestamp"] == 100_000 and row["fileformat"] == "pcd")
    shot = next(row for row in data if row["timestamp"] == 100_000)
    points = np.fromfile(place / sweep["filename"], "<f4").reshape(-1, 5)[:, :3].astype(np.float64)
    world = placed_at[sweep["ego_pose_token"]].apply(placed_at[sweep["calibrated_sensor_token"]].apply(points))
    camera = (placed_at[shot["ego_pose_token"]] @ placed_at[placed["token"]]).inverse().apply(world)
    check_depth(camera, shots[2])


def test_coco_s_segments_are_the_masks(out: Path, shots: list[Image]) -> None:
    place = out / "coco-panoptic"
    content = json.loads((place / "annotations" / "panoptic.json").read_text())
    assert len(content["images"]) == len(content["annotations"]) == len(shots)
    countable = {row["id"] for row in content["categories"] if row["isthing"]}
    words = {row["name"]: row["id"] for row in content["categories"]}
    assert words["car"] in countable
    assert words["road"] not in countable
    entry, image = content["annotations"][1], shots[1]
    assert np.array_equal(png.read(place / "images" / content["images"][1]["file_name"])[0], image.colour)
    code = png.read(place / "annotations" / "panoptic" / entry["file_name"])[0].astype(int) @ [1, 256, 65536]
    assert set(np.unique(code)) - {0} == {row["id"] for row in entry["segments_info"]}
    assert image.label is not None
    assert image.instance is not None
    for row in entry["segments_info"]:
        where = code == row["id"]
        left, top, width, height = row["bbox"]
        assert (
            row["area"] == np.count_nonzero(where) == np.count_nonzero(where[top : top + height, left : left + width])
        )
        assert set(np.unique(image.label[where])) == {row["category_id"]}
        if row["category_id"] in countable:
            assert len(np.unique(image.instance[where])) == 1


def test_lenses_that_bend_are_straightened() -> None:
    from dataclasses import replace

    from parhelion.outputs.datasets.images import straight, straightened

    lens = replace(ToyCamera("toy/colour").intrinsics, distortion=(-0.25, 0.05))
    from parhelion.sensors.optics.camera.lens import project

    v, u = np.mgrid[: lens.height, : lens.width]
    x, y = (u - lens.cx) / lens.fx, (v - lens.cy) / lens.fy
    # A bent picture of a field of colours that follow the ideal coordinates: straightened, they are smooth again.
    uv, inside = project(lens, np.stack([np.ones(x.size), -x.ravel(), -y.ravel()], axis=1))
    ideal = np.clip(128 + 80 * x, 0, 255)
    cv2 = pytest.importorskip("cv2")
    bent = cv2.undistortPoints(
        np.stack([u.ravel(), v.ravel()], axis=1).astype(np.float64)[:, None], lens.matrix, np.array([-0.25, 0.05, 0, 0])
    )[:, 0]
    picture = np.clip(128 + 80 * bent[:, 0].reshape(x.shape), 0, 255).astype(np.uint8)
    found = straightened(picture, lens)
    seen = inside.reshape(x.shape)
    assert np.abs(found[seen].astype(float) - ideal[seen]).max() < 2.0
    assert np.all(found[~seen] == 0)
    assert uv.shape == (x.size, 2)
    plain = Image(picture, intrinsics=replace(lens, distortion=()))
    assert np.array_equal(straight(plain.colour, plain), picture)
