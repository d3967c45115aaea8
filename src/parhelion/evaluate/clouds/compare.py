"""Comparison of two clouds, or of two sequences of clouds, by all measures."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import PointCloud
from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.pose import Floats
from parhelion.evaluate.clouds import distances, objects, rates
from parhelion.pictures import html
from parhelion.pictures.charts import Chart, Curve
from parhelion.pictures.html import shown

DEFAULT_FIELDS = ("range", "intensity")
_CURVE_BINS = 60


@dataclass(frozen=True)
class Options:
    """Options of a comparison."""

    tolerance_m: float | None = None
    """Largest distance of a correct point from the reference [m]; by default the field `origin` decides, or 0.2 m."""
    exact_points: int = distances.EXACT_POINTS
    """Largest cloud for which the earth mover's distance is exact [points]."""
    fields: tuple[str, ...] = ()
    """Fields that must be compared; by default range and intensity, if both clouds have them."""
    distance_edges_m: tuple[float, ...] = objects.DISTANCE_CLASSES_M
    """Edges of the distance classes of objects [m]."""
    labels: tuple[str, ...] = ()
    """Labels of the objects to count; by default all."""
    still: bool = False
    """Sensor and scene are stationary in all clouds; the SNR is then that of each shot over time."""


@dataclass
class Comparison:
    """Measures of two clouds. The JSON file contains it as a dictionary."""

    name: str
    points_real: int
    points_simulated: int
    chamfer_m: float
    """Chamfer distance (Huang 2023, eq. 25)."""
    emd_m: float
    """Earth mover's distance, mean per point (Huang 2023, eq. 26)."""
    emd_sum_m: float
    """Earth mover's distance, sum over the points of the smaller cloud."""
    emd_exact: bool
    emd_method: str
    """'assignment', 'transport' or 'sliced'."""
    range_error_m: float | None
    """Mean absolute difference of the ranges of the same shots (Arce 2025, B.3); None without common shots."""
    range_pairs: int
    """Number of common shots."""
    detection_rate_percent: dict[str, float]
    """Share of points on objects (B.1), by 'real' and 'simulated'."""
    false_detection_rate_percent: dict[str, float]
    """Share of points caused by weather (B.2), by 'real' and 'simulated'."""
    snr_db: dict[str, float]
    """Signal-to-noise ratio of the intensity (B.4), by 'real' and 'simulated'."""
    density_m2: dict[str, float]
    """Points over the area of the field of view at the largest range (B.5), by 'real' and 'simulated'."""
    sparsity_percent: float
    """Loss of density from the real to the simulated cloud."""
    wasserstein: dict[str, float] = field(default_factory=dict)
    """Wasserstein-1 distance by field, in its unit."""
    ks: dict[str, float] = field(default_factory=dict)
    """Kolmogorov-Smirnov distance by field, 0 to 1."""
    objects: list[dict[str, Any]] = field(default_factory=list)
    """Rows by label and distance class (Huang 2023, Tables III and IV)."""
    histograms: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    """Histograms by field: centres of the bins, and shares of both clouds."""


def compare(
    real: PointCloud,
    simulated: PointCloud,
    options: Options | None = None,
    *,
    dry: PointCloud | None = None,
    name: str = "",
) -> Comparison:
    """All measures of two clouds. `dry` is the scene in clear air, the reference for correct and false detections.

    Lost shots, with coordinates that are not finite or all zero, are excluded from all measures.
    """
    how = options or Options()
    real, simulated = distances.returns_of(real), distances.returns_of(simulated)
    a, b = distances.points_of(real, "real cloud"), distances.points_of(simulated, "simulated cloud")
    moved = distances.earth_mover(a, b, exact_points=how.exact_points)
    pairs = rates.paired_ranges(real, simulated)
    matched = 0 if pairs is None else len(pairs[0])
    found = {
        "real": rates.detections(real, dry or simulated, how.tolerance_m),
        "simulated": rates.detections(simulated, dry or real, how.tolerance_m),
    }
    area = _scan_area(np.concatenate([a, b]))
    densities = {"real": rates.density(len(a), area), "simulated": rates.density(len(b), area)}
    result = Comparison(
        name,
        len(a),
        len(b),
        distances.chamfer(a, b),
        moved.mean_m,
        moved.sum_m,
        moved.exact,
        moved.method,
        rates.range_error(*pairs) if pairs is not None and matched else None,
        matched,
        {who: one.detection_rate_percent for who, one in found.items()},
        {who: one.false_detection_rate_percent for who, one in found.items()},
        _snr({"real": real, "simulated": simulated}),
        densities,
        rates.sparsity_percent(densities["real"], densities["simulated"]),
    )
    for word in _fields(real, simulated, how.fields):
        u, v = _values(real, word), _values(simulated, word)
        result.wasserstein[word] = distances.wasserstein(u, v)
        result.ks[word] = distances.kolmogorov_smirnov(u, v)
        result.histograms[word] = _histogram(u, v)
    if all("instance" in cloud.fields for cloud in (real, simulated)):
        result.objects = _objects(real, simulated, how)
    return result


def _scan_area(points: Floats) -> float:
    """Area [m²] of the field of view spanned by all points, at the largest range."""
    level = np.hypot(points[:, 0], points[:, 1])
    rise = np.degrees(np.arctan2(points[:, 2], level))
    turn = np.degrees(np.arctan2(points[:, 1], points[:, 0]))
    taken = np.unique(np.floor(turn + 180.0).astype(np.int64) % 360)
    return rates.scan_area(
        float(len(taken)),
        min(max(float(np.ptp(rise)), 1.0), 180.0),
        max(float(np.hypot(level, points[:, 2]).max()), 1e-6),
    )


def _snr(clouds: dict[str, PointCloud]) -> dict[str, float]:
    found = {}
    for who, cloud in clouds.items():
        if "intensity" in cloud.fields and len(cloud):
            values = _values(cloud, "intensity")
            if len(values) and values.mean() > 0.0 and values.std() > 0.0:
                found[who] = rates.snr_db(values)
    return found


def _fields(real: PointCloud, simulated: PointCloud, asked: Sequence[str]) -> list[str]:
    def has(cloud: PointCloud, word: str) -> bool:
        return word == "range" or (word in cloud.fields and cloud.fields[word].ndim == 1)

    for word in asked:
        for who, cloud in (("real", real), ("simulated", simulated)):
            if not has(cloud, word):
                there = ", ".join(["range", *cloud.fields])
                raise ConfigError(f"the clouds have no common field {word!r}: the {who} one has {there}")
    return [word for word in asked or DEFAULT_FIELDS if has(real, word) and has(simulated, word)]


def _values(cloud: PointCloud, word: str) -> Floats:
    values = rates.ranges_of(cloud) if word == "range" else np.asarray(cloud.fields[word], np.float64)
    return values[np.isfinite(values)]


def _histogram(u: Floats, v: Floats) -> dict[str, list[float]]:
    both = np.concatenate([u, v])
    low, high = float(both.min()), float(both.max())
    edges = np.linspace(low, high if high > low else low + 1.0, _CURVE_BINS + 1)
    shares: list[NDArray[Any]] = [np.histogram(part, edges)[0] / max(len(part), 1) for part in (u, v)]
    return {
        "middle": (0.5 * (edges[1:] + edges[:-1])).tolist(),
        "real": shares[0].tolist(),
        "simulated": shares[1].tolist(),
    }


def _objects(real: PointCloud, simulated: PointCloud, how: Options) -> list[dict[str, Any]]:
    """Tables III and IV of Huang 2023: both clouds by label and distance, with distances between common objects."""
    wanted = how.labels or None
    a, b = objects.objects_in(real, wanted), objects.objects_in(simulated, wanted)
    whole = objects.largest_boxes(a, b)
    twins = {one.instance: one for one in b}
    rows: dict[tuple[str, float, float], dict[str, Any]] = {}
    for who, seen in (("real", a), ("simulated", b)):
        for row in objects.by_distance(seen, how.distance_edges_m, whole):
            entry = rows.setdefault(
                (row.label, row.from_m, row.to_m), {"label": row.label, "from_m": row.from_m, "to_m": row.to_m}
            )
            entry[who] = {name: value for name, value in asdict(row).items() if name not in ("label", "from_m", "to_m")}
    for (label, low, high), entry in rows.items():
        both = [
            (one, twins[one.instance])
            for one in a
            if one.label == label and low <= one.distance_m < high and one.instance in twins
        ]
        if both:
            entry["chamfer_m"] = float(np.mean([distances.chamfer(x.points, y.points) for x, y in both]))
            moved = [distances.earth_mover(x.points, y.points, exact_points=how.exact_points) for x, y in both]
            entry["emd_m"] = float(np.mean([one.mean_m for one in moved]))
            entry["emd_exact"] = all(one.exact for one in moved)
    return [rows[key] for key in sorted(rows)]


# ---- sequences of clouds ---------------------------------------------------------------------------------------------


def pairs_of(real: Path, simulated: Path) -> list[tuple[Path, Path]]:
    """Matching files: two files, or the files of two folders, by name or otherwise by order."""
    from parhelion.io.recordings import cloud_files, existing, is_capture

    if existing(real).is_dir() != existing(simulated).is_dir():
        raise ConfigError(f"{real} and {simulated}: give two files or two folders")
    if not real.is_dir():
        return [(real, simulated)]
    first, second = ([one for one in cloud_files(folder) if not is_capture(one)] for folder in (real, simulated))
    names = {file.stem: file for file in second}
    common = [(file, names[file.stem]) for file in first if file.stem in names]
    if common:
        return common
    if len(first) != len(second):
        raise ConfigError(
            f"{real} has {len(first)} clouds and {simulated} has {len(second)}, without a name in common; "
            "clouds are paired by name, or by order if both folders have the same number"
        )
    return list(zip(first, second, strict=True))


def compare_files(
    pairs: Sequence[tuple[Path, Path]],
    options: Options | None = None,
    *,
    dry: Path | None = None,
    advance: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Measures of all pairs of files and their means, as in the JSON file and the report."""
    how = options or Options()
    reference = None if dry is None else PointCloud.load(dry)
    rows: list[Comparison] = []
    shots: dict[str, list[tuple[NDArray[np.int64], Floats]]] = {"real": [], "simulated": []}
    for real, simulated in pairs:
        files = {"real": real, "simulated": simulated}
        clouds = {who: distances.returns_of(PointCloud.load(file)) for who, file in files.items()}
        for path, cloud in ((real, clouds["real"]), (simulated, clouds["simulated"])):
            if not len(cloud):
                raise FormatError(f"{path}: the cloud is empty, so it cannot be compared")
        rows.append(compare(clouds["real"], clouds["simulated"], how, dry=reference, name=real.stem))
        if how.still:
            for who, cloud in clouds.items():
                shots[who].append(_shots_of(cloud, who))
        advance()
    summary = _means(rows)
    if how.still:
        summary["snr_db"] = {who: rates.snr_of_shots(found)[0] for who, found in shots.items()}
    return {**summary, "pairs": [asdict(row) for row in rows]}


def _shots_of(cloud: PointCloud, who: str) -> tuple[NDArray[np.int64], Floats]:
    if not {"ring", "column", "intensity"} <= set(cloud.fields):
        raise ConfigError(f"--still: the {who} clouds need the fields ring, column and intensity")
    ring, column = (np.asarray(cloud.fields[word], np.int64) for word in ("ring", "column"))
    keys, rows = np.unique(ring * 2**16 + column, return_index=True)
    return keys, np.asarray(cloud.fields["intensity"], np.float64)[rows]


def _means(rows: Sequence[Comparison]) -> dict[str, Any]:
    def mean(values: Sequence[float | None]) -> float | None:
        known = [value for value in values if value is not None and math.isfinite(value)]
        return float(np.mean(known)) if known else None

    def means(part: str) -> dict[str, float | None]:
        words = list(dict.fromkeys(word for row in rows for word in getattr(row, part)))
        return {word: mean([getattr(row, part).get(word) for row in rows]) for word in words}

    single = ("chamfer_m", "emd_m", "emd_sum_m", "range_error_m", "sparsity_percent")
    parts = ("detection_rate_percent", "false_detection_rate_percent", "snr_db", "density_m2", "wasserstein", "ks")
    return {
        "pairs_count": len(rows),
        "points_real": mean([row.points_real for row in rows]),
        "points_simulated": mean([row.points_simulated for row in rows]),
        **{word: mean([getattr(row, word) for row in rows]) for word in single},
        "emd_exact": all(row.emd_exact for row in rows),
        "emd_method": ", ".join(sorted({row.emd_method for row in rows})),
        **{part: means(part) for part in parts},
        "mape_percent": _mape(rows),
    }


def _mape(rows: Sequence[Comparison]) -> dict[str, float]:
    """Percentage errors (B.6) of the curves over all pairs."""
    found = {}
    for word, part in (
        ("detection_rate", "detection_rate_percent"),
        ("false_detection_rate", "false_detection_rate_percent"),
        ("snr", "snr_db"),
        ("density", "density_m2"),
    ):
        both = [(getattr(row, part).get("real"), getattr(row, part).get("simulated")) for row in rows]
        known = [(y, x) for y, x in both if y and x is not None and math.isfinite(y) and math.isfinite(x)]
        if known and len(known) == len(rows):
            found[word] = rates.mape_percent([y for y, _ in known], [x for _, x in known])
    return found


# ---- Report of a comparison of clouds -------------------------------------------------------------------------------


_UNITS = {"range": "m", "intensity": "vendor scale"}
_MOST_PAIRS = 200


def summary_rows(result: dict[str, Any]) -> list[tuple[str, str]]:
    """Means as labelled values, for the terminal and the report."""

    def both(part: str, unit: str) -> str:
        values = result[part]
        return f"{shown(values.get('real'))} / {shown(values.get('simulated'))}{unit}" if values else "–"

    kind = "exact" if result["emd_exact"] else "approximate, a lower bound"
    rows = [
        ("pairs of clouds", str(result["pairs_count"])),
        ("points, real / simulated", f"{result['points_real']:.0f} / {result['points_simulated']:.0f}"),
        ("Chamfer distance", f"{shown(result['chamfer_m'])} m"),
        ("earth mover's distance", f"{shown(result['emd_m'])} m per point ({kind}: {result['emd_method']})"),
        ("range error of the same shots", f"{shown(result['range_error_m'])} m"),
        ("detection rate, real / simulated", both("detection_rate_percent", " %")),
        ("false detection rate, real / simulated", both("false_detection_rate_percent", " %")),
        ("SNR of the intensity, real / simulated", both("snr_db", " dB")),
        ("density, real / simulated", both("density_m2", " points/m²")),
        ("sparsity", f"{shown(result['sparsity_percent'])} %"),
    ]
    for word, value in result["wasserstein"].items():
        rows.append(
            (f"Wasserstein, KS of {word}", f"{shown(value)} {_UNITS.get(word, '')}, {shown(result['ks'][word])}")
        )
    for word, value in result["mape_percent"].items():
        rows.append((f"MAPE of {word.replace('_', ' ')}", f"{shown(value)} %"))
    return rows


def page_of(result: dict[str, Any], real: str, simulated: str, command: str = "") -> str:
    """Report as HTML; `command` is the command line that created it."""
    tiles = [
        ("Chamfer [m]", shown(result["chamfer_m"], ".3g")),
        ("EMD [m per point]", shown(result["emd_m"], ".3g")),
        ("range error [m]", shown(result["range_error_m"], ".3g")),
        ("pairs", result["pairs_count"]),
    ]
    return html.page(
        "Clouds compared",
        html.section("summary", "All measures", html.table((), summary_rows(result))),
        html.section("distributions", "Distributions of the first pair", html.pair(*_distributions(result))),
        _objects_section(result),
        _pairs(result),
        lead=(f"Real: {real}", f"Simulated: {simulated}"),
        facts=tiles,
        command=command,
    )


def _distributions(result: dict[str, Any]) -> list[str]:
    plots = []
    for word, bins in result["pairs"][0]["histograms"].items():
        looks = (("real", "thick"), ("simulated", "line"))
        curves = [Curve.of(who, bins["middle"], bins[who], k, look) for k, (who, look) in enumerate(looks)]
        unit = _UNITS.get(word, "")
        chart = Chart(curves, "share", f"{word} [{unit}]" if unit else word, zero=True)
        plots.append(chart.figure(word.capitalize()))
    return plots


def _objects_section(result: dict[str, Any]) -> str:
    rows = []
    for row in result["pairs"][0]["objects"]:
        for who in ("real", "simulated"):
            if who not in row:
                continue
            part = row[who]
            lost = part["truncation_percent"]
            rows.append(
                (
                    row["label"],
                    f"{row['from_m']:g}–{row['to_m']:g} m",
                    who,
                    part["objects"],
                    f"{part['count']:.0f}",
                    shown(part["volume_m3"], ".3g"),
                    shown(part["density_m3"], ".3g"),
                    shown(lost, ".3g"),
                    shown(row.get("chamfer_m"), ".3g"),
                    shown(row.get("emd_m"), ".3g"),
                )
            )
    columns = (
        "label", "distance", "cloud", "objects", "points", "box [m³]", "points/m³", "truncated [%]", "Chamfer [m]",
        "EMD [m]",
    )  # fmt: skip
    note = html.paragraph(
        "Means over the objects of the first pair. Truncation is the share of the largest box of an object in either "
        "cloud that its points do not span."
    )
    table = html.table(columns, rows, kinds="---nnnnnnn")
    return html.section("objects", "Objects by distance", table, note) if rows else ""


def _pairs(result: dict[str, Any]) -> str:
    rows = [
        (
            pair["name"],
            pair["points_real"],
            pair["points_simulated"],
            shown(pair["chamfer_m"]),
            shown(pair["emd_m"]),
            shown(pair["range_error_m"]),
        )
        for pair in result["pairs"][:_MOST_PAIRS]
    ]
    columns = ("pair", "points, real", "points, simulated", "Chamfer [m]", "EMD [m]", "range error [m]")
    return html.section("pairs", "Pairs", html.table(columns, rows, kinds="-nnnnn")) if len(rows) > 1 else ""
