"""Image files: every bit is restored, other programs read the same, and damage is reported in one sentence."""

from __future__ import annotations

import io
import json
import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from oracles import oracle
from parhelion.core.errors import ConfigError, FormatError, ParhelionError
from parhelion.core.image import Image, Intrinsics, SeenObject
from parhelion.core.pose import Pose
from parhelion.io import FieldsDroppedWarning
from parhelion.io.images import IMAGE_FORMATS, png, truth
from parhelion.io.images.plain import red_green_blue, shown_colours

HEIGHT, WIDTH = 9, 14
ARRAYS = ("colour", "right", "depth", "measured_depth", "normal", "label", "instance", "flow")
BANDS = {1: ("mono",), 3: ("red", "green", "blue"), 4: ("red", "green", "blue", "nir"), 5: tuple("abcde")}


def picture(dtype: str, bands: int) -> Any:
    rng = np.random.default_rng(bands)
    shape = (HEIGHT, WIDTH) if bands == 1 else (HEIGHT, WIDTH, bands)
    top = {"uint8": 256, "uint16": 65536}.get(dtype)
    return rng.random(shape).astype(np.float32) if top is None else rng.integers(0, top, shape).astype(dtype)


def whole(dtype: str = "uint8", bands: int = 3) -> Image:
    rng = np.random.default_rng(7)
    depth = rng.uniform(0.5, 300.0, (HEIGHT, WIDTH)).astype(np.float32)
    depth[0, :3] = np.inf
    normal = rng.normal(size=(HEIGHT, WIDTH, 3))
    normal = (normal / np.linalg.norm(normal, axis=2, keepdims=True)).astype(np.float32)
    normal[0, :3] = 0.0
    flow = rng.uniform(-20.0, 20.0, (HEIGHT, WIDTH, 2)).astype(np.float32)
    flow[2, 2] = np.nan
    seen = SeenObject(
        5, 10, (1.0, 2.0, 4.0, 6.0), (0.0, 2.0, 4.0, 7.0), 9, 0.25, 0.1, Pose((5.0, 1.0, 0.2), rpy_deg=(0, 0, 30)),
        (4.0, 1.8, 1.5),
    )  # fmt: skip
    return Image(
        picture(dtype, bands), BANDS[bands],
        Intrinsics(WIDTH, HEIGHT, 11.5, 11.25, 6.5, 4.0, 0.01, "plumb_bob", (-0.1, 0.01, 0.001, -0.002, 0.0), 0.12),
        1.25, Pose((1.0, 2.0, 3.0), rpy_deg=(1, 2, 3)), depth, normal, rng.integers(0, 300, (HEIGHT, WIDTH)),
        rng.integers(0, 1 << 20, (HEIGHT, WIDTH)), flow, (seen,), depth * np.float32(1.01), picture(dtype, bands)[::-1],
        {"label": {10: "car"}}, {"sensor": "some/camera", "seed": 3, "exposure_s": 0.004},
    )  # fmt: skip


def saved(image: Image, file: Path, **options: Any) -> Image:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FieldsDroppedWarning)
        image.save(file, **options)
    return Image.load(file)


def same_facts(a: Image, b: Image) -> bool:
    return (a.bands, a.intrinsics, a.start_time, a.objects, a.names, dict(a.metadata)) == (
        b.bands, b.intrinsics, b.start_time, b.objects, b.names, dict(b.metadata)
    ) and np.array_equal(a.pose.matrix, b.pose.matrix)  # fmt: skip


@pytest.mark.parametrize("ending", ["exr", "npz"])
@pytest.mark.parametrize(("dtype", "bands"), [("uint8", 3), ("uint16", 1), ("float32", 4), ("uint16", 5)])
def test_everything_comes_back(tmp_path: Path, ending: str, dtype: str, bands: int) -> None:
    image = whole(dtype, bands)
    image.save(tmp_path / f"a.{ending}")
    again = Image.load(tmp_path / f"a.{ending}")
    for name in ARRAYS:
        before, after = getattr(image, name), getattr(again, name)
        assert before.dtype == after.dtype, name
        assert before.shape == after.shape, name
        assert before.tobytes() == after.tobytes(), name
    assert same_facts(image, again)


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
@pytest.mark.parametrize("bands", [1, 3, 4])
def test_png_keeps_every_bit_and_others_read_it(tmp_path: Path, dtype: str, bands: int) -> None:
    image = whole(dtype, bands)
    again = saved(image, tmp_path / "a.png")
    assert again.colour.dtype == image.colour.dtype
    assert np.array_equal(again.colour, image.colour)
    assert same_facts(image, again)
    cv2 = pytest.importorskip("cv2")
    order = [2, 1, 0, 3][:bands] if bands > 1 else ...
    read = cv2.imread(str(tmp_path / "a.png"), cv2.IMREAD_UNCHANGED)
    assert np.array_equal(read[:, :, order] if bands > 1 else read, image.colour)


def test_png_of_large_smooth_pictures_uses_filters(tmp_path: Path) -> None:
    ramp = np.add.outer(np.arange(200), 2 * np.arange(300)).astype(np.uint16) * 50
    data = png.encode(ramp)
    assert len(data) < ramp.nbytes / 20
    (tmp_path / "a.png").write_bytes(data)
    assert np.array_equal(png.read(tmp_path / "a.png")[0], ramp)
    assert png.encode(ramp) == data


@pytest.mark.parametrize(("dtype", "bands"), [("uint8", 3), ("uint16", 5), ("float32", 1)])
def test_tiff_has_a_page_for_each_band(tmp_path: Path, dtype: str, bands: int) -> None:
    from PIL import Image as Picture

    image = whole(dtype, bands)
    again = saved(image, tmp_path / "a.tif")
    assert np.array_equal(again.colour, image.colour)
    assert same_facts(image, again)
    with Picture.open(tmp_path / "a.tif") as file:
        assert getattr(file, "n_frames", 1) == bands


def test_jpeg_is_near_and_takes_a_quality(tmp_path: Path) -> None:
    smooth = np.add.outer(np.arange(60), np.arange(80)).astype(np.uint8)
    image = Image(np.repeat(smooth[:, :, None], 3, axis=2))
    again = saved(image, tmp_path / "a.jpg", quality=95)
    assert np.abs(again.colour.astype(int) - image.colour).max() < 6
    assert (tmp_path / "a.jpg").stat().st_size > len(_jpeg_of(tmp_path, image))


def _jpeg_of(folder: Path, image: Image) -> bytes:
    image.save(folder / "b.jpg", quality=30)
    return (folder / "b.jpg").read_bytes()


@pytest.mark.oracle
def test_exr_is_read_by_openexr_itself(tmp_path: Path) -> None:
    openexr = oracle("OpenEXR")
    image = whole()
    image.save(tmp_path / "a.exr")
    with openexr.File(str(tmp_path / "a.exr"), separate_channels=True) as file:
        channels = file.channels()
        assert {"R", "G", "B", "depth.Z", "normal.X", "flow.Y", "label.Y", "instance.Y", "right.G"} <= set(channels)
        assert np.array_equal(channels["depth.Z"].pixels, image.depth)
        assert np.array_equal(channels["G"].pixels, image.colour[:, :, 1])
        assert np.array_equal(channels["instance.Y"].pixels, image.instance)


def test_pictures_of_others_are_read(tmp_path: Path) -> None:
    from PIL import Image as Picture

    pixels = picture("uint8", 3)
    Picture.fromarray(pixels).save(tmp_path / "a.png")
    assert np.array_equal(Image.load(tmp_path / "a.png").colour, pixels)
    grey = Picture.fromarray(pixels).quantize(4)
    grey.save(tmp_path / "palette.png")
    assert np.array_equal(Image.load(tmp_path / "palette.png").colour, np.asarray(grey.convert("RGB")))
    np.savez(tmp_path / "a.npz", colour=pixels)
    assert np.array_equal(Image.load(tmp_path / "a.npz").colour, pixels)


def test_files_of_images_leave_the_engine_alone(tmp_path: Path) -> None:
    import mitsuba as mi

    before = mi.variant()
    saved(whole("uint16", 3), tmp_path / "a.exr")
    saved(whole("uint16", 3), tmp_path / "a.png")
    assert mi.variant() == before


def test_what_a_format_cannot_hold_is_reported(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", FieldsDroppedWarning)  # a picture is a picture
        replace(whole(), right=None).save(tmp_path / "a.png")
    with pytest.warns(FieldsDroppedWarning, match="png cannot store right"):
        replace(whole(), right=whole().colour).save(tmp_path / "a.png")
    for image, ending, words in (
        (whole("float32", 3), "png", "use TIFF, EXR or NPZ"),
        (whole("uint8", 5), "png", "1, 3 or 4 bands"),
        (whole("uint16", 3), "jpg", "8 bits"),
        (whole(), "bmp", "unknown file extension"),
        (replace(whole(), instance=np.full((HEIGHT, WIDTH), 1 << 25)), "exr", "up to 2\\^24"),
    ):
        with pytest.raises(FormatError, match=words):
            image.save(tmp_path / f"b.{ending}")
    with pytest.raises(ConfigError, match="unknown image format 'exx'"):
        whole().save(tmp_path / "b", format="exx")
    with pytest.raises(ConfigError, match="unknown option"):
        whole().save(tmp_path / "b.jpg", qualty=3)
    assert not list(tmp_path.glob("b*"))


@pytest.mark.parametrize("ending", ["png", "jpg", "tif", "exr", "npz"])
def test_a_full_disk_leaves_the_earlier_file(tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / f"a.{ending}"
    first = saved(whole(), file)
    kept = file.read_bytes()

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    monkeypatch.setattr("zipfile.ZipFile.open", full)
    with pytest.raises(FormatError, match="cannot be written \\(No space left"):
        saved(replace(whole(), start_time=9.0), file)
    monkeypatch.undo()
    assert file.read_bytes() == kept
    assert [one.name for one in tmp_path.iterdir()] == [file.name]
    assert first.start_time in (1.25, 0.0)


@pytest.mark.parametrize("kind", sorted(IMAGE_FORMATS))
def test_damaged_files_are_one_sentence(tmp_path: Path, kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / f"a{IMAGE_FORMATS[kind].endings[0]}"
    saved(whole(), file)
    data = file.read_bytes()
    rng = np.random.default_rng(3)
    for number in range(40):
        broken = bytearray(data[: int(rng.integers(0, len(data)))] if number % 3 == 0 else data)
        for at in rng.integers(0, max(1, len(broken)), 4):
            broken[at : at + 1] = bytes([int(rng.integers(0, 256))])
        file.write_bytes(bytes(broken))
        message = f"{file}: read"
        try:
            Image.load(file)
        except ParhelionError as error:
            message = str(error)
        assert message.startswith(f"{file}: ")
        assert "\n" not in message
    capfd.readouterr()  # libtiff prints its own messages on damage


def test_claims_of_absurd_sizes_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.png"
    saved(whole(), file)
    data = bytearray(file.read_bytes())
    data[16:24] = (60_000).to_bytes(4, "big") * 2
    file.write_bytes(bytes(data))
    with pytest.raises(FormatError, match="damaged or malicious"):
        Image.load(file)


# ---- truth as pictures -----------------------------------------------------------------------------------------------


def test_truth_comes_back_from_its_pixels() -> None:
    image = whole()
    assert image.depth is not None
    assert image.normal is not None
    assert image.flow is not None
    assert image.instance is not None
    depth = truth.depth_from(truth.depth_pixels(image.depth))
    near = image.depth < 255.9
    assert np.abs(depth[near] - image.depth[near]).max() <= 0.5 / 256 + 1e-6
    assert np.all(np.isinf(depth[~near]))
    normal = truth.normal_from(truth.normal_pixels(image.normal))
    assert np.abs(normal - image.normal).max() < 2e-5
    flow = truth.flow_from(truth.flow_pixels(image.flow))
    assert np.nanmax(np.abs(flow - image.flow)) <= 0.5 / 64 + 1e-6
    assert np.array_equal(np.isnan(flow), np.isnan(image.flow))
    assert np.array_equal(truth.instances_from(truth.instance_colours(image.instance)), image.instance)


def test_flow_and_depth_are_as_the_development_kits_read_them(tmp_path: Path) -> None:
    cv2 = pytest.importorskip("cv2")
    image = whole()
    assert image.flow is not None
    (tmp_path / "flow.png").write_bytes(png.encode(truth.flow_pixels(image.flow)))
    read = cv2.imread(str(tmp_path / "flow.png"), cv2.IMREAD_UNCHANGED)[:, :, ::-1].astype(np.float64)
    # KITTI's own readme: flow_u = (u - 2^15) / 64, likewise v, valid where the third is 1.
    valid = read[:, :, 2] > 0
    assert np.abs((read[valid, :2] - 2.0**15) / 64.0 - image.flow[valid]).max() <= 0.5 / 64 + 1e-6
    assert np.count_nonzero(~valid) == 1


def test_every_instance_has_a_colour_of_its_own() -> None:
    numbers = np.unique(np.random.default_rng(1).integers(0, 1 << 24, 100_000))
    colours = truth.instance_colours(numbers).astype(np.uint32)
    assert len(np.unique(colours @ np.array([65536, 256, 1]))) == len(numbers)
    assert truth.instance_colours(np.array(0)).tolist() == [0, 0, 0]
    near = truth.instance_colours(np.arange(1, 40)).astype(int)
    assert np.abs(np.diff(near, axis=0)).max(axis=1).min() > 60
    with pytest.raises(FormatError, match="must be below 2\\^24"):
        truth.instance_colours(np.array([1 << 24]))


def test_pictures_of_all_kinds_become_colours() -> None:
    assert shown_colours(picture("uint16", 1)).dtype == np.uint8
    many = picture("uint8", 4)
    assert np.array_equal(red_green_blue(many, ("nir", "blue", "green", "red")), many[:, :, [3, 2, 1]])
    bright = red_green_blue(np.array([[0.0, 1.0], [np.nan, np.inf]], np.float32))
    assert bright[:, :, 0].tolist() == [[0, 255], [0, 255]]


def test_an_image_can_be_pickled_as_json_beside_it(tmp_path: Path) -> None:
    """The text in a PNG file is plain JSON."""
    saved(whole(), tmp_path / "a.png")
    text = png.read(tmp_path / "a.png")[1]["parhelion"]
    assert json.loads(text)["intrinsics"]["fx"] == 11.5
    assert ph.Image is Image
    assert io.BytesIO(png.encode(picture("uint8", 1))).read(4) == b"\x89PNG"
