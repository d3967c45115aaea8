"""Spectrum files: ECOSTRESS / ASTER text and plain columns, units stated or found, errors by file name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from parhelion.core.errors import FormatError
from parhelion.surfaces.spectra import read_spectrum

SPECTRA = Path(__file__).resolve().parents[3] / ".." / "shared" / "data" / "spectra"
needs_spectra = pytest.mark.skipif(not SPECTRA.is_dir(), reason="the measured spectra are not on this machine")

HEADER = """Name: Test tile
Type: manmade
Description: A tile that was made up, with a description
that runs over two lines.
Measurement: Directional (10 Degree) Hemispherical Reflectance
First Column: X
Second Column: Y
X Units: {x}
Y Units: {y}
First X Value: {first}
Last X Value: {last}
Number of X Values: 3
Additional Information: none

"""


def write(folder: Path, text: str, name: str = "tile.txt") -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


@needs_spectra
def test_asphaltic_concrete_as_helios_ships_it():
    spectrum = read_spectrum(SPECTRA / "helios" / "asphalt.txt")
    assert spectrum.name == "Asphaltic concrete"
    assert np.interp(0.90, spectrum.wavelength_um, spectrum.reflectance) == pytest.approx(0.2768, abs=5e-5)
    assert len(spectrum.wavelength_um) == 491
    assert spectrum.wavelength_um[0] == 0.42
    assert spectrum.wavelength_um[-1] == 14.0
    assert spectrum.header["Sample No."] == "0425UUUASP"
    assert spectrum.header["Y Units"] == "percent"
    assert spectrum.header["Description"].endswith("Concrete from runway side strips.")


@needs_spectra
@pytest.mark.parametrize("file", sorted((SPECTRA / "helios").glob("*.txt")), ids=lambda file: file.stem)
def test_helios_files(file):
    spectrum = read_spectrum(file)
    assert (np.diff(spectrum.wavelength_um) > 0).all()
    assert spectrum.wavelength_um[0] == pytest.approx(float(spectrum.header["First X Value"]))
    assert spectrum.wavelength_um[-1] == pytest.approx(float(spectrum.header["Last X Value"]), rel=1e-3)
    assert spectrum.reflectance.min() >= -0.01
    assert 0.02 < spectrum.reflectance.max() <= 1.0


@needs_spectra
def test_mavs_files():
    files = sorted((SPECTRA / "mavs").glob("*.spec"))
    assert len(files) == 61
    for file in files:
        spectrum = read_spectrum(file)
        assert 0.2 <= spectrum.wavelength_um[0] < 0.5
        assert spectrum.wavelength_um[-1] > 2.4
        assert 0.02 < spectrum.reflectance.max() <= 1.0
        assert spectrum.header["X Units"] == "micrometers (by magnitude)"
        assert spectrum.header["Y Units"] == "fraction (by magnitude)"


@needs_spectra
def test_descending_file_comes_out_ascending():
    file = SPECTRA / "mavs" / "brown_sandy_loam.spec"
    first = file.read_text().split()[:2]
    spectrum = read_spectrum(file)
    assert spectrum.wavelength_um[-1] == float(first[0])
    assert spectrum.reflectance[-1] == float(first[1])


def test_percent_and_descending_in_a_header(tmp_path):
    header = HEADER.format(x="Wavelength (micrometers)", y="Reflectance (percent)", first=2.5, last=0.4)
    spectrum = read_spectrum(write(tmp_path, header + "2.5\t30.0\n1.0\t20.0\t\n0.4\t0.9\n\n"))
    np.testing.assert_allclose(spectrum.wavelength_um, [0.4, 1.0, 2.5])
    np.testing.assert_allclose(spectrum.reflectance, [0.009, 0.2, 0.3])
    assert spectrum.name == "Test tile"
    assert spectrum.header["Description"] == "A tile that was made up, with a description that runs over two lines."


def test_stated_units_win_over_magnitude(tmp_path):
    # All values below 1.5 %: by magnitude alone these would be taken as fractions.
    header = HEADER.format(x="Wavelength (nanometers)", y="Reflectance (percent)", first=50, last=90)
    spectrum = read_spectrum(write(tmp_path, header + "50 0.5\n60 1.0\n90 1.2\n"))
    np.testing.assert_allclose(spectrum.wavelength_um, [0.05, 0.06, 0.09])
    np.testing.assert_allclose(spectrum.reflectance, [0.005, 0.01, 0.012])


def test_fraction_in_a_header(tmp_path):
    header = HEADER.format(x="Wavelength (um)", y="Reflectance", first=0.4, last=2.5)
    spectrum = read_spectrum(write(tmp_path, header + "0.4 0.1\n1.0 1.7\n2.5 0.3\n"))
    np.testing.assert_allclose(spectrum.reflectance, [0.1, 1.7, 0.3])


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("350 0.1\n905 0.2\n2500 0.3\n", ("nanometers (by magnitude)", "fraction (by magnitude)")),
        ("0.35,10\n0.905,20\n2.5,30\n", ("micrometers (by magnitude)", "percent (by magnitude)")),
        (
            "# a comment\nwavelength_nm,reflectance\n350,0.1\n905,0.2\n2500,0.3\n",
            ("nanometers", "fraction (by magnitude)"),
        ),
        ("wavelength (µm);reflectance %\n0.35;10\n0.905;20\n2.5;30\n", ("micrometers", "percent")),
        ("\ufeffw\tr\n0.35\t0.1\n0.905\t0.2\n2.5\t0.3\n", ("micrometers (by magnitude)", "fraction (by magnitude)")),
    ],
)
def test_two_columns(tmp_path, text, units):
    spectrum = read_spectrum(write(tmp_path, text, "paint.csv"))
    np.testing.assert_allclose(spectrum.wavelength_um, [0.35, 0.905, 2.5])
    np.testing.assert_allclose(spectrum.reflectance, [0.1, 0.2, 0.3])
    assert (spectrum.header["X Units"], spectrum.header["Y Units"]) == units
    assert spectrum.name == "paint"


def test_arguments_win(tmp_path):
    file = write(tmp_path, "50 0.5\n90 1.0\n")
    spectrum = read_spectrum(file, wavelength_unit="nm", percent=True)
    np.testing.assert_allclose(spectrum.wavelength_um, [0.05, 0.09])
    np.testing.assert_allclose(spectrum.reflectance, [0.005, 0.01])


def test_repeated_wavelengths_are_averaged_and_deleted_channels_left_out(tmp_path):
    spectrum = read_spectrum(write(tmp_path, "0.4 0.1\n0.5 0.2\n0.5 0.4\n0.6 -1.23e+34\n0.7 0.5\n"))
    np.testing.assert_allclose(spectrum.wavelength_um, [0.4, 0.5, 0.7])
    np.testing.assert_allclose(spectrum.reflectance, [0.1, 0.3, 0.5])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no rows"),
        ("just some words\n", "no rows"),
        ("400\n500\n", "no rows"),
        ("0.4 0.1\n", "got 1"),
        ("0.4 0.1\n0.4 0.2\n", "same wavelength"),
        ("0.4 0.1\nbroken line\n0.5 0.2\n", "line 2"),
        ("0.4 0.1\n0.5 nan\n", "finite"),
        ("-0.4 0.1\n0.5 0.1\n", "positive"),
        (
            HEADER.format(x="Wavelength (micrometers)", y="Reflectance (percent)", first=1, last=2) + "1 1\n2 2\n",
            "states 3",
        ),
        (HEADER.format(x="Wavenumber (cm-1)", y="Reflectance", first=1, last=2) + "1 1\n2 2\n3 3\n", "X Units"),
        (
            HEADER.format(x="Wavelength (um)", y="Transmittance (percent)", first=1, last=2) + "1 1\n2 2\n3 3\n",
            "Y Units",
        ),
    ],
)
def test_errors_name_the_file(tmp_path, text, words):
    with pytest.raises(FormatError, match=words) as caught:
        read_spectrum(write(tmp_path, text, "bad.txt"))
    assert "bad.txt" in str(caught.value)


def test_missing_folder_and_binary_files(tmp_path):
    with pytest.raises(FormatError, match=r"absent\.txt: no such file"):
        read_spectrum(tmp_path / "absent.txt")
    with pytest.raises(FormatError, match="is a folder, not a file"):
        read_spectrum(tmp_path)
    (tmp_path / "image.bin").write_bytes(b"\x89PNG\0\0\0")
    with pytest.raises(FormatError, match="not a text file"):
        read_spectrum(tmp_path / "image.bin")
