"""Tab for editing: a list of objects, a gizmo, materials and labels, undo, and the file to save."""

from __future__ import annotations

import html
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from parhelion.core.errors import ConfigError, ParhelionError
from parhelion.core.pose import Pose
from parhelion.live.viewer.editing import BRDFS, SHAPES, Edits, ScenarioDocument, Target, WorldDocument
from parhelion.live.viewer.panel import by_hand
from parhelion.live.viewer.session import Session

NOTHING = "nothing"
GHOST_COLOUR, GHOST_OPACITY = (255, 180, 84), 0.55
_GHOST_TRIANGLES = 200_000
_FARTHEST_M = 1e6
_GIZMO_M = (0.8, 6.0)
"""Smallest and largest size of the gizmo [m]."""
_PARAMETERS = {
    "lambert": (),
    "oren-nayar": ("roughness_deg",),
    "phong": ("specular_share", "exponent"),
    "cook-torrance": ("roughness", "refractive_index"),
}
_SAME = "unchanged"

Later = Callable[[Callable[[], None], str], None]
MakeDocument = Callable[[], "WorldDocument | ScenarioDocument"]


class EditTab:
    """Controls of the tab. Callbacks of pages only queue work; the measuring thread does it."""

    def __init__(
        self,
        server: Any,
        tab: Any,
        session: Session,
        make: MakeDocument,
        later: Later,
        redraw: Callable[[], None],
    ) -> None:
        """`make` loads the document at the first edit, `later` queues work, `redraw` shows an edited world."""
        self._gui, self._scene, self._session, self._tab = server.gui, server.scene, session, tab
        self._make, self._later, self._redraw = make, later, redraw
        self._edits: Edits | None = None
        self._target: Target | None = None
        self._gizmo: Any = None
        with tab:
            self._start = self._gui.add_button("start editing", hint="loads the world again, to edit it")
            self._state = self._gui.add_html("")
        self._start.on_click(lambda _: self._do(self._begin))

    @property
    def selects(self) -> bool:
        """True if a click selects an object."""
        return self._edits is not None and bool(self._click.value)

    def _do(self, work: Callable[[], None], kind: str = "") -> None:
        """Queue work; its errors are shown in the tab. Of waiting work of one kind, only the last is done."""

        def guarded() -> None:
            try:
                work()
            except ParhelionError as error:
                self._show_state(str(error), wrong=True)

        self._later(guarded, kind)

    # ---- controls ----------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._edits is None:
            self._edits = Edits(self._make(), self._session)
            self._start.visible = False
            with self._tab:
                self._add_controls()
            self._refresh("")

    def _add_controls(self) -> None:
        gui = self._gui
        self._what = gui.add_dropdown("object", (NOTHING,), initial_value=NOTHING)
        by_hand(self._what, lambda name: self._do(lambda: self._select(name)))
        self._click = gui.add_checkbox("click selects", True, hint="a click in the scene selects an object")
        self._xyz = gui.add_vector3("position [m]", (0.0, 0.0, 0.0), step=0.1)
        self._rpy = gui.add_vector3("r p y [°]", (0.0, 0.0, 0.0), step=5.0, hint="roll, pitch, yaw")
        for control in (self._xyz, self._rpy):
            by_hand(control, lambda _: self._do(self._move_to_numbers, "numbers"))
        self._label = gui.add_text("label", "")
        # Pages send every letter, so the label takes effect with a button.
        relabel = gui.add_button("set label")
        relabel.on_click(lambda _: self._do(self._set_label))
        self._material = gui.add_dropdown("material", (_SAME,), initial_value=_SAME, hint="* has a calibrated profile")
        by_hand(self._material, lambda name: self._do(lambda: self._set_material(name)))
        with gui.add_folder("Edit material", expand_by_default=False):
            self._add_material()
        change = gui.add_button_group("selected", ("copy", "delete"))
        change.on_click(lambda event: self._on_button(event, copy=Edits.duplicate, delete=Edits.delete))
        self._shape = gui.add_dropdown("new", tuple(SHAPES), initial_value="box")
        place = gui.add_button("place in front of the camera")
        place.on_click(lambda event: self._place(event.client))
        steps = gui.add_button_group("edits", ("undo", "redo"))
        steps.on_click(lambda event: self._do(lambda: self._step(event.target.value)) if event.client else None)
        self._file = gui.add_text("file", str(self._suggested()))
        self._replace = gui.add_checkbox("replace", False, hint="write over an existing file")
        save = gui.add_button("save")
        save.on_click(lambda _: self._do(self._save))

    def _add_material(self) -> None:
        gui = self._gui
        self._reflectance = gui.add_number("reflectance", 0.5, min=0.0, max=1.0, step=0.01)
        self._brdf = gui.add_dropdown("model", (_SAME, *BRDFS), initial_value=_SAME)
        self._numbers = (gui.add_number("first", 0.0, visible=False), gui.add_number("second", 0.0, visible=False))
        by_hand(self._brdf, self._show_parameters)
        self._spectrum = gui.add_text("spectrum", "", hint="spectrum file: wavelength and reflectance")
        apply = gui.add_button("apply to the selected object")
        apply.on_click(lambda _: self._do(self._edit_material))

    def _suggested(self) -> Path:
        edits = self._edits
        assert edits is not None
        home = edits.document.home
        stem = home.stem if home.exists() else self._session.stage.title.replace(" ", "-")
        return home.with_name(f"{stem.removesuffix('-edited')}-edited.yaml")

    # ---- selection ---------------------------------------------------------------------------------------------

    def pick(self, index: int | None) -> None:
        """Select the object of the world with an index; the queue of edits does it."""
        edits = self._edits
        if edits is not None and index is not None:
            found = [one.name for one in edits.targets() if one.item is not None and one.item.index == index]
            if found:
                self._do(lambda: self._select(found[0]))

    def _select(self, name: str) -> None:
        edits = self._edits
        assert edits is not None
        self._target = None if name == NOTHING else edits.target(name)
        self._show_target()

    def _with_target(self, edit: Callable[[Edits, Target], Any]) -> None:
        """Apply an edit to the selected target and show the result."""
        edits, target = self._edits, self._target
        if edits is None or target is None:
            raise ConfigError("select an object first")
        before = {one.name for one in edits.targets()}
        edit(edits, target)
        new = [one.name for one in edits.targets() if one.name not in before]
        self._refresh(new[-1] if new else target.name)

    def _refresh(self, selected: str) -> None:
        """Show the edited document."""
        edits = self._edits
        assert edits is not None
        names = (NOTHING, *(one.name for one in edits.targets()))
        if tuple(self._what.options) != names:
            self._what.options = names
        self._target = edits.target(selected) if selected in names and selected != NOTHING else None
        self._redraw()
        self._show_target()
        undo, redo = edits.counts
        saved = "saved" if edits.is_saved else "not saved"
        self._show_state(f"{undo} edits, {redo} undone; {saved}")

    def _show_target(self) -> None:
        target = self._target
        if self._gizmo is not None:
            self._gizmo.remove()
            self._gizmo = None
        self._what.value = NOTHING if target is None else target.name
        if target is None:
            return
        self._xyz.value = tuple(float(value) for value in np.round(target.pose.xyz, 6))
        self._rpy.value = tuple(float(value) for value in np.round(target.pose.rpy_deg, 6))
        if target.item is not None:
            self._show_surface(target)
        if not target.moves:
            self._add_gizmo(target)

    def _show_surface(self, target: Target) -> None:
        assert target.item is not None
        assert self._edits is not None
        self._label.value = target.item.label
        kinds = list(dict.fromkeys(part.material.name for part in target.item.parts))
        calibrated = self._calibrated()
        names = [f"{name} *" if name in calibrated else name for name in self._edits.material_names()]
        now = kinds[0] if len(kinds) == 1 else f"{len(kinds)} materials"
        now = f"{now} *" if now in calibrated else now
        self._material.options = tuple(names if now in names else [now, *names])
        self._material.value = now
        material = target.item.parts[0].material
        low, high = material.wavelength_range_nm
        if low <= self._wavelength_nm() <= high:
            self._reflectance.value = round(material.reflectance_at(self._wavelength_nm()), 4)
        self._brdf.value = _SAME
        self._show_parameters(_SAME)

    def _lidar(self) -> Any:
        request, stage = self._session.request, self._session.stage
        find = getattr(stage, "lidar_of", None)
        return None if find is None else find(request)

    def _wavelength_nm(self) -> float:
        lidar = self._lidar()
        return 905.0 if lidar is None else float(lidar.config.wavelength_nm)

    def _calibrated(self) -> set[str]:
        """Materials with a calibrated profile in the data sheet of the lidar."""
        lidar = self._lidar()
        calibration = None if lidar is None else lidar.config.calibration
        return set() if calibration is None else set(calibration.materials)

    def _add_gizmo(self, target: Target) -> None:
        size = 1.0
        if target.item is not None:
            lower, upper = target.item.bounds()
            size = float(np.clip(0.7 * np.linalg.norm(upper - lower), *_GIZMO_M))
        x, y, z, w = (float(value) for value in target.pose.quat_xyzw)
        far = ((-_FARTHEST_M, _FARTHEST_M),) * 3
        self._gizmo = self._scene.add_transform_controls(
            "/edit/gizmo", scale=size, translation_limits=far, depth_test=False, disable_rotations=not target.turns,
            wxyz=(w, x, y, z), position=tuple(float(value) for value in target.pose.xyz),
        )  # fmt: skip
        self._gizmo.on_update(lambda event: self._do(self._move_to_gizmo) if event.phase == "end" else None)
        if target.item is not None and target.item.triangle_count <= _GHOST_TRIANGLES:
            self._add_ghost(target)

    def _add_ghost(self, target: Target) -> None:
        """Copy of the selected object that moves with the gizmo."""
        assert target.item is not None
        back = target.pose.inverse()
        for number, part in enumerate(target.item.parts):
            self._scene.add_mesh_simple(
                f"/edit/gizmo/{number}", back.apply(part.placed).astype(np.float32), part.mesh.faces.astype(np.uint32),
                color=GHOST_COLOUR, opacity=GHOST_OPACITY, side="double", cast_shadow=False, receive_shadow=False,
            )  # fmt: skip

    # ---- edits -------------------------------------------------------------------------------------------------

    def _move_to_gizmo(self) -> None:
        if self._gizmo is None:
            return
        w, x, y, z = (float(value) for value in self._gizmo.wxyz)
        pose = Pose(np.array(self._gizmo.position, np.float64), np.array([x, y, z, w]))
        self._with_target(lambda edits, target: edits.move(target, pose))

    def _move_to_numbers(self) -> None:
        pose = Pose(tuple(map(float, self._xyz.value)), rpy_deg=tuple(map(float, self._rpy.value)))
        self._with_target(lambda edits, target: edits.move(target, pose))

    def _set_label(self) -> None:
        self._with_target(lambda edits, target: edits.set_label(target, str(self._label.value)))

    def _set_material(self, name: str) -> None:
        self._with_target(lambda edits, target: edits.set_material(target, name.removesuffix(" *")))

    def _show_parameters(self, model: str) -> None:
        names = (*_PARAMETERS.get(model, ()), "", "")
        for name, control in zip(names, self._numbers, strict=False):
            control.visible = bool(name)
            if name:
                control.label, control.value = name, float(BRDFS[model][name])

    def _edit_material(self) -> None:
        model = str(self._brdf.value)
        brdf = None
        if model != _SAME:
            values = dict(zip(_PARAMETERS[model], (float(one.value) for one in self._numbers), strict=False))
            brdf = {"model": model, **values}
        shown = round(float(self._reflectance.value), 4)

        def edit(edits: Edits, target: Target) -> None:
            wavelength = self._wavelength_nm()
            assert target.item is not None
            known = round(target.item.parts[0].material.reflectance_at(wavelength), 4)
            reflectance = None if self._spectrum.value or shown == known else shown
            edits.edit_material(
                target, wavelength, reflectance=reflectance, brdf=brdf, spectrum_file=str(self._spectrum.value)
            )

        self._with_target(edit)

    def _on_button(self, event: Any, **edits: Callable[[Edits, Target], None]) -> None:
        if event.client is not None:
            edit = edits[event.target.value]
            self._do(lambda: self._with_target(edit))

    def _place(self, client: Any) -> None:
        """Place a shape on the ground at the point that the camera looks at."""
        if client is None:
            return
        x, y, z = (float(value) for value in client.camera.look_at)
        kind = str(self._shape.value)

        def place() -> None:
            edits, world = self._edits, self._session.stage.world
            assert edits is not None
            assert world is not None
            ground = float(world.height(x, y))
            before = {one.name for one in edits.targets()}
            edits.add(kind, Pose((x, y, ground if np.isfinite(ground) else z)))
            self._refresh(next(one.name for one in edits.targets() if one.name not in before))

        self._do(place)

    def _step(self, word: str) -> None:
        edits = self._edits
        assert edits is not None
        (edits.undo if word == "undo" else edits.redo)()
        self._refresh("" if self._target is None else self._target.name)

    def _save(self) -> None:
        edits = self._edits
        assert edits is not None
        written = edits.save(Path(str(self._file.value)).expanduser(), replace=bool(self._replace.value))
        self._replace.value = False
        self._show_state(f"saved {' and '.join(map(str, written))}")

    def _show_state(self, text: str, *, wrong: bool = False) -> None:
        colour = ";color:#ff6b6b" if wrong else ""
        self._state.content = (
            f'<div style="padding:0.2em 1em 0.6em;font-size:0.8em;line-height:1.4{colour}">{html.escape(text)}</div>'
        )
