"""The material library against published figures, and the tables that kernels gather."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import yaml

import brdf_rigs
from parhelion.core.config import parse
from parhelion.core.errors import ConfigError
from parhelion.surfaces import brdf, library
from parhelion.surfaces.library import ALIASES, match_material, material, material_names
from parhelion.surfaces.material import (
    COLUMNS,
    CookTorranceModel,
    LambertModel,
    Material,
    PhongModel,
    SpectrumTable,
    material_table,
    monostatic_brdf,
    specular_split,
)

SPECTRA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "spectra"
needs_spectra = pytest.mark.skipif(not SPECTRA.is_dir(), reason="the measured spectra are not on this machine")

# fmt: off
ASKED_FOR = [
    "asphalt", "concrete", "brick", "grass", "soil", "sand", "snow", "water", "glass", "car-paint-white",
    "car-paint-black", "car-paint-red", "car-paint-blue", "car-paint-silver", "steel", "aluminium",
    "galvanised-steel", "rubber", "plastic", "wood", "plywood", "epoxy", "foam", "skin", "cotton", "leaf",
    "bark", "road-paint", "retro-sheeting", "cardboard", "gravel", "roof-tile", "shingle", "mirror",
    "granite", "fabric",
]
# fmt: on


def flat(reflectance: float, **fields: object) -> Material:
    spectrum = SpectrumTable(wavelength_um=[0.35, 2.5], reflectance=[reflectance, reflectance])
    return Material(name="test", sources=["test"], spectrum=spectrum, **fields)


@pytest.mark.parametrize("name", ASKED_FOR)
def test_library_has(name):
    assert name in material_names()


@pytest.mark.parametrize("name", material_names())
def test_library_file_is_whole(name):
    m = material(name)
    assert m.name == name
    assert m.description
    assert m.wavelength_range_nm[0] <= 350
    assert m.wavelength_range_nm[1] >= 2500
    assert np.diff(m.spectrum.wavelength_um).max() < 0.0501


@pytest.mark.parametrize("name", ["leaf", "grass", "needles"])
def test_vegetation_is_sampled_finely_at_the_red_edge(name):
    wavelength = np.array(material(name).spectrum.wavelength_um)
    edge = wavelength[(wavelength >= 0.65) & (wavelength <= 0.78)]
    assert np.diff(edge).max() < 0.0201


def ndvi(name: str) -> float:
    near, red = material(name).reflectance_at(860), material(name).reflectance_at(660)
    return (near - red) / (near + red)


@pytest.mark.parametrize("name", ["leaf", "grass", "needles"])
def test_living_plants_have_a_high_ndvi(name):
    assert ndvi(name) > 0.5


@pytest.mark.parametrize("name", ["asphalt", "concrete", "granite", "plaster", "car-paint-grey", "snow"])
def test_dead_surfaces_have_none(name):
    assert abs(ndvi(name)) < 0.12


# Huang 2023, table I, at 905 nm. Its glass (0.17 to 0.22) is an effective value of whole windows, and ours is a pane
# that mirrors and transmits: not the same quantity, see test_glass_pane.
@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("aluminium", 0.57, 0.82),
        ("steel", 0.57, 0.82),
        ("stainless-steel", 0.57, 0.82),
        ("skin", 0.45, 0.75),
        ("cotton", 0.45, 0.75),
        ("fabric", 0.45, 0.75),
        ("concrete", 0.32, 0.44),
        ("plaster", 0.32, 0.44),
        ("asphalt", 0.16, 0.27),
    ],
)
def test_reflectance_at_905_nm_lies_in_the_published_band(name, low, high):
    assert low <= material(name).reflectance_at(905) <= high


def test_asphaltic_concrete_of_helios():
    assert material("asphaltic-concrete").reflectance_at(900) == pytest.approx(0.2768, abs=5e-4)


def test_dark_and_bright_ends():
    assert material("rubber").reflectance_at(905) < 0.06
    assert material("car-paint-black").reflectance_at(905) < 0.06
    assert material("car-paint-white").reflectance_at(905) > 0.7
    assert material("snow").reflectance_at(905) > 0.8
    assert material("snow").reflectance_at(1550) < 0.1  # ice absorbs: why 1550 nm lidars lose sight of snow
    assert material("snow-wet").reflectance_at(905) < material("snow").reflectance_at(905)
    assert material("skin").reflectance_at(1450) < 0.1  # water's band


@needs_spectra
@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("concrete", "mavs/concrete.spec"),
        ("plywood", "mavs/plywood.spec"),
        ("foam", "mavs/polystyrene.spec"),
        ("wood", "helios/wood.txt"),
        ("aluminium", "helios/aluminum.txt"),
        ("grass-dry", "helios/grass_dry.txt"),
    ],
)
def test_resampled_spectra_are_those_of_their_source(name, file):
    source = Material.from_spectrum(SPECTRA / file)
    for nm in (450, 550, 700, 850, 905, 1064, 1550, 2100):
        assert material(name).reflectance_at(nm) == pytest.approx(source.reflectance_at(nm), abs=0.006)


def test_grey_targets():
    for percent in (0, 1, 10, 55, 90, 100):
        assert material(f"lambert-{percent}").reflectance_at(905) == percent / 100
    table = material_table([material("lambert-10")], 1550)
    for cos in (1.0, 0.5, 0.1):
        assert monostatic_brdf(cos, table)[0] == pytest.approx(0.1 / math.pi)
    with pytest.raises(ConfigError, match="lambert-0"):
        material("lambert-101")


@pytest.mark.parametrize("alias", sorted(ALIASES))
def test_aliases_lead_somewhere(alias):
    assert alias not in material_names()
    assert material(alias).name == ALIASES[alias]


def test_unknown_material_names_the_nearest():
    with pytest.raises(ConfigError, match="unknown material 'asfalt': did you mean 'asphalt'"):
        material("asfalt")
    with pytest.raises(ConfigError, match="unknown material"):
        material("../library/asphalt")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("asphalt", "asphalt"),
        ("Asphalt_01", "asphalt"),
        ("CarPaint.White", "car-paint-white"),
        ("CAR_PAINT_WHITE", "car-paint-white"),
        ("M_Tarmac.003", "asphalt"),
        ("mat_red_brick_wall", "brick"),
        ("GalvanizedSteel", "galvanised-steel"),
        ("Tree Bark 2", "bark"),  # a material before another word for one
        ("lambert-10", "lambert-10"),
    ],
)
def test_names_in_files_are_matched_without_a_note(written, meant):
    assert match_material(written)[0].name == meant
    assert match_material(written)[1] is None


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("carpaintwhite", "car-paint-white"),
        ("concret", "concrete"),
        ("Material.001", "lambert-30"),
        ("", "lambert-30"),
        ("材料", "lambert-30"),
    ],
)
def test_guesses_come_with_a_note(written, meant):
    found, note = match_material(written)
    assert found.name == meant
    assert note is not None
    assert repr(written) in note
    assert meant in note


def test_one_material_reads_one_file(monkeypatch):
    read = []
    original = library.load

    def counting(model, path):
        read.append(path.name)
        return original(model, path)

    monkeypatch.setattr(library, "load", counting)
    library.material.cache_clear()
    library.material("tarmac")
    library.material("tarmac")
    assert read == ["asphalt.yaml"]


def test_outside_the_spectrum_is_an_error_with_the_range():
    with pytest.raises(ConfigError, match="'asphalt': the spectrum covers 350 to 2500 nm, not 10600 nm"):
        material("asphalt").reflectance_at(10600)
    with pytest.raises(ConfigError):
        material_table([material("asphalt")], float("nan"))


def test_interpolation_is_linear():
    m = flat(0.2).model_copy(update={"spectrum": SpectrumTable(wavelength_um=[0.5, 1.0], reflectance=[0.2, 0.4])})
    assert m.reflectance_at(750) == pytest.approx(0.3)
    assert m.reflectance_at(500) == 0.2
    assert m.reflectance_at(1000) == 0.4


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sources": []}, "sources"),
        ({"sources": [" "]}, "sources"),
        ({"spectrum": {"wavelength_um": [0.5, 0.4], "reflectance": [0.1, 0.1]}}, "ascend"),
        ({"spectrum": {"wavelength_um": [0.5, 0.6], "reflectance": [0.1]}}, "1 values of reflectance for 2"),
        ({"spectrum": {"wavelength_um": [0.5, 0.6], "reflectance": [0.1, 1.1]}}, r"reflectance\[1\]"),
        ({"brdf": {"model": "phong", "specular_share": 0.5, "exponent": 0.5}}, "exponent"),
        ({"brdf": {"model": "phongg"}}, "phongg"),
        ({"brdf": {"model": "cook-torrance", "roughness": 0.0}}, "roughness"),
        ({"retro": {"gain_per_sr": 1000, "width_deg": 2}}, "add up to"),
        ({"specular": {"kind": "mirror", "reflectance": 0.95}}, "add up to"),
        (
            {
                "specular": {"kind": "water", "refractive_index": 1.33},
                "brdf": {"model": "cook-torrance", "roughness": 1},
            },
            "lambert or oren-nayar",
        ),
        ({"colour": "red"}, "colour"),
    ],
)
def test_bad_material_files_are_refused_by_field(change, words):
    good = {"name": "x", "sources": ["s"], "spectrum": {"wavelength_um": [0.35, 2.5], "reflectance": [0.1, 0.1]}}
    assert parse(Material, good, "x.yaml").name == "x"
    with pytest.raises(ConfigError, match=words):
        parse(Material, {**good, **change}, "x.yaml")


def test_table_columns():
    names = ["asphalt", "aluminium", "car-paint-red", "stainless-steel", "retro-sheeting", "glass", "water", "mirror"]
    table = material_table([material(name) for name in names], 905)
    assert set(table) == set(COLUMNS)
    assert all(column.shape == (len(names),) and column.dtype == np.float32 for column in table.values())
    row = {name: {key: float(column[i]) for key, column in table.items()} for i, name in enumerate(names)}
    assert row["asphalt"]["sigma_rad"] == pytest.approx(math.radians(20))
    assert row["aluminium"]["diffuse"] + row["aluminium"]["phong_specular"] == pytest.approx(
        material("aluminium").reflectance_at(905)
    )
    # The coat's share of a measured reflectance is in the lobe, not counted again in the body.
    assert row["car-paint-red"]["ct_f0"] == pytest.approx(0.04)
    assert row["car-paint-red"]["diffuse"] == pytest.approx(0.62 - 0.04)
    assert row["stainless-steel"]["diffuse"] == 0
    assert row["stainless-steel"]["ct_f0"] == pytest.approx(material("stainless-steel").reflectance_at(905))
    assert row["retro-sheeting"]["retro_gain"] == 315
    assert (row["glass"]["transmits"], row["water"]["transmits"], row["mirror"]["transmits"]) == (1, 0, 0)
    assert row["glass"]["pane_index"] == pytest.approx(1.515)
    assert row["water"]["mirror"] == pytest.approx((0.33 / 2.33) ** 2)
    assert row["mirror"]["mirror"] == pytest.approx(0.9)
    assert row["asphalt"]["mirror"] == 0


def test_empty_table():
    table = material_table([], 905)
    assert all(column.shape == (0,) for column in table.values())


def test_table_gives_each_model_its_own_brdf():
    cos = np.array([0.0, 0.2, 0.6, 0.9, 1.0])
    paint = flat(0.5, brdf=CookTorranceModel(model="cook-torrance", roughness=0.3, refractive_index=1.5))
    metal = flat(0.6, brdf=CookTorranceModel(model="cook-torrance", roughness=0.5))
    phong = flat(0.5, brdf=PhongModel(model="phong", specular_share=0.4, exponent=12))
    expected = [
        (flat(0.5), brdf.lambert(reflectance=0.5) * np.ones(5)),
        (paint, brdf.coated_diffuse(cos, reflectance=0.46) + brdf.cook_torrance(cos, roughness=0.3, f0=0.04)),
        (metal, brdf.cook_torrance(cos, roughness=0.5, f0=0.6)),
        (phong, brdf.modified_phong(cos, diffuse=0.3, specular=0.2, exponent=12.0)),
        (material("concrete"), brdf.oren_nayar(cos, reflectance=0.32106, sigma_rad=math.radians(15))),
    ]
    for m, values in expected:
        np.testing.assert_allclose(monostatic_brdf(cos, material_table([m], 905)), values, rtol=1e-3)


def test_retro_sheeting_outshines_everything_lambertian():
    table = material_table([material("retro-sheeting"), material("lambert-100")], 905)
    face_on = monostatic_brdf(np.ones(2), table)
    assert face_on[0] / face_on[1] > 900


def test_texture_scales_the_diffuse_part_only():
    table = material_table([material("aluminium")], 905)
    full, half, none = (float(monostatic_brdf(1.0, table, texture=t)[0]) for t in (1.0, 0.5, 0.0))
    assert full - half == pytest.approx(half - none)
    assert full - none == pytest.approx(float(table["diffuse"][0]) / math.pi)
    assert none > 0


def row_albedo(row: dict[str, float], theta: float) -> float:
    """Hemispherical reflectance of a table's row by quadrature, the specular paths added."""
    nodes, weights = np.polynomial.legendre.leggauss(120)
    cos_o, ring = 0.5 * (nodes + 1), (np.arange(200) + 0.5) * (2 * np.pi / 200)
    sin_o = np.sqrt(1 - cos_o**2)
    wo = np.stack(
        np.broadcast_arrays(sin_o[:, None] * np.cos(ring), sin_o[:, None] * np.sin(ring), cos_o[:, None]), axis=-1
    )
    normal, wi = np.array([0.0, 0.0, 1.0]), np.array([math.sin(theta), 0.0, math.cos(theta)])
    body = brdf_rigs.oren_nayar(normal, wi, wo, reflectance=row["diffuse"], sigma_rad=row["sigma_rad"])
    if row["ct_weight"]:
        body = brdf_rigs.coated_diffuse(normal, wi, wo, reflectance=row["diffuse"])
        body += brdf_rigs.cook_torrance(normal, wi, wo, roughness=row["ct_roughness"], f0=row["ct_f0"])
    body += brdf_rigs.modified_phong(
        normal, wi, wo, diffuse=0.0, specular=row["phong_specular"], exponent=row["phong_exponent"]
    )
    scattered = float(np.sum(body * cos_o[:, None] * weights[:, None]) * 0.5 * 2 * np.pi / 200)
    retro = 2 * np.pi * row["retro_gain"] * row["retro_width_rad"] ** 2 * math.cos(theta) ** 3
    return scattered + retro + sum(float(part) for part in specular_split(math.cos(theta), row))


def test_no_material_of_the_library_makes_light():
    table = material_table([material(name) for name in material_names()], 905)
    for i, name in enumerate(material_names()):
        row = {key: float(column[i]) for key, column in table.items()}
        for degrees in (1, 60, 85):
            assert 0 < row_albedo(row, math.radians(degrees)) < 1.005, name


def test_glass_pane():
    table = material_table([material("glass")], 905)
    reflected, transmitted = specular_split(np.array([1.0]), table)
    # Two faces of 4.2 % each; what is not mirrored or absorbed goes through.
    assert reflected[0] == pytest.approx(0.075, abs=0.005)
    assert transmitted[0] == pytest.approx(0.845, abs=0.01)
    grazing, through = specular_split(np.array([0.02]), table)
    assert grazing[0] > 0.8
    assert through[0] < 0.2


def test_specular_split_by_kind():
    table = material_table([material(n) for n in ("water", "mirror", "concrete")], 905)
    for cos in (1.0, 0.5, 0.1):
        reflected, transmitted = specular_split(np.full(3, cos), table)
        assert reflected[0] == pytest.approx(brdf.fresnel_dielectric(cos, index=1.33), rel=1e-5)
        assert reflected[1] == pytest.approx(0.9)
        assert reflected[2] == 0
        assert (transmitted == 0).all()


@needs_spectra
def test_material_from_a_spectrum_file():
    m = Material.from_spectrum(SPECTRA / "helios" / "asphalt.txt", name="runway")
    assert m.name == "runway"
    assert m.reflectance_at(900) == pytest.approx(0.2768, abs=1e-4)
    assert isinstance(m.brdf, LambertModel)
    phong = PhongModel(model="phong", specular_share=0.2, exponent=5)
    assert Material.from_spectrum(SPECTRA / "helios" / "asphalt.txt", brdf=phong).brdf == phong
    with pytest.raises(ConfigError, match="420 to 14000 nm, not 400 nm"):
        m.reflectance_at(400)


def test_a_spectrum_file_far_outside_zero_to_one_is_refused(tmp_path):
    file = tmp_path / "radiance.txt"
    file.write_text("0.4 0.5\n0.5 1.3\n")
    with pytest.raises(ConfigError, match=r"radiance\.txt: reflectance must lie within 0 to 1"):
        Material.from_spectrum(file)


def test_library_files_are_plain_data():
    for file in library.FOLDER.glob("*.yaml"):
        data = yaml.safe_load(file.read_text(encoding="utf-8"))
        assert data["name"] == file.stem


def test_kernels_and_numpy_give_the_same_brdf():
    mi = pytest.importorskip("mitsuba")
    dr = pytest.importorskip("drjit")
    if mi.variant() is None:
        mi.set_variant("llvm_ad_rgb")
    table = material_table([material(name) for name in material_names()], 905)
    cos = np.tile(np.linspace(0, 1, 101, dtype=np.float32), len(material_names()))
    rows = np.repeat(np.arange(len(material_names()), dtype=np.uint32), 101)
    texture = np.linspace(0, 1, len(cos), dtype=np.float32)
    gathered = {name: dr.gather(mi.Float, mi.Float(column), mi.UInt32(rows)) for name, column in table.items()}
    plain = {name: column[rows].astype(np.float64) for name, column in table.items()}
    kernel = monostatic_brdf(mi.Float(cos), gathered, texture=mi.Float(texture)).numpy()
    expected = monostatic_brdf(cos.astype(np.float64), plain, texture=texture.astype(np.float64))
    np.testing.assert_allclose(kernel, expected, rtol=2e-5, atol=1e-7)
    split = specular_split(mi.Float(cos), gathered)
    for found, wanted in zip(split, specular_split(cos.astype(np.float64), plain), strict=True):
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-6)
