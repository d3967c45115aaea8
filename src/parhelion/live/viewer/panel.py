"""Controls next to the scene. They only change the session; another thread does the work."""

from __future__ import annotations

import html
import time as clock
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from parhelion.live.viewer.colours import Legend, Ramp, Swatches, rgb
from parhelion.live.viewer.frames import CameraFrame
from parhelion.live.viewer.opening import POINT_SIZE_M
from parhelion.live.viewer.session import SPEEDS, Pick, Session
from parhelion.live.viewer.stages import ViewFrame
from parhelion.weather import media
from parhelion.weather.daylight import Daylight
from parhelion.weather.ground import AMOUNTS as GROUND
from parhelion.weather.media import Amount

SAVE, HOME = "save PNG", "reset view"
_BRAND = "#ffb454"
_MUTED = "#8d99a8"
_BLANK = np.zeros((2, 2, 3), np.uint8)
_NO_PICK = "Click near a point to read its fields."


_DAYLIGHT = {
    "sun_elevation_deg": ("elevation [°]", -18.0, 90.0, 1.0),
    "sun_azimuth_deg": ("azimuth [°]", 0.0, 360.0, 1.0),
    "turbidity": ("turbidity", 1.0, 10.0, 0.1),
    "cloud_optical_depth": ("cloud depth", 0.0, 50.0, 0.5),
}
"""Title, limits and step of the slider of each field of daylight."""
_HELD_S = 2.0
"""Time [s] for which a slider keeps the value that a person gave it, until the stream has taken it over."""


@dataclass
class _Slider:
    """Slider of the weather or the daylight."""

    control: Any
    low: float
    high: float
    scale: float
    """Amount per unit of the slider."""
    moved_s: float = -_HELD_S
    """Time of the last change by hand [s]."""


@dataclass(frozen=True)
class PanelActions:
    """Actions of the server that controls trigger."""

    point_size: Callable[[float], None]
    """Set the diameter of points [m]."""
    show_world: Callable[[bool], None]
    show_roof: Callable[[bool], None]
    """Show or hide what is above the cut through a building."""
    show_beams: Callable[[bool], None]
    follow: Callable[[bool], None]
    """Set whether cameras follow the sensor."""
    save: Callable[[Any], None]
    """Send a screenshot to one page."""
    home: Callable[[Any], None]
    """Reset the camera of one page."""


class Panel:
    """All controls and status texts."""

    def __init__(
        self,
        server: Any,
        session: Session,
        models: Sequence[str],
        actions: PanelActions,
        *,
        roof: bool = False,
        point_size_m: float = POINT_SIZE_M,
        more: Callable[[Any], None] | None = None,
    ) -> None:
        """`roof` offers to hide the roof, `more` adds tabs to the group of tabs."""
        self._gui, self._session, self._actions = server.gui, session, actions
        self.notes: tuple[str, ...] = ()
        """Additional status lines."""
        self._time: Any = None
        self._play: Any = None
        self._mount: tuple[Any, Any] | None = None
        self._air: dict[str, _Slider] = {}
        self._model: Any = None
        self._gui.configure_theme(
            dark_mode=True, show_logo=False, show_share_button=False, brand_color=rgb(_BRAND), control_width="medium"
        )
        self._status = self._gui.add_html(_status_html("measuring …"))
        self._pictures: dict[str, Any] = {}
        self._shown_pictures: dict[str, CameraFrame] = {}
        self._drawn = ""
        if session.stage.duration_s > 0:
            self._add_time()
        # Tabs keep the panel short enough for small screens.
        tabs = self._gui.add_tab_group()
        with tabs.add_tab("View"):
            self._add_view(point_size_m)
        with tabs.add_tab("Layers"):
            self._add_layers(roof)
        daylight: Mapping[str, float] | None = getattr(session.stage, "daylight", None)
        if session.stage.media or daylight:
            with tabs.add_tab("Weather"):
                self._add_weather()
                if daylight:
                    self._add_daylight(daylight)
        with tabs.add_tab("Sensor"):
            self._drawings = self._gui.add_html("", visible=False)
            if session.stage.world is not None and session.request.model:
                self._add_sensor(models)
        if more is not None:
            more(tabs)

    # ---- folders -----------------------------------------------------------------------------------------------

    def _add_view(self, point_size_m: float) -> None:
        gui, session = self._gui, self._session
        self._colour = gui.add_dropdown("colour", tuple(session.choices), initial_value=session.colour_by)
        self._legend = gui.add_html("")
        size = gui.add_slider("point [cm]", 1.0, 30.0, 0.5, 100 * point_size_m)
        size.on_update(lambda event: self._actions.point_size(event.target.value / 100))
        by_hand(self._colour, lambda value: session.change(colour_by=value))
        buttons = gui.add_button_group("picture", (SAVE, HOME), hint="download a screenshot; reset the camera")
        buttons.on_click(self._picture)
        self._picked = gui.add_html(_facts_html(None))

    def _add_layers(self, roof: bool) -> None:
        gui, session, actions = self._gui, self._session, self._actions
        if session.stage.world is not None:
            world = gui.add_checkbox("world", True)
            world.on_update(lambda event: actions.show_world(event.target.value))
            if roof:
                over = gui.add_checkbox("roof", False, hint="what is above the lidar's room")
                over.on_update(lambda event: actions.show_roof(event.target.value))
        if session.request.model:
            beams = gui.add_checkbox("beams", True)
            beams.on_update(lambda event: actions.show_beams(event.target.value))
        follow = gui.add_checkbox("follow", True, hint="the camera follows the sensor")
        follow.on_update(lambda event: actions.follow(event.target.value))
        for name in session.stage.lidars:
            shown = gui.add_checkbox(name, name not in session.request.hidden, hint="points of this lidar")
            by_hand(shown, partial(self._show_lidar, name))
        if session.stage.cameras:
            self._add_cameras()

    def _show_lidar(self, name: str, shown: Any) -> None:
        hidden = [one for one in self._session.request.hidden if one != name]
        self._session.change(hidden=tuple(hidden if shown else [*hidden, name]))

    def _add_cameras(self) -> None:
        gui, session = self._gui, self._session
        taken = gui.add_checkbox("pictures", session.request.pictures, hint="off is faster")
        by_hand(taken, lambda value: session.change(pictures=bool(value)))
        over = gui.add_checkbox(
            "points over",
            session.request.points_over,
            hint="project lidar points onto the image; near points are red",
        )
        by_hand(over, lambda value: session.change(points_over=bool(value)))
        for name in session.stage.cameras:
            self._pictures[name] = gui.add_image(_BLANK, label=name, format="jpeg", visible=False)

    def _add_time(self) -> None:
        gui, session = self._gui, self._session
        self._time = gui.add_slider("time [s]", 0.0, session.stage.duration_s, 0.01, round(session.request.time_s, 2))
        by_hand(self._time, lambda value: session.change(time_s=value))
        self._play = gui.add_button("play")
        self._play.on_click(lambda _: session.toggle())
        steps = gui.add_button_group("step", ("− 1 scan", "+ 1 scan"))
        steps.on_click(lambda event: session.step(1 if event.target.value.startswith("+") else -1))
        self._speed = gui.add_dropdown("speed", tuple(f"{value:g}" for value in SPEEDS), initial_value="1")
        by_hand(self._speed, lambda value: session.change(speed=float(value)))

    def _add_weather(self) -> None:
        weather, time = self._session.stage.base_weather, self._session.request.time_s
        present = {} if weather is None else {one.medium.name: one.amount for one in weather.present(time)}
        for name, medium in ((name, media.table()[name]) for name in self._session.stage.media):
            # The slider of a placed medium adds a part, so it starts at zero.
            now = present.get(name, medium.amount.clear) if medium.place is None else medium.amount.clear
            self._add_amount(name, medium.word, medium.amount, now)
        if self._session.stage.world is not None:  # recordings have no ground
            at = None if weather is None else weather.at(time)
            for name, amount in GROUND.items():
                self._add_amount(name, amount.word, amount, 0.0 if at is None else getattr(at, name))

    def _add_amount(self, name: str, word: str, amount: Amount, now: float) -> None:
        """Slider of one amount; `now` is that in the weather of the world."""
        shown = amount.slider
        ends_clear = amount.clear > amount.high  # a visibility: the upper end is clear air
        value = now / shown.scale
        if ends_clear:
            value, top = max(shown.low, round(min(value, shown.top))), shown.top
        else:
            top = max(shown.top, value)
        slider = self._gui.add_slider(
            f"{word} [{unit}]" if (unit := shown.unit or amount.unit) else word,
            shown.low,
            top,
            shown.step,
            float(value),
            marks=shown.marks or None,
            hint=shown.hint or None,
        )

        def change(new: float) -> None:
            chosen = amount.clear if ends_clear and new >= shown.top else float(new) * shown.scale
            self._air[name].moved_s = clock.monotonic()
            self._session.change(amounts={name: chosen})

        by_hand(slider, change)
        self._air[name] = _Slider(slider, shown.low, top, shown.scale)

    def _add_daylight(self, values: Mapping[str, float]) -> None:
        with self._gui.add_folder("Daylight"):
            for name, (title, low, high, step) in _DAYLIGHT.items():
                slider = self._gui.add_slider(
                    title,
                    low,
                    high,
                    step,
                    min(max(values[name], low), high),
                    hint=Daylight.model_fields[name].description,
                )

                def change(new: float, name: str = name) -> None:
                    self._air[name].moved_s = clock.monotonic()
                    self._session.change(daylight={name: float(new)})

                by_hand(slider, change)
                self._air[name] = _Slider(slider, low, high, 1.0)

    def _show_air(self, measured: ViewFrame) -> None:
        """Move the sliders to values that something else set; one that a person moves stays where it is."""
        now = clock.monotonic()
        for name, value in measured.air:
            slider = self._air[name]
            shown = min(max(value / slider.scale, slider.low), slider.high)
            if now - slider.moved_s > _HELD_S and abs(slider.control.value - shown) > 1e-6:
                slider.control.value = shown

    def _add_sensor(self, models: Sequence[str]) -> None:
        gui, session = self._gui, self._session
        request = session.request
        if len(session.stage.places) > 1:
            self._place = gui.add_dropdown("lidar", tuple(session.stage.places), initial_value=request.place)
            by_hand(self._place, self._go_to)
        options = tuple(models) if request.model in models else (request.model, *models)
        self._model = gui.add_dropdown("model", options, initial_value=request.model)
        by_hand(self._model, lambda value: session.change(model=value))
        at = gui.add_vector3("x y z [m]", request.mount_xyz, step=0.1)
        turn = gui.add_vector3("r p y [°]", request.mount_rpy_deg, step=1.0, hint="roll, pitch, yaw")
        by_hand(at, lambda value: session.change(mount_xyz=tuple(map(float, value))))
        by_hand(turn, lambda value: session.change(mount_rpy_deg=tuple(map(float, value))))
        self._mount = (at, turn)

    def _go_to(self, place: str) -> None:
        self._session.change(place=place)
        self.show_mount()

    def show_mount(self) -> None:
        """Show the model and the mount of the current request."""
        request = self._session.request
        if self._mount is not None:
            if request.model not in self._model.options:
                self._model.options = (request.model, *self._model.options)
            self._model.value = request.model
            self._mount[0].value, self._mount[1].value = request.mount_xyz, request.mount_rpy_deg

    def _picture(self, event: Any) -> None:
        if event.client is not None:
            (self._actions.save if event.target.value == SAVE else self._actions.home)(event.client)

    # ---- status ------------------------------------------------------------------------------------------------

    def show(self, legend: Legend) -> None:
        """Update all texts."""
        session = self._session
        measured = session.measured
        if self._time is not None:
            self._time.value = round(min(session.request.time_s, session.stage.duration_s), 2)
            self._speed.value = f"{session.speed:g}"
        self.show_playing()
        if measured is None:
            return
        self._show_pictures(measured)
        self._show_air(measured)
        if tuple(self._colour.options) != tuple(session.choices):
            self._colour.options = tuple(session.choices)
        self._colour.value = session.colour_by
        self._legend.content = legend_html(legend)
        points = f"<b>{_count(len(measured.cloud))}</b> points"
        lines = [points + (f" of {_count(measured.shots)} shots" if measured.shots else "")]
        if measured.shots:
            rate = session.rate_hz
            shown = f", {rate:.1f} clouds/s" if session.playing and rate > 0 else ""
            if measured.seconds:
                lines.append(f"measured in {1e3 * measured.seconds:.0f} ms{shown}")
        lines += [html.escape(note) for note in (*measured.notes, *self.notes)]
        self._status.content = _status_html("<br>".join(lines))
        self._show_drawings(measured)

    def _show_drawings(self, measured: ViewFrame) -> None:
        drawn = drawings_html(measured.drawings)
        if self._drawn != drawn:
            self._drawn = self._drawings.content = drawn
            self._drawings.visible = bool(drawn)

    def _show_pictures(self, measured: ViewFrame) -> None:
        there = {shot.name: shot for shot in measured.pictures}
        for name, shown in self._pictures.items():
            shot = there.get(name)
            if shot is not None and self._shown_pictures.get(name) is not shot:
                self._shown_pictures[name] = shot
                shown.image = shot.pixels
            if shown.visible != (shot is not None):
                shown.visible = shot is not None

    def show_playing(self) -> None:
        """Set the label of the play button to its action."""
        label = "pause" if self._session.playing else "play"
        if self._play is not None and self._play.label != label:
            self._play.label = label

    def show_error(self, text: str) -> None:
        """Show an error until the next cloud."""
        self._status.content = _status_html(f'<span style="color:#ff6b6b">{html.escape(text)}</span>')

    def show_pick(self, pick: Pick | None) -> None:
        """Show the fields of a point."""
        self._picked.content = _facts_html(pick)


def by_hand(control: Any, change: Callable[[Any], None]) -> None:
    """Call `change` with the new value if a person changed it, not if the program did."""

    def changed(event: Any) -> None:
        if event.client is not None:
            change(event.target.value)

    control.on_update(changed)


def _count(number: int) -> str:
    return f"{number:,}".replace(",", "\u202f")


def _status_html(content: str) -> str:
    style = "padding:0.2em 1em 0.4em;font-size:0.8em;line-height:1.4;max-height:9.9em;overflow-y:auto"
    return f'<div style="{style}">{content}</div>'


def legend_html(legend: Legend) -> str:
    """Legend as HTML. Names come from files, so they are escaped."""
    style = "padding:0.1em 1em 0.5em;font-size:0.8em"
    if isinstance(legend, Ramp):
        unit = f" [{html.escape(legend.unit)}]" if legend.unit not in ("", "1") else ""
        ticks = "".join(f"<span>{legend.value_at(share):.4g}</span>" for share in (0.0, 0.5, 1.0))
        return (
            f'<div style="{style}"><div style="height:0.7em;border-radius:3px;background:linear-gradient(to right,'
            f'{",".join(legend.stops)})"></div><div style="display:flex;justify-content:space-between;color:{_MUTED}">'
            f'{ticks}</div><div style="color:{_MUTED};text-align:center">{html.escape(legend.field)}{unit}</div></div>'
        )
    if isinstance(legend, Swatches):
        rows = "".join(
            f'<div style="display:flex;gap:0.5em;align-items:center"><span style="width:0.8em;height:0.8em;'
            f'border-radius:2px;background:{colour}"></span><span style="flex:1">{html.escape(word)}</span>'
            f'<span style="color:{_MUTED}">{_count(number)}</span></div>'
            for word, colour, number in legend.rows
        )
        more = f'<div style="color:{_MUTED}">and {legend.left_out} more</div>' if legend.left_out else ""
        return f'<div style="{style}">{rows}{more}</div>'
    return ""


def drawings_html(drawings: Sequence[tuple[str, str]]) -> str:
    """Drawings of sensors as HTML, each with the name of the sensor; '' if there is none."""
    style = "padding:0 1em 0.6em;font-size:0.8em"
    return "".join(
        f'<figure style="margin:0;{style}"><figcaption style="color:{_MUTED}">{html.escape(name)}</figcaption>{drawing}'
        "</figure>"
        for name, drawing in drawings
    )


def _facts_html(pick: Pick | None) -> str:
    style = "padding:0.2em 1em 0.6em;font-size:0.72em;line-height:1.25"
    if pick is None:
        return f'<div style="{style};color:{_MUTED}">{_NO_PICK}</div>'
    cells = [
        f'<td style="color:{_MUTED};padding-right:0.5em">{html.escape(name)}</td><td style="padding-right:0.5em">'
        f"{html.escape(value)} <span style='color:{_MUTED}'>{html.escape(unit)}</span></td>"
        for name, value, unit in pick.facts
    ]
    # Two facts per row keep the panel short.
    rows = "".join(f"<tr>{''.join(cells[k : k + 2])}</tr>" for k in range(0, len(cells), 2))
    return f'<div style="{style};max-height:19em;overflow-y:auto"><table>{rows}</table></div>'
