"""Road networks for tests, as OpenDRIVE text."""

from __future__ import annotations


def lane(number: int, kind: str = "driving", width: float = 3.5, links: str = "", more: str = "") -> str:
    """One lane of constant width."""
    size = "" if number == 0 else f'<width sOffset="0" a="{width}" b="0" c="0" d="0"/>'
    return f'<lane id="{number}" type="{kind}" level="false"><link>{links}</link>{size}{more}</lane>'


MARK = '<roadMark sOffset="0" type="{kind}" width="0.15" color="white"/>'


def linked(before: int | None = None, after: int | None = None) -> str:
    """Links of a lane."""
    text = "" if before is None else f'<predecessor id="{before}"/>'
    return text + ("" if after is None else f'<successor id="{after}"/>')


def road(
    number: int,
    geometry: str,
    length: float,
    *,
    right: str = "",
    left: str = "",
    junction: int = -1,
    link: str = "",
    elevation: str = "",
    lateral: str = "",
    offset: str = "",
    more: str = "",
    centre: str = "",
) -> str:
    """One road with one section."""
    return f"""<road id="{number}" length="{length}" junction="{junction}"><link>{link}</link>
<type s="0" type="town"><speed max="50" unit="km/h"/></type><planView>{geometry}</planView>
<elevationProfile>{elevation}</elevationProfile><lateralProfile>{lateral}</lateralProfile>
<lanes>{offset}<laneSection s="0"><left>{left}</left><center>{lane(0, "none", more=centre)}</center>
<right>{right}</right></laneSection></lanes>
{more}</road>"""


def geometry(shape: str, length: float, x: float = 0.0, y: float = 0.0, heading: float = 0.0, s: float = 0.0) -> str:
    """One element of a reference line."""
    return f'<geometry s="{s}" x="{x!r}" y="{y!r}" hdg="{heading!r}" length="{length!r}">{shape}</geometry>'


def network(*parts: str, header: str = "") -> str:
    """A whole file."""
    start = f'<?xml version="1.0"?><OpenDRIVE><header revMajor="1" revMinor="6">{header}</header>'
    return f"{start}{''.join(parts)}</OpenDRIVE>"


def tee_junction() -> str:
    """Road 1 from the west, 2 to the east, 3 to the south, joined by connections 10 (straight) and 11 (right turn)."""
    both = {"right": lane(-1, links=linked(after=-1)), "left": lane(1, links=linked(before=1))}
    link = '<successor elementType="junction" elementId="100"/>'
    west = road(1, geometry("<line/>", 50.0, -60.0), 50.0, link=link, right=lane(-1), left=lane(1))
    start = '<predecessor elementType="junction" elementId="100"/>'
    east = road(2, geometry("<line/>", 50.0, 10.0), 50.0, link=start, **both)
    south = road(3, geometry("<line/>", 50.0, 0.0, -10.0, -1.5707963267948966), 50.0, link=start, **both)

    def ways(after: int) -> str:
        return (
            '<predecessor elementType="road" elementId="1" contactPoint="end"/>'
            f'<successor elementType="road" elementId="{after}" contactPoint="start"/>'
        )

    through = linked(-1, -1)
    straight = road(
        10, geometry("<line/>", 20.0, -10.0), 20.0, junction=100, link=ways(2), right=lane(-1, links=through)
    )
    turn = geometry('<arc curvature="-0.1"/>', 15.707963267948966, -10.0)
    right = road(11, turn, 15.707963267948966, junction=100, link=ways(3), right=lane(-1, links=through))
    rows = "".join(
        f'<connection id="{k}" incomingRoad="1" connectingRoad="{10 + k}" contactPoint="start">'
        '<laneLink from="-1" to="-1"/></connection>'
        for k in range(2)
    )
    return network(west, east, south, straight, right, f'<junction id="100" name="t">{rows}</junction>')
